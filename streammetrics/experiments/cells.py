"""Cells, (stage, variant), and how the effects in stages are combined. Moments in, estimates out. Pure.

An effect is estimated within each stage and then combined, so a change of the traffic or of the mean between stages is no effect. Stage s
with lists D_st of the treatment and D_sc of the control has the weight (Mantel, Haenszel 1959, "Statistical aspects of the analysis of
data from retrospective studies of disease")

    w_s = D_st D_sc / (D_st + D_sc)

divided by the sum of all weights. It depends on no outcome. With a_c = w_s for the treatment's cell of stage s, and -w_s for the
control's, the difference is D = sum of a_c m_c, and its variance is

    V = sum over all pairs of cells of a_c a_c' S_cc'

S_cc' is the covariance of two cells' means, clustered by user. It is not 0 if users are in both cells: in several stages or, if each list
is assigned on its own, in both arms. With the residuals r = y - m d of the users in both,

    S_cc' = sqrt(K / (K - 1)) sqrt(K' / (K' - 1)) * sum of r r' / (D D')
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

from streammetrics.experiments.cross_moments import CrossLayout
from streammetrics.experiments.estimates import Estimate, estimate
from streammetrics.experiments.floors import expected_hit_users
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

    covariance: of the two means. effective_users: of the treatment and of the control. hit_users: expected users with a hit in the
    smaller arms of all stages.
    """

    treatment: Estimate
    control: Estimate
    covariance: float
    effective_users: tuple[float, float]
    hit_users: float

    @property
    def users(self) -> tuple[int, int]:
        return self.treatment.users, self.control.users


