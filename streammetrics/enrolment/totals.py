"""Users' totals in experiments: the final lists of all users of one commit are added to them, and the changes to the experiments' sums.

Pure. A user has totals in every variant of which they saw a list. They only grow.

With variance reduction, a user's lists before an experiment are summed too, whatever their labels. Earlier lists are enrolled first, so
this sum is complete when the first list of the experiment is enrolled. Lists of the variant INTERLEAVED have credits as well.

The moments change by the difference between a user's totals after the batch and before it. All sums are integers, so the order of users
and commits cannot matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TypeAlias

import numpy as np

from streammetrics.enrolment.credits import TeamCredits
from streammetrics.enrolment.hour_counts import HourCounts, add_entry_users, spread
from streammetrics.enrolment.records import (
    NO_TOTALS,
    ArmSet,
    Cohort,
    Cohorts,
    RunArm,
    ScopeKey,
    SetTotals,
    StoredEarlier,
    StoredRecord,
    UserRecord,
)
from streammetrics.enrolment.rows import TotalsRows, UserTotalsLayout, pack_sums
from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ListTargets, VariantTarget
from streammetrics.enrolment.variant_moments import VariantPairs, covariate_columns, update_moments
from streammetrics.events.event_time import NEVER
from streammetrics.experiments.hours import Arrival
from streammetrics.experiments.policy import INTERLEAVED
from streammetrics.metrics.arrays import Ints
from streammetrics.windows.alike_sets import list_sets
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.tally_deltas import add_tallies
from streammetrics.words.times import HOUR_MS

UserReactions: TypeAlias = tuple[tuple[ArmSet, ...], Mapping[int, bool]]
"""The sets of a user's record, and `UserRecord.reacted`."""


