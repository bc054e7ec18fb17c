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

import numpy as np

from streammetrics.enrolment.credits import TeamCredits
from streammetrics.enrolment.hour_counts import HourCounts, add_entry_users
from streammetrics.enrolment.records import NO_TOTALS, PlaceSet, ScopeKey, SetTotals, StoredEarlier, StoredRecord, UserRecord
from streammetrics.enrolment.rows import TotalsRows, UserTotalsLayout, pack_sums
from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ExposureTargets, VariantTarget
from streammetrics.enrolment.variant_moments import Came, ChangedRow, VariantPairs, covariate_columns, update_moments
from streammetrics.events.event_time import NEVER
from streammetrics.experiments.hours import HOUR_MS
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.metrics.arrays import Ints
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.tally_deltas import add_tallies


class TotalsBatch:
    """The users of one commit, whose final lists are added to their totals.

    A user has a row for each set of places and each covariate period to which lists are added.
    """

    def __init__(self, targets: ExposureTargets, layout: UserTotalsLayout, lists: FinalLists, counts: Counter[tuple[str, int]]) -> None:
        self.targets, self.layout, self.lists, self._counts = targets, layout, lists, counts
        self._credits = TeamCredits(lists, layout.lists_max, layout.credit_thresholds, counts)
        self._interleaved: list[tuple[VariantTarget, int, int]] = []
        """Interleaved lists that get credit next: the target, the row, and the number of lists before."""
        self._rows = TotalsRows(layout, lists)
        self._of_rows: list[tuple[UserRecord, PlaceSet] | None] = []
        """By row: the user, and the places of the row. None: a covariate period."""
        self._hours = HourCounts(targets, lists.times)
        self._reactions: dict[PlaceSet, list[int]] = {}
        """The reactions of the added lists, as in `Scope.reactions`."""
        self._reacting: Counter[tuple[int, str, bool]] = Counter()
        """Changes of the users who reacted, by run and variant: all, and those with a reaction that matches no list (True)."""
        self._periods: list[tuple[UserRecord, CovariatePeriod, int]] = []
        """Totals of covariate periods that change: the user, the period, and the row."""
        self._covariates_of: dict[int, int | StoredEarlier] = {}
        """By row: the user's totals before the experiment, as another row or as stored."""

    def restore(self, record: UserRecord, stored: StoredRecord) -> None:
        """Read a user's stored totals into a record, except those that no longer matter."""
        restored, is_period_open, is_open = self.targets.sets.restored, self.targets.is_period_open, self.targets.is_open
        for raw, lists, packed, credits in stored.totals:
            places = restored(raw)
            if places is not None:
                record.totals[places] = SetTotals(lists, packed, credits)
            if places is None or len(places.stored) != len(raw):
                record.changed = True
        for entry in stored.earlier:
            if is_period_open(entry[0]):
                record.earlier[entry[0]] = entry
            else:
                record.changed = True
        record.came = {run: hour for run, hour in stored.came.items() if is_open((run, WHOLE))}
        record.reacted = {run: kind for run, kind in stored.reacted.items() if run in record.came}
        record.changed |= len(record.came) < len(stored.came)

    def add_lists(self, record: UserRecord, label_runs: Sequence[LabelRun]) -> dict[int, int]:
        """Add a user's lists to the record. Returns the time (ms) of the first list in the runs that the user comes to with them."""
        times, target_at = self.lists.times, self.targets.at
        period_rows = self._add_to_periods(record, label_runs[0][1], label_runs[-1][2]) if self.targets.rules.earlier else {}
        rows: dict[PlaceSet, int] = {}
        came, entered = _came(record), dict[int, int]()
        for number, first, end in label_runs:
            begin = first
            while begin < end:
                target = target_at(number, times[begin])
                stop = end if times[end - 1] <= target.last else bisect_right(times, target.last, begin, end)
                new = [run for run in target.runs if run not in record.came]
                if new:
                    entered |= dict.fromkeys(new, times[begin])
                    record.came = record.came | dict.fromkeys(new, times[begin] // HOUR_MS)
                    came = _came(record)
                for places, apart in target.sets:
                    if places in record.totals:
                        own: Sequence[PlaceSet] = (places,)
                    elif apart and apart[0] in record.totals and apart[1] in record.totals:
                        own = apart
                    else:
                        own = self._sets_for(record, places, rows, begin)
                    for each in own:
                        self._add_to_set(record, each, came, rows, period_rows, begin, stop)
                if self._interleaved:
                    self._credits.add_lists(self._interleaved, begin, stop)
                    self._interleaved = []
                begin = stop
        return entered

    def add_reactions(self, record: UserRecord, entered: Mapping[int, int], reacted_ms: int, unmatched_ms: int) -> None:
        """Note that a user reacted until some time, and until some time without a list (ms; NEVER: not at all).

        A reaction counts in the runs that the user had come to. `entered`: see `add_lists`.
        """
        for run in record.came:
            came_ms = entered.get(run, NEVER + 1)
            if came_ms <= reacted_ms:
                is_unmatched = came_ms <= unmatched_ms
                if record.reacted.get(run) is not True and record.reacted.get(run) is not is_unmatched:
                    record.reacted = {**record.reacted, run: is_unmatched}
                    record.changed = True

    def count_reacting(self, record: UserRecord, sign: int) -> None:
        """Add a user to those who reacted, in each variant of which they saw a list; or take the user out with the sign -1."""
        if record.reacted:
            for places in record.totals:
                for run, day, variant in places.places:
                    if day == WHOLE and run in record.reacted:
                        self._reacting[run, variant, False] += sign
                        self._reacting[run, variant, True] += sign * record.reacted[run]

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

    def _sets_for(self, record: UserRecord, shown: PlaceSet, rows: dict[PlaceSet, int], first: int) -> list[PlaceSet]:
        """Return the sets of the record that the list `first` is added to. `rows` are the user's rows so far.

        Sets are split, so that a set gets the list in all of its places or in none.
        """
        sets, new = [], set(shown.places)
        for own in [own for own in record.totals if not own.places.isdisjoint(new)]:
            new -= own.places
            sets.append(own if own.places <= shown.places else self._cut(record, own, shown, rows))
        if new:
            places = shown if len(new) == len(shown.places) else self.targets.sets.of(new)
            self._hours.add_newcomer(places, record.totals, self.lists.times[first], self.lists.lists[first].segments)
            record.totals[places] = NO_TOTALS
            sets.append(places)
        return sets

    def _cut(self, record: UserRecord, own: PlaceSet, shown: PlaceSet, rows: dict[PlaceSet, int]) -> PlaceSet:
        """Replace a set of a record by the places that a list shows, and the others. Returns the first."""
        parts = [self.targets.sets.of(places) for places in (own.places & shown.places, own.places - shown.places)]
        totals, row = record.totals.pop(own), rows.pop(own, None)
        for number, places in enumerate(parts):
            record.totals[places] = totals
            if row is not None:
                rows[places] = self._rows.copy(row) if number else row
                if number:
                    self._of_rows.append(None)
                    if row in self._covariates_of:
                        self._covariates_of[rows[places]] = self._covariates_of[row]
                self._of_rows[rows[places]] = record, places
        return parts[0]

    def _add_to_set(
        self,
        record: UserRecord,
        places: PlaceSet,
        came: Came,
        rows: dict[PlaceSet, int],
        period_rows: dict[CovariatePeriod, int],
        first: int,
        end: int,
    ) -> None:
        """Add lists to a set of the record. Its places have the same covariates; a place with credits is a set of its own."""
        row, totals, target = rows.get(places), record.totals[places], self.targets.targets_of(places)[0]
        size = totals.lists if row is None else self._rows.sizes[row]
        fitting = self._fitting(size, first, end, len(places.places))
        if row is None:
            row = rows[places] = self._rows.add(totals.lists, totals.packed, first, fitting)
            self._of_rows.append((record, places))
            period = target.run.earlier
            if period is not None and period in record.earlier:
                self._covariates_of[row] = period_rows.get(period, record.earlier[period])
            if target.variant == INTERLEAVED:
                self._credits.restore(target, row, totals.credits)
        else:
            self._rows.add_lists(row, first, fitting)
        if first < fitting:
            self._hours.add_lists(places, came, first, fitting, row)
            self._count_reactions(places, first, fitting)
        if first < end and target.variant == INTERLEAVED:
            self._interleaved.append((target, row, size))

    def _count_reactions(self, places: PlaceSet, first: int, end: int) -> None:
        for final in self.lists.lists[first:end]:
            if final.reactions:
                more = final.reactions, final.reactions**2, final.late_reactions
                self._reactions[places] = add_tallies(self._reactions.get(places, (0, 0, 0)), more)

    def _fitting(self, size: int, first: int, end: int, places: int) -> int:
        """Return the end of those lists that fit into a row of this size, and count the others in each of its places."""
        if size + end - first <= self.layout.lists_max:
            return end
        fitting = min(first + max(self.layout.lists_max - size, 0), end)
        for final in self.lists.lists[fitting:end]:
            self._counts["experiment_lists_full", final.topic] += places
        return fitting

    def sum(self) -> set[ScopeKey]:
        """Update the sums of experiments and the records of users. Returns the scopes that changed."""
        reacting = self._add_reacting()
        if not self._of_rows:
            return reacting
        before, after, sums = self._rows.totals()
        covariates = covariate_columns(self.layout, self._covariates_of, after)
        rows = [ChangedRow(row, of_row[1], _came(of_row[0])) for row, of_row in enumerate(self._of_rows) if of_row is not None]
        changed = update_moments(self.targets, self.layout, rows, before, after, covariates)
        have_covariates = any(run.earlier is not None for run in self.targets.runs)
        self._hours.add(sums, covariates, self.layout.covariate_bottoms if have_covariates else ())
        self._add_entry_users(rows, before, after)
        self._add_reactions()
        self._add_pairs(before, after)
        self._update_records(pack_sums(after[:, 1:]))
        for number, day in changed:
            self.targets.runs.of_number[number].scope(day).bound()
        return changed | reacting

    def _add_entry_users(self, rows: Iterable[ChangedRow], before: Ints, after: Ints) -> None:
        """Count users with their first list in a variant, and with their first hit in it."""
        columns = [0, *(place - 1 for place in self.layout.measures.hits)]
        more = (after[:, columns] != 0).astype(np.int64) - (before[:, columns] != 0)
        is_changed, found = more.any(axis=1).tolist(), dict[tuple[PlaceSet, Came], list[int]]()
        for row, places, came in rows:
            if is_changed[row]:
                found[places, came] = add_tallies(found.get((places, came), (0,) * len(columns)), more[row].tolist())
        add_entry_users(self.targets, found)

    def _add_reactions(self) -> None:
        """Add reactions to the scopes of whole runs."""
        for places, more in self._reactions.items():
            for target in self.targets.targets_of(places):
                if target.key[1] == WHOLE:
                    known = target.scope.reactions.get(target.variant, (0, 0, 0))
                    target.scope.reactions[target.variant] = add_tallies(known, more)

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
        users: dict[int, tuple[UserRecord, dict[PlaceSet, int]]] = {}
        for row, of_row in enumerate(self._of_rows):
            if of_row is not None:
                record, places = of_row
                users.setdefault(id(record), (record, {}))[1][places] = row
        for record, changed in users.values():
            if len(record.totals) > 1 and _overlap(record.totals):
                unchanged = [(places, totals.lists, totals.packed) for places, totals in record.totals.items() if places not in changed]
                pairs.add_user([*changed.items()], unchanged)
        pairs.sum()

    def _update_records(self, packed: Sequence[bytes]) -> None:
        """Put the new totals into users' records."""
        sizes = self._rows.sizes
        for row, of_row in enumerate(self._of_rows):
            if of_row is None:
                continue
            record, places = of_row
            credits = self._credits.stored(row)
            if credits is not None:
                for target in self.targets.targets_of(places):
                    self._credits.put_back(target, row)
            record.totals[places] = SetTotals(sizes[row], packed[row], credits or NO_TOTALS.credits)
        for record, period, row in self._periods:
            record.earlier[period] = period, sizes[row], packed[row]


def _came(record: UserRecord) -> Came:
    return tuple(record.came.items())


def _overlap(sets: Iterable[PlaceSet]) -> bool:
    """Whether two sets have a scope in common."""
    seen: set[ScopeKey] = set()
    for places in sets:
        if not seen.isdisjoint(places.scopes):
            return True
        seen |= places.scopes
    return False
