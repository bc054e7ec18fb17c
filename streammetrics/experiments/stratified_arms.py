"""Compares the arms of an experiment with cells: in stages, or assigned list by list. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from streammetrics.experiments.comparing import ArmEstimate, Arms, Compared
from streammetrics.experiments.estimates import variance_of
from streammetrics.experiments.floors import few_effective_users, rare_events
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.list_signs import ArmLists, LikeLists
from streammetrics.experiments.measures import Measure, Measures
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.running_stage import unseen_stage
from streammetrics.experiments.scales import MeasureScale, choose_scales, frozen_numbers
from streammetrics.experiments.stored import Stored
from streammetrics.experiments.strata import CELL_USERS_MIN, Cells, Combined
from streammetrics.experiments.verdict import needed_by_verdicts
from streammetrics.experiments.words import counted_words, join, named, say


class StratifiedArms(Arms):
    """The arms over the stages that count for each of them. With assignment by list, users have no variant, so no share of users is
    measured.
    """

    def __init__(self, cells: Cells, control: str | None, scales: Mapping[str, float]) -> None:
        super().__init__(cells.measures, cells.policy, control, scales, cells.stored)
        self.cells = cells
        self._combined: dict[tuple[Measure, str, str], Combined | None] = {}
        self.found = {measure: self._of_arms(measure) for measure in measured(cells)}

    def compared(self, measure: Measure, variant: str, control: str) -> Compared | None:
        found = self._over_stages(measure, variant, control)
        if found is None or min(found.users) < self.policy.min_users:
            return None
        return _compared(found)._replace(stages=self._in_stages(measure, variant, control))

    def _in_stages(self, measure: Measure, variant: str, control: str) -> dict[str, Compared]:
        """Return the stages whose own evidence counts: those that pass the floors alone. Only verdicts need them."""
        if not self.policy.stages or str(measure) not in needed_by_verdicts(self.policy):
            return {}
        found = {stage.stage.name: self.cells.combined(measure, variant, control, stage) for stage in self.cells.stages}
        return {
            name: _compared(each)
            for name, each in found.items()
            if each is not None and unmet_in_cells(each, self.policy, measure, variant, control) is None
        }

    def unseen(self, variant: str, control: str) -> str | None:
        return unseen_stage(self.cells, variant, control) if self.policy.stages else None

    def like_lists(self, variant: str, control: str) -> LikeLists | None:
        """Return the lists of the largest stratum, if both have enough users there. Reactions are not counted by stage."""
        found = self.cells.largest(variant, control)
        if found is None or min(map(found.users, (variant, control))) < self.policy.min_users:
            return None
        own, against = (ArmLists(each, found.stored.moments[each]) for each in (variant, control))
        return LikeLists(own, against, found.stage.name or None, self.policy.unit == "user")

    def weight_of_users(self, measure: Measure, variant: str) -> tuple[float, float]:
        found = self.cells.alone(measure, variant)
        return (found[1], min(1.0, 1 / math.sqrt(found[1]))) if found and found[1] else (0.0, 0.0)

    def waits_for(self, users: Sequence[tuple[str, int]], control: str) -> str:
        treatments = [variant for variant, _ in users if variant not in (control, INTERLEAVED)]
        return join((self.short(variant, control) for variant in treatments), "; ") or super().waits_for(users, control)

    def too_few(self, variant: str, control: str) -> str | None:
        users = self.cells.users_that_count(variant, control)
        return self.short(variant, control) if min(users) < self.policy.min_users else None

    def short(self, variant: str, control: str) -> str:
        users = self.cells.users_that_count(variant, control)
        where = f"the stages with {CELL_USERS_MIN} users in both" if self.policy.stages else "the experiment"
        arms = say(
            "{own} of {variant} and {others:,} of {control}",
            own=counted_words(users[0], "user"),
            variant=named(variant),
            others=users[1],
            control=named(control),
        )
        return say("{where} have {arms}; each needs at least {min_users:,}", where=where, arms=arms, min_users=self.policy.min_users)

    def unmet(self, measure: Measure, variant: str, control: str) -> str | None:
        found = self._over_stages(measure, variant, control)
        assert found is not None, "no stage counts"
        return unmet_in_cells(found, self.policy, measure, variant, control)

    def _over_stages(self, measure: Measure, variant: str, control: str) -> Combined | None:
        key = measure, variant, control
        if key not in self._combined:
            self._combined[key] = self.cells.combined(*key)
        return self._combined[key]

    def _of_arms(self, measure: Measure) -> dict[str, ArmEstimate]:
        arms = {variant: self.cells.alone(measure, variant) for variant in self.moments}
        return {
            variant: ArmEstimate(each[0]) for variant, each in arms.items() if each is not None and each[0].users >= self.policy.min_users
        }


def _compared(found: Combined) -> Compared:
    return Compared(ArmEstimate(found.treatment), ArmEstimate(found.control), found.covariance)


def measured(cells: Cells) -> list[Measure]:
    """Return the measures that are compared: without shares of users if each list is assigned on its own."""
    return [measure for measure in cells.measures if cells.policy.unit == "user" or measure.kind != "users"]


def unmet_in_cells(found: Combined, policy: Policy, measure: Measure, variant: str, control: str) -> str | None:
    """Return which floor a variant and the control do not pass over their stages; None if they pass both."""
    for name, effective, users in zip((variant, control), found.effective_users, found.users, strict=True):
        if effective < policy.effective_users_min:
            share = 1 / math.sqrt(effective) if effective > 1 else 1.0
            return few_effective_users(measure, name, users, effective, policy.effective_users_min, share)
    if found.event_users.least < policy.hit_users_min:
        smaller = variant if found.users[0] <= found.users[1] else control
        return rare_events(measure, smaller, found.event_users, policy.hit_users_min)
    return None


def choose_stored_scales(measures: Measures, policy: Policy, stored: Stored, frozen: Mapping[str, float]) -> dict[str, float]:
    """Return the numbers that can be frozen now, as `choose_scales` does, of any experiment since its start.

    With cells, a measure's scale is chosen at the first look at which the stages that count for some treatment have `min_users` users in
    both arms and pass the floors. tau is the standard error of the difference then.
    """
    if not policy.in_cells:
        return choose_scales(measures, policy, stored.moments, frozen)
    control = policy.control_of(list(stored.moments))
    if control is None:
        return {}
    cells, chosen = Cells(measures, policy, stored), dict[str, float]()
    for measure in measured(cells):
        if str(measure) not in frozen and (scale := _scale(cells, measure, control)) is not None:
            chosen |= frozen_numbers(measure, scale)
    return chosen


def _scale(cells: Cells, measure: Measure, control: str) -> MeasureScale | None:
    variances, means = list[float](), list[float]()
    for variant in sorted({*cells.stored.moments} - {control, cells.policy.holdout, INTERLEAVED}):
        found = cells.combined(measure, variant, control)
        if found is None or min(found.users) < cells.policy.min_users:
            continue
        if unmet_in_cells(found, cells.policy, measure, variant, control):
            continue
        variance = variance_of(found.treatment, found.control, found.covariance)
        if variance is not None and max(found.treatment.mean, found.control.mean) > 0:
            variances.append(variance)
            means.append(found.control.mean)
    return MeasureScale(math.sqrt(math.fsum(variances) / len(variances)), math.fsum(means) / len(means)) if variances else None
