"""Cells, and how the effects in strata are combined. Moments in, estimates out. Pure.

A stratum s has the lists of one stage, of the users whose first list was in one stage. A cell is a variant in a stratum. An effect is
estimated within each stratum and then combined. So neither a change of the traffic or of the mean between stages is an effect, nor a
difference of the users who come in each stage. That matters where users keep their arm: after a step, the treatment has mostly new users
and the control mostly old ones.

Stratum s with lists D_st of the treatment and D_sc of the control has the weight (Mantel, Haenszel 1959, "Statistical aspects of the
analysis of data from retrospective studies of disease")

    w_s = D_st D_sc / (D_st + D_sc)

divided by the sum of all weights. It depends on no outcome. With a_c = w_s for the treatment's cell of stratum s, and -w_s for the
control's, the difference is D = sum of a_c m_c, and its variance is

    V = sum over all pairs of cells of a_c a_c' S_cc'

S_cc' is the covariance of two cells' means, clustered by user (see `stratified_estimates`). It is not 0 if users are in both cells: in
several stages or, if each list is assigned on its own, in both arms. Then they have no arm to keep, and a stratum is a stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from streammetrics.experiments.covariance_sums import CovarianceLayout
from streammetrics.experiments.estimates import Estimate
from streammetrics.experiments.floors import (
    EventUsers,
    expected_event_users,
    few_effective_users,
    largest_user_share_max,
    rare_events,
)
from streammetrics.experiments.measures import LISTS_AT, USERS_AT, Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stages import Stage, stage_key
from streammetrics.experiments.stored import Cell, Stored, StoredStage
from streammetrics.experiments.stratified_estimates import StratifiedEstimates
from streammetrics.experiments.words import counted_words, named, percent, say

CELL_USERS_MIN: Final = 10
"""Users that a stratum needs in each of two arms before it counts for their comparison; less if `min_users` is less."""


class Stratum(NamedTuple):
    """The lists of one stage, of the users who came in one stage. With unit "list", of all users.

    key: the keys of both stages, entry first. stage: that of the lists. entry: that of the users; None with unit "list".
    """

    key: tuple[str, str]
    stage: Stage
    entry: Stage | None
    stored: StoredStage

    def users(self, variant: str) -> int:
        return self.stored.moments.get(variant, (0,))[USERS_AT]

    def size(self, measure: Measure, variant: str) -> int:
        """Return what the weights of a measure count: lists, or users for a share of users."""
        return self.stored.moments.get(variant, (0, 0))[USERS_AT if measure.kind == "users" else LISTS_AT]


class StageCounts(NamedTuple):
    """A configured stage, its key, its strata, and the event time that it covers so far (ms).

    The stratum of the users who came in the stage itself is there, even if it is empty; others only if they have lists.
    """

    stage: Stage
    key: str
    strata: tuple[Stratum, ...]
    from_ms: int
    to_ms: int

    @property
    def variants(self) -> set[str]:
        return {variant for each in self.strata for variant in each.stored.moments}

    @property
    def last_ms(self) -> int | None:
        """Event time of the latest list."""
        return max((each.stored.last_ms for each in self.strata if each.stored.last_ms is not None), default=None)

    @property
    def multi_exposed_users(self) -> int:
        return sum(each.stored.multi_exposed_users for each in self.strata)

    def users(self, variant: str) -> int:
        """Return the users with lists in the stage. A user came in one stage only, so none counts twice."""
        return sum(each.users(variant) for each in self.strata)

    def lists(self, variant: str) -> int:
        return sum(each.stored.moments.get(variant, (0, 0))[LISTS_AT] for each in self.strata)


class Combined(NamedTuple):
    """A treatment and the control over the strata that count. `users` are summed over strata, so some may count more than once.

    covariance: of the two means. effective_users: of the treatment and of the control. event_users: see `floors`, summed over the
    smaller arms of all strata.
    """

    treatment: Estimate
    control: Estimate
    covariance: float
    effective_users: tuple[float, float]
    event_users: EventUsers

    @property
    def users(self) -> tuple[int, int]:
        return self.treatment.users, self.control.users

    def unmet_floor(self, policy: Policy, measure: Measure, variant: str, control: str) -> str | None:
        """Return which floor a variant and the control do not pass; None if they pass both."""
        for name, effective, users in zip((variant, control), self.effective_users, self.users, strict=True):
            if effective < policy.effective_users_min:
                share = largest_user_share_max(users, effective)
                return few_effective_users(measure, name, users, effective, policy.effective_users_min, share)
        if self.event_users.least < policy.hit_users_min:
            smaller = variant if self.users[0] <= self.users[1] else control
            return rare_events(measure, smaller, self.event_users, policy.hit_users_min)
        return None


class LateArm(NamedTuple):
    """The later one of two variants, and the share of a stage's time that had passed when it first appeared."""

    variant: str
    missed_share: float