class TotalsBatch:
    """The users of one commit, whose final lists are added to their totals.

    A user has a row for each set of arms and each covariate period to which lists are added.
    """

    def __init__(self, targets: ListTargets, layout: UserTotalsLayout, lists: FinalLists, counts: Counter[tuple[str, int]]) -> None:
        self.targets, self.layout, self.lists, self._counts = targets, layout, lists, counts
        self._credits = TeamCredits(lists, layout.lists_max, layout.credit_thresholds, counts)
        self._interleaved: list[tuple[VariantTarget, int, int]] = []
        """Interleaved lists that get credit next: the target, the row, and the number of lists before."""
        self._rows = TotalsRows(layout, lists)
        self._cohorts = Cohorts()
        self._of_rows: list[tuple[UserRecord, ArmSet, int] | None] = []
        """By row: the user, the arms of the row, and the number of the user's cohort there. None: a covariate period."""
        self._hours = HourCounts(targets, lists.times)
        self._reactions: dict[ArmSet, list[int]] = {}
        """The reactions of the added lists by arms, as in `Scope.reactions`."""
        self._reacting: Counter[tuple[int, str, bool]] = Counter()
        """Changes of the users who reacted, by run and variant: all, and those with a reaction that matches no list (True)."""
        self._periods: list[tuple[UserRecord, CovariatePeriod, int]] = []
        """Totals of covariate periods that change: the user, the period, and the row."""
        self._covariates_of: dict[int, int | StoredEarlier] = {}
        """By row: the user's totals before the experiment, as another row or as stored."""

    def restore(self, record: UserRecord, stored: StoredRecord) -> None:
        """Read a user's stored totals into a record, except those that no longer matter."""
        restored, is_period_open = self.targets.sets.restored, self.targets.is_period_open
        for raw, lists, packed, credits in stored.totals:
            arms = restored(raw)
            if arms is not None:
                record.totals[arms] = SetTotals(lists, packed, credits)
            if arms is None or len(arms.stored) != len(raw):
                record.changed = True
        for entry in stored.earlier:
            if is_period_open(entry[0]):
                record.earlier[entry[0]] = entry
            else:
                record.changed = True
        record.came, record.reacted = stored.came, stored.reacted
        if not stored.came.keys() <= self.targets.open_runs:
            record.came = {run: hour for run, hour in stored.came.items() if run in self.targets.open_runs}
            record.reacted = {run: kind for run, kind in stored.reacted.items() if run in record.came}
            record.changed = True

    def add_lists(self, record: UserRecord, label_runs: Sequence[LabelRun]) -> dict[int, int]:
        """Add a user's lists to the record. Returns the time (ms) of the first list in the runs that the user comes to with them."""
        times, target_at = self.lists.times, self.targets.at
        period_rows = self._add_to_periods(record, label_runs[0][1], label_runs[-1][2]) if self.targets.rules.earlier else {}
        rows: dict[ArmSet, int] = {}
        entered = dict[int, int]()
        for number, first, end in label_runs:
            begin = first
            while begin < end:
                target = target_at(number, times[begin])
                stop = end if times[end - 1] <= target.last else bisect_right(times, target.last, begin, end)
                new = [run for run in target.runs if run not in record.came]
                if new:
                    entered |= dict.fromkeys(new, times[begin])
                    record.came = record.came | self._arrivals(new, begin)
                for arms in target.sets:
                    for part in self._sets_for(record, arms, rows, begin):
                        self._add_to_set(record, part, rows, period_rows, begin, stop)
                if self._interleaved:
                    self._credits.add_lists(self._interleaved, begin, stop)
                    self._interleaved = []
                begin = stop
        return entered

    def _arrivals(self, runs: Sequence[int], first: int) -> dict[int, Arrival]:
        """Return when a user comes to runs if the list `first` is their first one there. Only strata differ from run to run."""
        rules, final, of_number = self.targets.rules, self.lists.lists[first], self.targets.runs.of_number
        if not rules.strata:
            return dict.fromkeys(runs, final.ts // HOUR_MS)
        return {run: rules.arrival(of_number[run].experiment, final.ts, final.segments) for run in runs}

    def add_reactions(self, record: UserRecord, entered: Mapping[int, int], reacted_ms: int, unmatched_ms: int) -> None:
        """Note that a user reacted until some time, and until some time without a list (ms; NEVER: not at all).

        A reaction counts in the runs that the user had come to. `entered`: see `add_lists`.
        """
        if reacted_ms == NEVER:
            return
        reacted = dict(record.reacted)
        for run in record.came:
            came_ms = entered.get(run, NEVER + 1)
            if came_ms <= reacted_ms:
                reacted[run] = reacted.get(run, False) or came_ms <= unmatched_ms
        if reacted != record.reacted:
            record.reacted, record.changed = reacted, True

    def count_reacting(self, before: UserReactions, after: UserReactions) -> None:
        """Count a user among those who reacted, in each variant of which they saw a list, instead of as before."""
        for sign, (sets, reacted) in ((-1, before), (1, after)) if before != after else ():
            for run, day, variant in [arm for arms in sets for arm in arms.arms] if reacted else ():
                if day == WHOLE and run in reacted:
                    self._reacting[run, variant, False] += sign
                    if reacted[run]:
                        self._reacting[run, variant, True] += sign

    def _add_to_periods(self, record: UserRecord, first: int, end: int) -> dict[CovariatePeriod, int]:
        """Add lists to the covariate periods that hold them, whatever their labels. Returns the rows of these periods."""
        times, rows = self.lists.times, {}
        for period in self.targets.rules.earlier:
            begin = bisect_left(times, max(period.from_ms, self.targets.counted_from), first, end)
            stop = bisect_left(times, period.start_ms, begin, end)
            if begin < stop and self.targets.is_period_open(period):
                _, lists, packed = record.earlier.setdefault(period, (period, 0, b""))
                row = rows[period] = self._rows.add(lists, packed, begin, self._fitting(lists, begin, stop, 1))
                self._of_rows.append(None)
                self._periods.append((record, period, row))
        return rows

    def _sets_for(self, record: UserRecord, list_arms: ArmSet, rows: dict[ArmSet, int], first: int) -> Sequence[ArmSet]:
        """Return the sets of the record that the list `first` is added to. `rows` are the user's rows so far.

        Sets are split, so that a set gets the list in all of its arms or in none.
        """
        if list_arms in record.totals:
            return (list_arms,)
        apart = self.targets.apart(list_arms) if record.totals else ()
        if apart and apart[0] in record.totals and apart[1] in record.totals:
            return apart
        sets = list[ArmSet]()
        for arms in list_sets(record.totals, list_arms, _arms_of, self.targets.sets.of, partial(self._copy_row, record, rows)):
            if arms not in record.totals:
                self._hours.add_newcomer(arms, record.totals, self.lists.times[first], self.lists.lists[first].segments)
                record.totals[arms] = NO_TOTALS
            sets.append(arms)
        return sets

    def _copy_row(self, record: UserRecord, rows: dict[ArmSet, int], whole: ArmSet, inside: ArmSet, outside: ArmSet) -> None:
        """Let two sets that replace one have a row each, with the same lists. There is none if the set had none."""
        row = rows.pop(whole, None)
        if row is not None:
            rows[inside], rows[outside] = row, self._rows.copy(row)
            self._of_rows[row] = record, inside, self._cohorts.number(inside, record.came)
            self._of_rows.append((record, outside, self._cohorts.number(outside, record.came)))
            if row in self._covariates_of:
                self._covariates_of[rows[outside]] = self._covariates_of[row]

    def _add_to_set(
        self,
        record: UserRecord,
        arms: ArmSet,
        rows: dict[ArmSet, int],
        period_rows: dict[CovariatePeriod, int],
        first: int,
        end: int,
    ) -> None:
        """Add lists to a set of the record. Its arms have the same covariates; an arm with credits is a set of its own."""
        row, totals, target = rows.get(arms), record.totals[arms], self.targets.targets_of(arms)[0]
        size, cohort = totals.lists if row is None else self._rows.sizes[row], self._cohorts.number(arms, record.came)
        fitting = self._fitting(size, first, end, len(arms.arms))
        if row is None:
            row = rows[arms] = self._rows.add(totals.lists, totals.packed, first, fitting)
            self._of_rows.append((record, arms, cohort))
            period = target.run.earlier
            if period is not None and period in record.earlier:
                self._covariates_of[row] = period_rows.get(period, record.earlier[period])
            if target.variant == INTERLEAVED:
                self._credits.restore(target, row, totals.credits)
        else:
            self._rows.add_lists(row, first, fitting)
        if first < fitting:
            self._hours.add_lists(cohort, first, fitting, row)
            self._count_reactions(arms, first, fitting)
        if first < end and target.variant == INTERLEAVED:
            self._interleaved.append((target, row, size))

    def _count_reactions(self, arms: ArmSet, first: int, end: int) -> None:
        for final in self.lists.lists[first:end]:
            if final.reactions:
                more = final.reactions, final.reactions**2, final.late_reactions
                self._reactions[arms] = add_tallies(self._reactions.get(arms, (0, 0, 0)), more)

    def _fitting(self, size: int, first: int, end: int, arms: int) -> int:
        """Return the end of those lists that fit into a row of this size, and count the others in each of its arms."""
        if size + end - first <= self.layout.lists_max:
            return end
        fitting = min(first + max(self.layout.lists_max - size, 0), end)
        for final in self.lists.lists[fitting:end]:
            self._counts["experiment_lists_full", final.topic] += arms
        return fitting

    def sum(self) -> set[ScopeKey]:
        """Update the sums of experiments and the records of users. Returns the scopes that changed."""
        reacting = self._add_reacting()
        if not self._of_rows:
            return reacting
        before, after, sums = self._rows.totals()
        covariates = covariate_columns(self.layout, self._covariates_of, after)
        cohorts, cohort_of = (
            self._cohorts.all(),
            np.array([-1 if of_row is None else of_row[2] for of_row in self._of_rows], dtype=np.int64),
        )
        changed = update_moments(self.targets, self.layout, cohorts, cohort_of, before, after, covariates)
        have_covariates = any(run.earlier is not None for run in self.targets.runs)
        self._hours.add(cohorts, sums, covariates, self.layout.covariate_bottoms if have_covariates else None)
        self._add_entry_users(cohorts, cohort_of, before, after)
        self._add_reactions()
        self._add_pairs(before, after)
        self._update_records(pack_sums(after[:, 1:]))
        for number, day in changed:
            self.targets.runs.of_number[number].scope(day).bound()
        return changed | reacting

    def _add_entry_users(self, cohorts: Sequence[Cohort], cohort_of: Ints, before: Ints, after: Ints) -> None:
        """Count users with their first list in a variant, and with their first hit in it."""
        columns = [0, *(column - 1 for column in self.layout.measures.hits)]
        more = (after[:, columns] != 0).astype(np.int64) - (before[:, columns] != 0)
        sums = np.zeros((len(cohorts) + 1, len(columns)), dtype=np.int64)  # the last one is for covariate periods
        np.add.at(sums, cohort_of, more)
        add_entry_users(self.targets, [(cohort, users) for cohort, users in zip(cohorts, sums[:-1].tolist(), strict=True) if any(users)])

    def _add_reactions(self) -> None:
        """Add reactions to the scopes of whole runs."""
        numbers: dict[VariantTarget, int] = {}
        members = [
            [numbers.setdefault(target, len(numbers)) for target in self.targets.targets_of(arms) if target.key[1] == WHOLE]
            for arms in self._reactions
        ]
        sums = spread(np.array([*self._reactions.values()], dtype=np.int64).reshape(-1, 3), members, len(numbers))
        for target, more in zip(numbers, sums, strict=True):
            reactions = target.scope.reactions.get(target.variant, (0, 0, 0))
            target.scope.reactions[target.variant] = add_tallies(reactions, more)

    def _add_reacting(self) -> set[ScopeKey]:
        """Add users who reacted. Returns the scopes that changed."""
        changed = {key: users for key, users in self._reacting.items() if users}
        for (number, variant, is_unmatched), users in changed.items():
            reacting = self.targets.runs.of_number[number].scope(WHOLE).reacting.setdefault(variant, [0, 0])
            reacting[is_unmatched] += users
        return {(number, WHOLE) for number, _, _ in changed}

    def _add_pairs(self, before: Ints, after: Ints) -> None:
        """Update the cross moments of variants."""
        pairs = VariantPairs(self.targets, self.layout.cross, before, after)
        users: dict[int, tuple[UserRecord, dict[ArmSet, int]]] = {}
        for row, of_row in enumerate(self._of_rows):
            if of_row is not None and len(of_row[0].totals) > 1:
                record, arms, _ = of_row
                users.setdefault(id(record), (record, {}))[1][arms] = row
        for record, changed in users.values():
            if _overlap(record.totals):
                unchanged = [(arms, totals.lists, totals.packed) for arms, totals in record.totals.items() if arms not in changed]
                pairs.add_user([*changed.items()], unchanged)
        pairs.sum()

    def _update_records(self, packed: Sequence[bytes]) -> None:
        """Put the new totals into users' records."""
        sizes = self._rows.sizes
        for row, of_row in enumerate(self._of_rows):
            if of_row is None:
                continue
            record, arms, _ = of_row
            credits = self._credits.stored(row)
            if credits is not None:
                for target in self.targets.targets_of(arms):
                    self._credits.put_back(target, row)
            record.totals[arms] = SetTotals(sizes[row], packed[row], credits or NO_TOTALS.credits)
        for record, period, row in self._periods:
            record.earlier[period] = period, sizes[row], packed[row]


def _arms_of(arms: ArmSet) -> AbstractSet[RunArm]:
    return arms.arms


def _overlap(sets: Iterable[ArmSet]) -> bool:
    """Whether two sets have a scope in common."""
    seen: set[ScopeKey] = set()
    for arms in sets:
        if not seen.isdisjoint(arms.scopes):
            return True
        seen |= arms.scopes
    return False
