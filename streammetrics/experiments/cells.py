"""Cells, (stage, variant), and how the effects in stages are combined. Moments in, estimates out. Pure.

An effect is estimated within each stage and then combined, so a change of the traffic or of the mean between stages is no effect. Stage s
with lists D_st of the treatment and D_sc of the control has the weight (Mantel, Haenszel 1959, "Statistical aspects of the analysis of
data from retrospective studies of disease")

    w_s = D_st D_sc / (D_st + D_sc)

divided by the sum of all weights. It depends on no outcome. With a_c = w_s for the treatment's cell of stage s, and -w_s for the
control's, the difference is D = sum of a_c m_c, and its variance is

    V = sum over all pairs of cells of a_c a_c' S_cc'

S_cc' is the covariance of two cells' means, clustered by user (see `measured_cells`). It is not 0 if users are in both cells: in several
stages or, if each list is assigned on its own, in both arms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from streammetrics.experiments.cross_moments import CrossLayout
from streammetrics.experiments.estimates import Estimate
from streammetrics.experiments.floors import EventUsers, expected_event_users
from streammetrics.experiments.measured_cells import MeasuredCells
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stages import Stage, stage_key
from streammetrics.experiments.stored import Cell, Stored, StoredStage

CELL_USERS_MIN: Final = 10
"""Users that a stage needs in each of two arms before it counts for their comparison."""


class StageCounts(NamedTuple):
    """A configured stage, its key, what is stored of it, and the event time that it covers so far (ms)."""

    stage: Stage
    key: str
    stored: StoredStage
    from_ms: int
    to_ms: int

    def users(self, variant: str) -> int:
        return self.stored.moments.get(variant, (0,))[USERS_AT]

    def size(self, measure: Measure, variant: str) -> int:
        """Return what the weights of a measure count: lists, or users for a share of users."""
        return self.stored.moments.get(variant, (0, 0))[USERS_AT if measure.kind == "users" else LISTS_AT]


class Combined(NamedTuple):
    """A treatment and the control over the stages that count. `users` are summed over stages, so some may count more than once.

    covariance: of the two means. effective_users: of the treatment and of the control. event_users: see `floors`, summed over the
    smaller arms of all stages.
    """

    treatment: Estimate
    control: Estimate
    covariance: float
    effective_users: tuple[float, float]
    event_users: EventUsers

    @property
    def users(self) -> tuple[int, int]:
        return self.treatment.users, self.control.users


class Cells:
    """All cells of an experiment in one scope."""

    def __init__(self, measures: Measures, policy: Policy, stored: Stored) -> None:
        self.measures, self.policy, self.stored = measures, policy, stored
        self._cross = cross = CrossLayout(measures)
        self._both_ways = {**stored.pairs, **{(other, one): cross.swapped(shared) for (one, other), shared in stored.pairs.items()}}
        self.stages = tuple(_stages(policy, stored))
        self._moments = {(each.key, variant): sums for each in self.stages for variant, sums in each.stored.moments.items()}
        self._measured: dict[Measure, MeasuredCells] = {}
        self._left_out: dict[tuple[str, str, str], str | None] = {}
        known = {each.key for each in self.stages}
        self.foreign = tuple(each for each in stored.stages if each.key not in known or each.unit != policy.unit)
        """Stages whose lists were counted under other settings: the stage is not configured, or the unit was another one."""

    def measured(self, measure: Measure) -> MeasuredCells:
        """Return the estimates of a measure in all cells. They are computed when they are asked for, and only once."""
        found = self._measured.get(measure)
        if found is None:
            found = self._measured[measure] = MeasuredCells(self.measures, self._cross, measure, self._moments, self._both_ways)
        return found

    def left_out(self, stage: StageCounts, treatment: str, control: str) -> str | None:
        """Return why a stage does not count for a treatment and the control; None if it does."""
        key = stage.key, treatment, control
        if key not in self._left_out:
            self._left_out[key] = self._why_left_out(stage, treatment, control)
        return self._left_out[key]

    def _why_left_out(self, stage: StageCounts, treatment: str, control: str) -> str | None:
        for variant in (treatment, control):
            users = stage.users(variant)
            if users < CELL_USERS_MIN:
                return f"{variant} has {users:,} {'user' if users == 1 else 'users'} in it, at least {CELL_USERS_MIN} are needed"
        missed = {variant: self._missed_share(stage, variant) for variant in (treatment, control)}
        late = max(missed, key=lambda variant: missed[variant])
        if missed[late] - min(missed.values()) > self.policy.late_share_max:
            return f"{late} joined late, when {100 * missed[late]:.3g} % of its time had passed"
        return None

    @property
    def running(self) -> StageCounts | None:
        """The stage that runs now: the one of the newest event or, with labels, of the latest list. None before the first stage."""
        if self.policy.stage_label is not None:
            seen = [(stage.stored.last_ms, number) for number, stage in enumerate(self.stages) if stage.stored.last_ms is not None]
            return self.stages[max(seen)[1]] if seen else None
        now_ms = max(self.stored.newest_ms, self.stored.to_ms - 1)
        begun = [stage for stage in self.stages if stage.stage.start_ms is None or stage.stage.start_ms <= now_ms]
        return begun[-1] if begun else None

    def weights(self, measure: Measure, treatment: str, control: str, only: StageCounts | None = None) -> dict[str, float]:
        """Return the weights of the stages that count, by key. They add up to 1; empty if no stage counts. only: of this stage alone."""
        found, measured = {}, self.measured(measure)
        for stage in self.stages if only is None else (only,):
            cells = [(stage.key, variant) for variant in (treatment, control)]
            if self.left_out(stage, treatment, control) is None and all(measured.estimate(cell) is not None for cell in cells):
                one, other = (stage.size(measure, variant) for variant in (treatment, control))
                found[stage.key] = one * other / (one + other)
        return _normal(found)

    def combined(self, measure: Measure, treatment: str, control: str, only: StageCounts | None = None) -> Combined | None:
        """Return a treatment and the control over the stages that count for them, or in one stage alone; None if no stage counts."""
        weights = self.weights(measure, treatment, control, only)
        if not weights:
            return None
        measured, moments = self.measured(measure), self._moments
        own, against = ({(key, variant): weight for key, weight in weights.items()} for variant in (treatment, control))
        events = [expected_event_users(self.measures, measure, moments[key, treatment], moments[key, control]) for key in weights]
        return Combined(
            measured.arm(own),
            measured.arm(against),
            measured.covariance_of(own, against),
            (measured.effective_users(own), measured.effective_users(against)),
            EventUsers(*map(math.fsum, zip(*events, strict=True))),
        )

    def alone(self, measure: Measure, variant: str) -> tuple[Estimate, float] | None:
        """Return a variant's estimate and its effective users, with the weights against all other variants together; None without users."""
        of_stages, measured = dict[Cell, float](), self.measured(measure)
        for stage in self.stages:
            others = [each for each in stage.stored.moments if each != variant]
            enough = min(stage.users(variant), sum(map(stage.users, others)) if others else CELL_USERS_MIN) >= CELL_USERS_MIN
            if enough and measured.estimate((stage.key, variant)) is not None:
                own, rest = stage.size(measure, variant), sum(stage.size(measure, each) for each in others)
                of_stages[stage.key, variant] = own * rest / (own + rest) if others else float(own)
        weights = _normal(of_stages)
        return (measured.arm(weights), measured.effective_users(weights)) if weights else None

    def users_that_count(self, treatment: str, control: str) -> tuple[int, int]:
        """Return the users of both arms over the stages that count."""
        counting = [stage for stage in self.stages if self.left_out(stage, treatment, control) is None]
        return sum(stage.users(treatment) for stage in counting), sum(stage.users(control) for stage in counting)

    def _missed_share(self, stage: StageCounts, variant: str) -> float:
        """Return the share of a stage's time that had passed when a variant first appeared; 0 if that is unknown, as with labels."""
        length = stage.to_ms - stage.from_ms
        if self.policy.stage_label is not None or length <= 0:
            return 0.0
        missed = self.stored.variants_since_ms.get(variant, stage.from_ms) - stage.from_ms
        return min(1.0, max(missed, 0) / length)


def _stages(policy: Policy, stored: Stored) -> Iterator[StageCounts]:
    """Yield the configured stages in order. Without stages there is one, of all lists."""
    by_label = policy.stage_label is not None
    found = {each.key: each for each in stored.stages if each.unit == policy.unit}
    stages = policy.stages or (Stage(name="", shares=policy.shares or {}),)
    for number, stage in enumerate(stages):
        key = stage_key(stage, by_label)
        own = found.get(key) or StoredStage(key=key, unit=policy.unit, moments={}, first_exposures={})
        following = stages[number + 1].start_ms if number + 1 < len(stages) else None
        begin, end = max(stored.from_ms, stage.start_ms or stored.from_ms), min(stored.to_ms, following or stored.to_ms)
        yield StageCounts(stage, key, own, begin, end)


def _normal(weights: Mapping[Any, float]) -> dict[Any, float]:
    """Return the weights divided by their sum."""
    total = math.fsum(weights.values())
    return {key: weight / total for key, weight in weights.items()} if total else {}