class Cells:
    """All cells of an experiment in one scope."""

    def __init__(self, measures: Measures, policy: Policy, stored: Stored) -> None:
        self.measures, self.policy, self.stored = measures, policy, stored
        self.users_min = min(CELL_USERS_MIN, policy.min_users)
        self._cross = cross = CovarianceLayout(measures)
        self._both_ways = {**stored.pairs, **{(other, one): cross.swapped(shared) for (one, other), shared in stored.pairs.items()}}
        self.stages = tuple(_stages(policy, stored))
        strata = [(stage, each) for stage in self.stages for each in stage.strata]
        self._moments = {Cell(*each.key, variant): sums for _, each in strata for variant, sums in each.stored.moments.items()}
        self._measured: dict[Measure, StratifiedEstimates] = {}
        self._left_out: dict[tuple[tuple[str, str], str, str], str | None] = {}
        known = {id(each.stored) for _, each in strata}
        self.foreign = tuple(each for each in stored.stages if id(each) not in known)
        """Lists that were counted under other settings: a stage is not configured, or the unit was another one."""

    @property
    def compared_measures(self) -> list[Measure]:
        """The measures that are compared: without shares of users if each list is assigned on its own, since users have no variant."""
        return [measure for measure in self.measures if self.policy.unit == "user" or measure.kind != "users"]

    def measured(self, measure: Measure) -> StratifiedEstimates:
        """Return the estimates of a measure in all cells. They are computed when they are asked for, and only once."""
        found = self._measured.get(measure)
        if found is None:
            found = self._measured[measure] = StratifiedEstimates(self.measures, self._cross, measure, self._moments, self._both_ways)
        return found

    def left_out(self, stage: StageCounts, treatment: str, control: str) -> str | None:
        """Return why a stage does not count for a treatment and the control; None if some stratum of it does."""
        if any(self._left_out_of(stage, each, treatment, control) is None for each in stage.strata):
            return None
        largest = max(stage.strata, key=lambda each: min(each.users(treatment), each.users(control)))
        return self._left_out_of(stage, largest, treatment, control)

    def _strata(self, treatment: str, control: str, only: StageCounts | None = None) -> Iterator[Stratum]:
        """Yield the strata that count for a treatment and the control, in all stages or in one alone."""
        for stage in self.stages if only is None else (only,):
            for each in stage.strata:
                if self._left_out_of(stage, each, treatment, control) is None:
                    yield each

    def _left_out_of(self, stage: StageCounts, stratum: Stratum, treatment: str, control: str) -> str | None:
        key = stratum.key, treatment, control
        if key not in self._left_out:
            self._left_out[key] = self._why_left_out(stage, stratum, treatment, control)
        return self._left_out[key]

    def _why_left_out(self, stage: StageCounts, stratum: Stratum, treatment: str, control: str) -> str | None:
        came = "" if stratum.entry in (None, stratum.stage) else say(" from stage {entry}", entry=named(stratum.entry.name))
        for variant in (treatment, control):
            users = stratum.users(variant)
            if users < self.users_min:
                return say(
                    "{variant} has {users}{came} in it, at least {least} are needed",
                    variant=named(variant),
                    users=counted_words(users, "user"),
                    came=came,
                    least=self.users_min,
                )
        late = self.late(stage, treatment, control) if self.policy.stages else None
        if late is not None:
            missed = percent(late.missed_share)
            return say("{late} joined late, when {missed} of its time had passed", late=named(late.variant), missed=missed)
        return None

    def late(self, stage: StageCounts, treatment: str, control: str) -> LateArm | None:
        """Return which of two arms joined a stage late: it missed more of its time than the other, by more than `late_share_max`."""
        missed = {variant: self._missed_share(stage, variant) for variant in (treatment, control)}
        late = max(missed, key=lambda variant: missed[variant])
        return LateArm(late, missed[late]) if missed[late] - min(missed.values()) > self.policy.late_share_max else None

    @property
    def running(self) -> StageCounts | None:
        """The stage that runs now: the one of the newest event or, with labels, of the latest list. None before the first stage."""
        if self.policy.stage_label is not None:
            seen = [(last, number) for number, stage in enumerate(self.stages) if (last := stage.last_ms) is not None]
            return self.stages[max(seen)[1]] if seen else None
        now_ms = max(self.stored.newest_ms, self.stored.to_ms - 1)
        begun = [stage for stage in self.stages if stage.stage.start_ms is None or stage.stage.start_ms <= now_ms]
        return begun[-1] if begun else None

    def weights(self, measure: Measure, treatment: str, control: str, only: StageCounts | None = None) -> dict[tuple[str, str], float]:
        """Return the weights of the strata that count, by key. They add up to 1; empty if none counts. only: of one stage alone."""
        found, measured = {}, self.measured(measure)
        for each in self._strata(treatment, control, only):
            if all(measured.estimate(Cell(*each.key, variant)) is not None for variant in (treatment, control)):
                one, other = (each.size(measure, variant) for variant in (treatment, control))
                found[each.key] = one * other / (one + other)
        return _normal(found)

    def combined(self, measure: Measure, treatment: str, control: str, only: StageCounts | None = None) -> Combined | None:
        """Return a treatment and the control over the strata that count for them, or those of one stage; None if none counts."""
        weights = self.weights(measure, treatment, control, only)
        if not weights:
            return None
        measured, moments = self.measured(measure), self._moments
        own, against = ({Cell(*key, variant): weight for key, weight in weights.items()} for variant in (treatment, control))
        events = [
            expected_event_users(self.measures, measure, *(moments[Cell(*key, arm)] for arm in (treatment, control))) for key in weights
        ]
        return Combined(
            measured.arm(own),
            measured.arm(against),
            measured.covariance_of(own, against),
            (measured.effective_users(own), measured.effective_users(against)),
            EventUsers(*map(math.fsum, zip(*events, strict=True))),
        )

    def alone(self, measure: Measure, variant: str) -> tuple[Estimate, float] | None:
        """Return a variant's estimate and its effective users; None without users.

        Strata have the weights against all other variants together. If there are too few others, they have those of its own lists.
        """
        measured, weights, sizes = self.measured(measure), dict[Cell, float](), dict[Cell, float]()
        for each in (stratum for stage in self.stages for stratum in stage.strata):
            cell, own = Cell(*each.key, variant), each.size(measure, variant)
            if measured.estimate(cell) is not None:
                sizes[cell] = own
                others = [name for name in each.stored.moments if name != variant]
                if min(each.users(variant), sum(map(each.users, others))) >= self.users_min:
                    rest = sum(each.size(measure, name) for name in others)
                    weights[cell] = own * rest / (own + rest)
        weights = _normal(weights or sizes)
        return (measured.arm(weights), measured.effective_users(weights)) if weights else None

    def users_that_count(self, treatment: str, control: str) -> tuple[int, int]:
        """Return the users of both arms over the strata that count."""
        counting = list(self._strata(treatment, control))
        return sum(each.users(treatment) for each in counting), sum(each.users(control) for each in counting)

    def largest(self, treatment: str, control: str) -> Stratum | None:
        """Return the stratum that counts with the most users in its smaller arm; None if none counts."""
        counting = self._strata(treatment, control)
        return max(counting, key=lambda each: min(each.users(treatment), each.users(control)), default=None)

    def _missed_share(self, stage: StageCounts, variant: str) -> float:
        """Return the share of a stage's time that had passed when a variant first appeared; 0 if that is unknown, as with labels."""
        length = stage.to_ms - stage.from_ms
        if self.policy.stage_label is not None or length <= 0:
            return 0.0
        missed = self.stored.variants_since_ms.get(variant, stage.from_ms) - stage.from_ms
        return min(1.0, max(missed, 0) / length)