class Cells:
    """All cells of an experiment in one scope."""

    def __init__(self, measures: Measures, policy: Policy, stored: Stored) -> None:
        self.measures, self.policy, self.stored = measures, policy, stored
        self._cross = CrossLayout(measures)
        self._both_ways = {
            **stored.pairs,
            **{(other, one): self._cross.swapped(shared) for (one, other), shared in stored.pairs.items()},
        }
        self.stages = tuple(_stages(policy, stored))
        self._of_key = {each.key: each for each in self.stages}
        known = {each.key for each in self.stages}
        self.foreign = tuple(each for each in stored.stages if each.key not in known or each.unit != policy.unit)
        """Stages whose lists were counted under other settings: the stage is not configured, or the unit was another one."""

    def left_out(self, stage: StageCounts, treatment: str, control: str) -> str | None:
        """Return why a stage does not count for a treatment and the control; None if it does."""
        for variant in (treatment, control):
            users = stage.users(variant)
            if users < CELL_USERS_MIN:
                return f"{variant} has {users:,} users in it, at least {CELL_USERS_MIN} are needed"
        missed = {variant: self._missed_share(stage, variant) for variant in (treatment, control)}
        late = max(missed, key=lambda variant: missed[variant])
        if missed[late] - min(missed.values()) > self.policy.late_share_max:
            return f"{late} joined late, when {100 * missed[late]:.3g} % of its time had passed"
        return None

    def weights(self, measure: Measure, treatment: str, control: str) -> dict[str, float]:
        """Return the weights of the stages that count, by key. They add up to 1; empty if no stage counts."""
        found = {}
        for stage in self.stages:
            cells = [(stage.key, variant) for variant in (treatment, control)]
            if self.left_out(stage, treatment, control) is None and all(self._estimate(measure, cell) is not None for cell in cells):
                one, other = (stage.size(measure, variant) for variant in (treatment, control))
                found[stage.key] = one * other / (one + other)
        return _normal(found)

    def combined(self, measure: Measure, treatment: str, control: str) -> Combined | None:
        """Return a treatment and the control over the stages that count for them; None if no stage counts."""
        weights = self.weights(measure, treatment, control)
        if not weights:
            return None
        arms = [{(key, variant): weight for key, weight in weights.items()} for variant in (treatment, control)]
        hits = (
            expected_hit_users(self.measures, measure, *(self._of_key[key].stored.moments[each] for each in (treatment, control)))
            for key in weights
        )
        return Combined(
            self._arm(measure, arms[0]),
            self._arm(measure, arms[1]),
            self._covariance(measure, arms[0], arms[1]),
            (self.effective_users(measure, arms[0]), self.effective_users(measure, arms[1])),
            math.fsum(hits),
        )

    def alone(self, measure: Measure, variant: str) -> tuple[Estimate, float] | None:
        """Return a variant's estimate and its effective users, with the weights against all other variants together; None without users."""
        of_stages: dict[Cell, float] = {}
        for stage in self.stages:
            others = [each for each in stage.stored.moments if each != variant]
            enough = min(stage.users(variant), sum(map(stage.users, others)) if others else CELL_USERS_MIN) >= CELL_USERS_MIN
            if enough and self._estimate(measure, (stage.key, variant)) is not None:
                own, rest = stage.size(measure, variant), sum(stage.size(measure, each) for each in others)
                of_stages[stage.key, variant] = own * rest / (own + rest) if others else float(own)
        weights = _normal(of_stages)
        return (self._arm(measure, weights), self.effective_users(measure, weights)) if weights else None

    def users_that_count(self, treatment: str, control: str) -> tuple[int, int]:
        """Return the users of both arms over the stages that count."""
        counting = [stage for stage in self.stages if self.left_out(stage, treatment, control) is None]
        return sum(stage.users(treatment) for stage in counting), sum(stage.users(control) for stage in counting)

    def effective_users(self, measure: Measure, weights: Mapping[Cell, float]) -> float:
        """Return the number of users of equal weight with the same spread as one arm over its stages (Kish 1965).

        It is 1 / sum of w_s w_s' DD_ss' / (D_s D_s'), with DD_ss' the sum of d d' over users.
        """
        total = 0.0
        for one, other, weight in _pairs(weights, weights):
            shared = self._shared_weight(measure, one, other)
            total += weight * shared / (self._denominator(measure, one) * self._denominator(measure, other))
        return 1 / total if total else 0.0

    def covariance(self, measure: Measure, one: Cell, other: Cell) -> float:
        """Return the covariance of two cells' means, clustered by user."""
        if one == other:
            found = self._estimate(measure, one)
            return math.inf if found is None else found.variance
        shared = self._shared(one, other)
        if shared is None:
            return 0.0
        at, of = self._cross.places(measure), self.measures.places(measure)
        ours, theirs = self._moments(one), self._moments(other)
        y, d, x, e = ours[of.y], ours[of.d], theirs[of.y], theirs[of.d]
        residuals = shared[at.yy] * d * e - x * d * shared[at.yd] - y * e * shared[at.dy] + y * x * shared[at.dd]
        users, others = ours[of.users], theirs[of.users]
        if users < 2 or others < 2 or not residuals:
            return 0.0
        exact = Fraction(residuals, (d * e) ** 2 << 2 * measure.scale_bits)
        return math.sqrt(users / (users - 1)) * math.sqrt(others / (others - 1)) * float(exact)

    def _arm(self, measure: Measure, weights: Mapping[Cell, float]) -> Estimate:
        found = {cell: self._estimate(measure, cell) for cell in weights}
        mean = math.fsum(weights[cell] * each.mean for cell, each in found.items() if each)
        users = sum(each.users for each in found.values() if each)
        return Estimate(mean, max(self._covariance(measure, weights, weights), 0.0), users)

    def _covariance(self, measure: Measure, one: Mapping[Cell, float], other: Mapping[Cell, float]) -> float:
        return math.fsum(weight * self.covariance(measure, left, right) for left, right, weight in _pairs(one, other))

    def _estimate(self, measure: Measure, cell: Cell) -> Estimate | None:
        moments = self._of_key[cell[0]].stored.moments.get(cell[1])
        return None if moments is None else estimate(self.measures, measure, moments)

    def _moments(self, cell: Cell) -> Sequence[int]:
        return self._of_key[cell[0]].stored.moments[cell[1]]

    def _denominator(self, measure: Measure, cell: Cell) -> int:
        return self._moments(cell)[self.measures.places(measure).d]

    def _shared_weight(self, measure: Measure, one: Cell, other: Cell) -> int:
        if one == other:
            return self._moments(one)[self.measures.places(measure).dd]
        shared = self._shared(one, other)
        return 0 if shared is None else shared[self._cross.places(measure).dd]

    def _shared(self, one: Cell, other: Cell) -> Sequence[int] | None:
        """Return the cross moments of two cells; None if they have no user in common."""
        return self._both_ways.get((one, other))

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


def _pairs(one: Mapping[Cell, float], other: Mapping[Cell, float]) -> Iterator[tuple[Cell, Cell, float]]:
    for left, weight in one.items():
        for right, times in other.items():
            yield left, right, weight * times
