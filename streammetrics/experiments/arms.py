"""The arms of an experiment: estimates, comparisons, and why two arms are not compared. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from streammetrics.experiments.cell_estimates import ChangedEffect, Pair, PairEstimate, ReducedEstimate, RunPart, reduce_variance
from streammetrics.experiments.cells import HourSpan
from streammetrics.experiments.effect_change import changed_effect, parts_by_day
from streammetrics.experiments.experiment_state import ALL_RUNNING, SilentHours, States, silent_hours, silent_warning
from streammetrics.experiments.gate import StepMeasure
from streammetrics.experiments.hours import Entry
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.signs import IN_BOTH_ARMS_MIN, ArmLists, LikeLists
from streammetrics.experiments.stored import NO_REACTIONS, StoredSums
from streammetrics.experiments.verdict import waiting
from streammetrics.statistics.estimates import Estimate, effective_users, estimate, largest_user_share_max
from streammetrics.statistics.measures import USERS_AT, Measure, Measures
from streammetrics.statistics.sequence import scale_of
from streammetrics.words.sentences import DataWarning, measure_name, named, say


class ArmComparison(NamedTuple):
    """A variant and the control, as they are compared with each other.

    by_hour: the same in cells of the hour alone, if an arm was silent. reduced: with less variance, if the layout has covariates.
    """

    plain: PairEstimate
    by_hour: PairEstimate | None = None
    reduced: ReducedEstimate | None = None


class _Pairs(NamedTuple):
    """A treatment and the control in cells of hour and entry, and in those of the hour alone if an arm was silent and has returned.

    left_out: all hours in which an arm was silent. silent: those before its return.
    """

    by_entry: Pair
    by_hour: Pair | None
    left_out: Sequence[HourSpan]
    silent: Sequence[SilentHours]


class Arms:
    """The arms with enough users, and the frozen scales."""

    def __init__(
        self,
        measures: Measures,
        policy: Policy,
        stored: StoredSums,
        control: str | None,
        scales: Mapping[str, float],
        states: States = ALL_RUNNING,
    ) -> None:
        self.states = states
        """Which arms still get lists."""
        self.not_compared: dict[str, str] = {}
        """Why a treatment is not compared, although it has enough users."""
        self.fewer_items: Mapping[str, str] = {}
        """Why the item_hit_rate of a treatment may not be called improved: see `signs`."""
        self.measures, self.policy, self.stored, self.control, self.scales = measures, policy, stored, control, scales
        self.estimates = {measure: self._estimates(measure) for measure in compared_measures(measures, policy)}
        self._pairs: dict[tuple[str, str], _Pairs] = {}
        self._combined: dict[tuple[Measure, str, str], PairEstimate | None] = {}

    def _estimates(self, measure: Measure) -> dict[str, Estimate]:
        enough = {variant: sums for variant, sums in self.stored.moments.items() if sums[USERS_AT] >= self.policy.min_users}
        estimates = {variant: estimate(self.measures, measure, sums) for variant, sums in enough.items()}
        return {variant: estimated for variant, estimated in estimates.items() if estimated is not None}

    def show(self, names: Collection[str]) -> None:
        """Leave out the measures without one of these names."""
        self.estimates = {measure: of_variants for measure, of_variants in self.estimates.items() if str(measure) in names}

    def alone(self, measure: Measure, variant: str) -> Estimate | None:
        """Return a variant's own estimate; None while it has too few users."""
        return self.estimates[measure].get(variant)

    def compared(self, measure: Measure, variant: str, control: str) -> ArmComparison | None:
        """Return a variant and the control; None while one of them has too few users, or if they have no cell in common."""
        plain = self._plain(measure, variant, control)
        if plain is None or min(plain.users) < self.policy.min_users:
            return None
        pairs = self._pairs_of(variant, control)
        by_hour = None if pairs.by_hour is None else pairs.by_hour.combined(measure)
        has_covariates = self.measures.covariates and measure.kind != "users" and self.policy.unit == "user"
        reduced = reduce_variance(self.measures, measure, pairs.by_entry, plain) if has_covariates else None
        return ArmComparison(plain, by_hour, reduced)

    def _plain(self, measure: Measure, variant: str, control: str) -> PairEstimate | None:
        key = measure, variant, control
        if key not in self._combined:
            self._combined[key] = self._pairs_of(variant, control).by_entry.combined(measure)
        return self._combined[key]

    def _pairs_of(self, variant: str, control: str) -> _Pairs:
        pairs = self._pairs.get((variant, control))
        if pairs is None:
            hours = silent_hours(self.measures, self.stored, variant, control)
            left_out, silent = [hour_span.span for hour_span in hours], [hour_span for hour_span in hours if hour_span.has_returned]
            by_entry = Pair(self.measures, self.stored, variant, control, left_out=left_out)
            by_hour = Pair(self.measures, self.stored, variant, control, by_entry=False, left_out=left_out) if silent else None
            pairs = self._pairs[variant, control] = _Pairs(by_entry, by_hour, left_out, silent)
        return pairs

    def step(self, variant: str, control: str, since: int) -> tuple[tuple[StepMeasure, ...], ...]:
        """Return the deciding measures of a variant and the control in the cells from an hour on.

        If an arm was silent in any hour of the run, they come twice: in cells of hour and entry, and in those of the hour alone. Then
        `user_hit_rate` is not among them.
        """
        _, _, left_out, silent = self._pairs_of(variant, control)
        deciding = [
            measure for measure in self.estimates if str(measure) in self.policy.paging and not (left_out and measure.kind == "users")
        ]
        pairs = [
            Pair(self.measures, self.stored, variant, control, by_entry=by_entry, left_out=left_out, since=since)
            for by_entry in ((True, False) if silent else (True,))
        ]
        return tuple(
            tuple(StepMeasure(measure, pair.combined(measure), scale_of(measure, self.scales)) for measure in deciding) for pair in pairs
        )

    def days(self, measure: Measure, variant: str, control: str, hours: int = 24) -> tuple[tuple[RunPart, ...], ...]:
        """Return what the lists of each day, or of so many hours, say; twice if an arm was silent, as in `step`."""
        pairs = self._pairs_of(variant, control)
        return tuple(parts_by_day(pair, self.stored.hours, measure, hours) for pair in (pairs.by_entry, pairs.by_hour) if pair is not None)

    def change(
        self, measure: Measure, variant: str, control: str, days: Sequence[Sequence[RunPart]], treatments: int
    ) -> ChangedEffect | None:
        """Return the certain change of the effect, from the days; None if there is none."""
        plain, wholes = self._plain(measure, variant, control), self._pairs_of(variant, control).by_entry.wholes(measure)
        if plain is None or wholes is None:
            return None
        moved = plain.covariance * wholes[0].d * wholes[1].d
        return changed_effect(days, self.policy.effective_users_min, moved, treatments * len(self.policy.paging))

    def silent(self, variant: str, control: str) -> Sequence[SilentHours]:
        """Return the hours in which one of two arms was silent before its return."""
        return self._pairs_of(variant, control).silent

    def silence(self, variant: str, control: str) -> DataWarning | None:
        """Say in which hours one of two arms was silent; None if neither was."""
        silent = self._pairs_of(variant, control).silent
        return silent_warning(self.policy, self.stored.experiment, silent, control, variant) if silent else None

    def weight_of_users(self, measure: Measure, variant: str) -> tuple[float, float]:
        """Return an arm's effective users, and the largest share of its lists that one user can have; 0 without users."""
        sums = self.stored.moments.get(variant)
        if sums is None or not sums[USERS_AT]:
            return 0.0, 0.0
        effective = effective_users(self.measures, measure, sums)
        return effective, largest_user_share_max(sums[USERS_AT], effective)

    def waits_for(self, users: Sequence[tuple[str, int]]) -> str:
        """Say why nothing is compared yet. `users`: the users of each variant."""
        if len(users) == 1:
            return say("only {arm} has users so far; a comparison needs another variant, too", arm=named(users[0][0]))
        short = {variant: count for variant, count in users if count < self.policy.min_users}
        return waiting(self.policy, short).said if short else "there is nothing to compare yet"

    def too_few(self, variant: str, control: str) -> str | None:
        """Say how many users a variant and the control have, if they are too few to be compared."""
        of_arms = {name: self.stored.moments[name][USERS_AT] if name in self.stored.moments else 0 for name in (variant, control)}
        return waiting(self.policy, of_arms).said if min(of_arms.values()) < self.policy.min_users else None

    def short(self, variant: str, control: str) -> str:
        """Say why a variant with enough users is not compared."""
        if control not in self.stored.users:
            return say("no user saw the control '{control}'", control=named(control))
        if self.too_few(variant, control):
            return say("{control} has fewer than {min_users:,} users", control=named(control), min_users=self.policy.min_users)
        return say(
            "{variant} and {control} have no hour in common in which both have lists of users who came at the same time",
            variant=named(variant),
            control=named(control),
        )

    def like_lists(self, variant: str, control: str) -> LikeLists | None:
        """Return the lists of two arms by the day on which their users came, if both have enough users."""
        if self.too_few(variant, control):
            return None
        treated, against = (
            ArmLists(arm, self._days(arm), self.stored.moments[arm], self.stored.reactions.get(arm, NO_REACTIONS), self._ages(arm))
            for arm in (variant, control)
        )
        both, users = self.users_in_both(variant, control)
        left_out = self._pairs_of(variant, control).left_out
        is_by_user = self.policy.unit == "user" and both <= IN_BOTH_ARMS_MIN * users
        return LikeLists(treated, against, is_by_user, max((span.end for span in left_out), default=0))

    def users_in_both(self, variant: str, control: str) -> tuple[int, int]:
        """Return how many users have lists of both arms, and how many of any of the two."""
        one, other = sorted((variant, control))
        both = self.stored.pairs.get((one, other), (0,))[USERS_AT]
        return both, sum(self.stored.moments[arm][USERS_AT] for arm in (one, other) if arm in self.stored.moments) - both

    def _days(self, variant: str) -> dict[Entry, Sequence[int]]:
        return {entry: sums for (name, entry), sums in self.stored.entry_moments.sums.items() if name == variant}

    def _ages(self, variant: str) -> dict[Entry, float]:
        """Return for how many hours the users of an arm have been there on average, by the day on which they came."""
        hours = self.stored.hours
        until, ages = (max(hours.rows, default=0) + 1) * hours.length, dict[Entry, float]()
        for day in self._days(variant):
            blocks = range(-(-day.first_hour // hours.length), -(-(day.first_hour + day.hours) // hours.length))
            users = {block: row.new_users.get(variant, 0) for block, row in hours.rows.items() if block in blocks}
            if any(users.values()):
                hours_there = sum(count * (until - (block + 0.5) * hours.length) for block, count in users.items())
                ages[day] = hours_there / sum(users.values())
        return ages

    def all_zero(self, measure: Measure) -> bool:
        """Whether a measure is 0 in every variant."""
        return not any(estimated.mean > 0 for estimated in self.estimates[measure].values())

    def unmet(self, measure: Measure, variant: str, control: str) -> str | None:
        """Return why a variant cannot be compared with the control yet; None if it can."""
        plain = self._plain(measure, variant, control)
        assert plain is not None, "the arms have no cell in common"
        if measure.kind == "users" and self._pairs_of(variant, control).left_out:
            return say(
                "an arm had no list for hours, so its users had less time for a hit: {measure} cannot be compared",
                measure=measure_name(str(measure)),
            )
        return plain.unmet_floor(self.policy, measure, variant, control)


def compared_measures(measures: Measures, policy: Policy) -> list[Measure]:
    """Return the measures that are compared: without shares of users if each list is assigned on its own, since users have no variant."""
    return [measure for measure in measures if policy.unit == "user" or measure.kind != "users"]
