"""The arms of an experiment over the strata that count for them: estimates, comparisons, and why two arms are not compared. Pure.

Without stages there is one stratum, of all lists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from streammetrics.experiments.cuped import Reduced, reduce_variances
from streammetrics.experiments.estimates import Estimate
from streammetrics.experiments.floors import largest_user_share_max
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.list_signs import NO_REACTIONS, ArmLists, LikeLists
from streammetrics.experiments.measures import USERS_AT, Measure
from streammetrics.experiments.running_stage import unseen_stage
from streammetrics.experiments.share_words import set_again
from streammetrics.experiments.strata import Cells, Combined
from streammetrics.experiments.verdict import needed_by_verdicts, waiting
from streammetrics.experiments.words import counted_words, join, named, percent, say


class ArmEstimate(NamedTuple):
    """A variant's estimate, and the one with reduced variance if the layout has covariates."""

    plain: Estimate
    reduced: Reduced | None = None


class Compared(NamedTuple):
    """A variant and the control, as they are compared with each other.

    covariance: of the two means. stages: the same in each stage that can be judged, by its name.
    """

    own: ArmEstimate
    against: ArmEstimate
    covariance: float = 0.0
    stages: Mapping[str, Compared] = MappingProxyType({})


class Arms:
    """The arms with enough users, and the frozen scales."""

    def __init__(self, cells: Cells, control: str | None, scales: Mapping[str, float]) -> None:
        self.not_compared: Mapping[str, str] = {}
        """Why a treatment is not compared, although it has enough users: see `unlike_times`."""
        self.fewer_items: Mapping[str, str] = {}
        """Why the item_hit_rate of a treatment may not be called improved: see `list_signs`."""
        self.cells, self.measures, self.policy, self.stored = cells, cells.measures, cells.policy, cells.stored
        self.control = control
        self.scales = scales
        self.found = {measure: self._estimates(measure) for measure in cells.compared_measures}
        self._combined: dict[tuple[Measure, str, str], Combined | None] = {}

    def _estimates(self, measure: Measure) -> dict[str, ArmEstimate]:
        enough = {variant: sums for variant, sums in self.stored.moments.items() if sums[USERS_AT] >= self.policy.min_users}
        reduced: Mapping[str, Reduced] = {}
        if self.measures.covariates and not self.policy.in_cells:
            reduced = reduce_variances(self.measures, measure, enough)
        found = {variant: self.cells.alone(measure, variant) for variant in enough}
        return {
            variant: ArmEstimate(each[0], reduced.get(variant))
            for variant, each in found.items()
            if each is not None and each[0].users >= self.policy.min_users
        }

    def show(self, names: Collection[str]) -> None:
        """Leave out the measures without one of these names."""
        self.found = {measure: found for measure, found in self.found.items() if str(measure) in names}

    def alone(self, measure: Measure, variant: str) -> ArmEstimate | None:
        """Return a variant's own estimate; None while it has too few users."""
        return self.found[measure].get(variant)

    def compared(self, measure: Measure, variant: str, control: str) -> Compared | None:
        """Return a variant and the control; None while one of them has too few users."""
        found = self._over_stages(measure, variant, control)
        if found is None or min(found.users) < self.policy.min_users:
            return None
        own, against = (self.found[measure].get(each) for each in (variant, control))
        reduced = [each and each.reduced for each in (own, against)]
        return _compared(found, *reduced)._replace(stages=self._in_stages(measure, variant, control))

    def _in_stages(self, measure: Measure, variant: str, control: str) -> dict[str, Compared]:
        """Return the stages whose own evidence counts: those that pass the floors alone. Only verdicts need them."""
        if not self.policy.stages or str(measure) not in needed_by_verdicts(self.policy):
            return {}
        found = {stage.stage.name: self.cells.combined(measure, variant, control, stage) for stage in self.cells.stages}
        return {
            name: _compared(each)
            for name, each in found.items()
            if each is not None and each.unmet_floor(self.policy, measure, variant, control) is None
        }

    def weight_of_users(self, measure: Measure, variant: str) -> tuple[float, float]:
        """Return an arm's effective users, and the largest share of its lists that one user can have; 0 without users."""
        found = self.cells.alone(measure, variant)
        return (found[1], largest_user_share_max(found[0].users, found[1])) if found else (0.0, 0.0)

    def waits_for(self, users: Sequence[tuple[str, int]], control: str) -> str:
        """Say why nothing is compared yet. `users`: the users of each variant."""
        if self.policy.stages:
            treatments = [variant for variant, _ in users if variant not in (control, INTERLEAVED)]
            if treatments:
                return join((self.short(variant, control) for variant in treatments), "; ")
        short = {variant: count for variant, count in users if count < self.policy.min_users}
        return waiting(self.policy, short).said if short else "there is nothing to compare yet"

    def too_few(self, variant: str, control: str) -> str | None:
        """Say how many users a variant and the control have, if they are too few to be compared."""
        if self.policy.stages:
            users = self.cells.users_that_count(variant, control)
            return self.short(variant, control) if min(users) < self.policy.min_users else None
        of_arms = {name: self.stored.moments[name][USERS_AT] if name in self.stored.moments else 0 for name in (variant, control)}
        return waiting(self.policy, of_arms).said if min(of_arms.values()) < self.policy.min_users else None

    def short(self, variant: str, control: str) -> str:
        """Say why a variant with enough users is not compared."""
        if not self.policy.stages:
            if control not in self.stored.first_exposures:
                return say("no user saw the control '{control}'", control=named(control))
            return say("{control} has fewer than {min_users:,} users", control=named(control), min_users=self.policy.min_users)
        own, others = self.cells.users_that_count(variant, control)
        return say(
            "the stages with {least} users in both have {own} of {variant} and {others:,} of {control}; each needs at least {min_users:,}",
            least=str(self.cells.users_min),
            own=counted_words(own, "user"),
            variant=named(variant),
            others=others,
            control=named(control),
            min_users=self.policy.min_users,
        )

    def unseen(self, variant: str, control: str) -> str | None:
        """Return why a pass must wait for the stage that runs now; None if it need not. Without stages there is none to wait for."""
        return unseen_stage(self.cells, variant, control) if self.policy.stages else None

    def like_lists(self, variant: str, control: str) -> LikeLists | None:
        """Return the lists of the largest stratum, if both have enough users there. Reactions are not counted by stage."""
        found = self.cells.largest(variant, control)
        if found is None or min(map(found.users, (variant, control))) < self.policy.min_users or self._late(variant, control):
            return None
        reactions = {} if self.policy.stages else self.stored.reactions
        own, against = (ArmLists(each, found.stored.moments[each], reactions.get(each, NO_REACTIONS)) for each in (variant, control))
        return LikeLists(own, against, found.stage.name or None, self.policy.unit == "user")

    def all_zero(self, measure: Measure) -> bool:
        """Whether a measure is 0 in every variant."""
        return not any(each.plain.mean > 0 for each in self.found[measure].values())

    def unmet(self, measure: Measure, variant: str, control: str) -> str | None:
        """Return why a variant cannot be compared with the control yet, by its start or a floor; None if it can."""
        found = self._over_stages(measure, variant, control)
        assert found is not None, "no stage counts"
        return self._late(variant, control) or found.unmet_floor(self.policy, measure, variant, control)

    def _over_stages(self, measure: Measure, variant: str, control: str) -> Combined | None:
        key = measure, variant, control
        if key not in self._combined:
            self._combined[key] = self.cells.combined(*key)
        return self._combined[key]

    def _late(self, variant: str, control: str) -> str | None:
        """Say that one of two variants joined late; None if neither did. Stages are left out one by one instead."""
        late = None if self.policy.stages else self.cells.late(self.cells.stages[0], variant, control)
        if late is None:
            return None
        return say(
            "{late} joined late, when {missed} of the time had passed, so {other} has lists of other times. {advice}",
            late=named(late.variant),
            missed=percent(late.missed_share),
            other=named(control if late.variant == variant else variant),
            advice=set_again(
                self.policy,
                "To compare them from then on",
                self.stored.experiment,
                {"start": self.stored.variants_since_ms[late.variant]},
            ),
        )


def _compared(found: Combined, own: Reduced | None = None, against: Reduced | None = None) -> Compared:
    return Compared(ArmEstimate(found.treatment, own), ArmEstimate(found.control, against), found.covariance)