def _stages(policy: Policy, stored: Stored) -> Iterator[StageCounts]:
    """Yield the configured stages in order. Without stages there is one, of all lists."""
    by_label, by_list = policy.stage_label is not None, policy.unit == "list"
    found = {(each.entry, each.key): each for each in stored.in_stages if each.unit == policy.unit}
    stages = policy.stages or (Stage(name="", shares=policy.shares or {}),)
    keys = [stage_key(stage, by_label) for stage in stages]
    for number, (key, stage) in enumerate(zip(keys, stages, strict=True)):
        empty = StoredStage(entry=key, key=key, unit=policy.unit, moments={}, first_exposures={})
        strata = tuple(
            Stratum((entry, key), stage, None if by_list else came, found.get((entry, key), empty))
            for entry, came in zip(keys, stages, strict=True)
            if entry == key or (entry, key) in found
        )
        following = stages[number + 1].start_ms if number + 1 < len(stages) else None
        begin, end = max(stored.from_ms, stage.start_ms or stored.from_ms), min(stored.to_ms, following or stored.to_ms)
        yield StageCounts(stage, key, strata, begin, end)


def _normal(weights: Mapping[Any, float]) -> dict[Any, float]:
    """Return the weights divided by their sum."""
    total = math.fsum(weights.values())
    return {key: weight / total for key, weight in weights.items()} if total else {}
