"""Users' totals in experiments: the final lists of all users of one commit are added to them, and the changes to the experiments' moments.

Pure. A user belongs to the variant of the first enrolled list. The user's totals only grow, until a list shows a second variant. Then they
are withdrawn, and the user is counted as multi-exposed.

With variance reduction, a user's lists before an experiment are summed too, whatever their labels. Earlier lists are enrolled first, so
this sum is complete when the first list of the experiment is enrolled. Lists of the variant INTERLEAVED have credits as well.

The moments change by the difference between a user's totals after the batch and before it. All sums are integers, so the order of users
and commits cannot matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence

from streammetrics.enrolment.credits import TeamCredits
from streammetrics.enrolment.records import (
    NO_TOTALS,
    ScopeKey,
    ScopeSet,
    ScopeTotals,
    ScopeVariants,
    StoredEarlier,
    StoredTotals,
    UserRecord,
    split,
)
from streammetrics.enrolment.rows import TotalsRows, UserTotalsLayout, pack_sums
from streammetrics.enrolment.rules import CovariatePeriod
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ExposureTargets, VariantTarget
from streammetrics.enrolment.variant_moments import CellPairs, covariate_columns, update_moments
from streammetrics.experiments.arrivals import HOUR_MS, merge_hours
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.metrics.arrays import Ints
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.tally_deltas import add_tallies


class TotalsBatch:
    """The users of one commit, whose final lists are added to their totals.

    A user has a row for each set of scopes and each covariate period to which lists are added.
    """

    def __init__(self, targets: ExposureTargets, layout: UserTotalsLayout, lists: FinalLists, counts: Counter[tuple[str, int]]) -> None:
        self.targets, self.layout, self.lists, self._counts = targets, layout, lists, counts
        self._credits = TeamCredits(lists, layout.lists_max, layout.credit_thresholds, counts)
        self._interleaved: list[tuple[VariantTarget, int, int]] = []
        """Interleaved lists that get credit next: the target, the row, and the number of lists before."""
        self._rows = TotalsRows(layout, lists)
        self._scopes: list[tuple[UserRecord, ScopeSet] | None] = []
        """By row: the user, and the scopes of the row. None: a covariate period."""
        self._newcomers: Counter[tuple[ScopeSet, int]] = Counter()
        """New users by the scopes in which they are new, and the hour of their first list."""
        self._listed: Counter[tuple[ScopeSet, int]] = Counter()
        """Lists by the scopes to which they are added, and hour."""
        self._reactions: dict[ScopeSet, list[int]] = {}
        """The reactions of the lists in `_listed`, as in `Scope.reactions`."""
        self._periods: list[tuple[UserRecord, CovariatePeriod, int]] = []
        """Totals of covariate periods that change: the user, the period, and the row."""
        self._covariates_of: dict[int, int | StoredEarlier] = {}
        """By row: the user's totals before the experiment, as another row or as stored."""
        self._withdrawn: set[int] = set()
        """Rows of users that saw several variants."""

    def restore(self, record: UserRecord, stored: Iterable[StoredTotals], earlier: Iterable[StoredEarlier]) -> None:
        """Read a user's stored totals into a record, except those that no longer matter."""
        restored, is_period_open = self.targets.sets.restored, self.targets.is_period_open
        for raw, lists, packed, credits in stored:
            scopes = restored(raw)
            if scopes is not None:
                record.entries[scopes] = ScopeTotals(lists, packed, credits)
            if scopes is None or len(scopes.stored) != len(raw):
                record.changed = True
        for entry in earlier:
            if is_period_open(entry[0]):
                record.earlier[entry[0]] = entry
            else:
                record.changed = True

    def add_lists(self, record: UserRecord, label_runs: Sequence[LabelRun]) -> None:
        """Add a user's lists to the record."""
        times, target_at, entries = self.lists.times, self.targets.at, self.targets.entries_of(record.entries)
        period_rows = self._add_to_periods(record, label_runs[0][1], label_runs[-1][2]) if self.targets.rules.earlier else {}
        rows: dict[ScopeSet, int] = {}
        for number, first, end in label_runs:
            begin = first
            while begin < end:
                target = target_at(number, times[begin], entries)
                stop = end if times[end - 1] <= target.last else bisect_right(times, target.last, begin, end)
                if target.entries:
                    entries |= target.entries
                if target.unstaged:
                    self._count_unstaged(begin, stop, target.unstaged)
                for part in target.parts:
                    part.counted_last = max(part.counted_last, times[stop - 1])
                for scopes, apart in target.sets:
                    if scopes in record.entries:
                        own: Sequence[ScopeSet] = (scopes,)
                    elif apart and apart[0] in record.entries and apart[1] in record.entries:
                        own = apart
                    else:
                        own = self._parts_for(record, scopes, rows, period_rows, begin)
                    for each in own:
                        self._add_to_part(record, each, rows, period_rows, begin, stop)
                if self._interleaved:
                    self._credits.add_lists(self._interleaved, begin, stop)
                    self._interleaved = []
                begin = stop

    def _count_unstaged(self, first: int, end: int, experiments: int) -> None:
        for final in self.lists.lists[first:end]:
            self._counts["experiment_lists_unstaged", final.topic] += experiments

    def _add_to_periods(self, record: UserRecord, first: int, end: int) -> dict[CovariatePeriod, int]:
        """Add lists to the covariate periods that hold them, whatever their labels. Returns the rows of these periods."""
        times, rows = self.lists.times, {}
        for period in self.targets.rules.earlier:
            begin = bisect_left(times, max(period.from_ms, self.targets.counted_from), first, end)
            stop = bisect_left(times, period.start_ms, begin, end)
            if begin < stop and self.targets.is_period_open(period):
                _, lists, packed = record.earlier.setdefault(period, (period, 0, b""))
                row = rows[period] = self._rows.add(lists, packed, begin, self._fitting(lists, begin, stop, 1))
                self._scopes.append(None)
                self._periods.append((record, period, row))
        return rows

    def _parts_for(
        self, record: UserRecord, shown: ScopeSet, rows: dict[ScopeSet, int], period_rows: dict[CovariatePeriod, int], first: int
    ) -> list[ScopeSet]:
        """Return the sets of the record that the list `first` is added to. `rows` are the user's rows so far.

        Sets are split, so that a set gets the list in all of its scopes or in none. If the user had another variant before, the totals
        there are withdrawn and nothing is added any more.
        """
        parts, new = [], dict(shown.variants)
        for own in [own for own in record.entries if not own.variants.keys().isdisjoint(new)]:
            for scope in own.variants:
                new.pop(scope, None)
            if own.is_multi_exposed:
                continue
            same, other, rest = split(own.variants, shown.variants)
            same_set, other_set = self._cut(record, own, (same, other, rest), rows)
            if same_set is not None:
                parts.append(same_set)
            if other_set is not None:
                self._withdraw(record, other_set, rows, period_rows, first)
        if new:
            scopes = shown if len(new) == len(shown.variants) else self.targets.sets.of(new)
            record.entries[scopes] = NO_TOTALS
            self._newcomers[scopes, self.lists.times[first] // HOUR_MS] += 1
            parts.append(scopes)
        return parts

    def _cut(
        self, record: UserRecord, own: ScopeSet, parts: Sequence[ScopeVariants], rows: dict[ScopeSet, int]
    ) -> tuple[ScopeSet | None, ScopeSet | None]:
        """Replace a set of a record by its three parts. Returns the first two; None for a part without scopes."""
        cut = [own if len(part) == len(own.variants) else self.targets.sets.of(part) if part else None for part in parts]
        if own not in cut:
            totals, row = record.entries.pop(own), rows.pop(own, None)
            for place, scopes in enumerate([scopes for scopes in cut if scopes is not None]):
                record.entries[scopes] = totals
                if row is not None:
                    rows[scopes] = self._rows.copy(row) if place else row
                    if place:
                        self._scopes.append(None)
                        if row in self._covariates_of:
                            self._covariates_of[rows[scopes]] = self._covariates_of[row]
                    self._scopes[rows[scopes]] = record, scopes
        return cut[0], cut[1]

    def _withdraw(
        self, record: UserRecord, scopes: ScopeSet, rows: dict[ScopeSet, int], period_rows: dict[CovariatePeriod, int], first: int
    ) -> None:
        """Take a user's totals out of some scopes, because a list has shown other variants there."""
        if scopes not in rows:
            self._add_to_part(record, scopes, rows, period_rows, first, first)
        self._withdrawn.add(rows.pop(scopes))
        del record.entries[scopes]
        several: dict[ScopeKey, str | None] = dict.fromkeys(scopes.variants)
        for known in [known for known in record.entries if known.is_multi_exposed]:
            several.update(known.variants)
            del record.entries[known]
        record.entries[self.targets.sets.of(several)] = NO_TOTALS
        for target in self.targets.targets_of(scopes):
            target.scope.multi_exposed += 1

    def _add_to_part(
        self,
        record: UserRecord,
        scopes: ScopeSet,
        rows: dict[ScopeSet, int],
        period_rows: dict[CovariatePeriod, int],
        first: int,
        end: int,
    ) -> None:
        """Add lists to a set of the record. Its scopes have the same covariates; a scope with credits is a set of its own."""
        row, totals, target = rows.get(scopes), record.entries[scopes], self.targets.targets_of(scopes)[0]
        size = totals.lists if row is None else self._rows.sizes[row]
        fitting = self._fitting(size, first, end, len(scopes.variants))
        if first < fitting:
            self._count_hours(scopes, first, fitting)
            self._count_reactions(scopes, first, fitting)
        if row is None:
            row = rows[scopes] = self._rows.add(totals.lists, totals.packed, first, fitting)
            self._scopes.append((record, scopes))
            period = target.run.earlier
            if period is not None and period in record.earlier:
                self._covariates_of[row] = period_rows.get(period, record.earlier[period])
            if target.variant == INTERLEAVED:
                self._credits.restore(target, row, totals.credits)
        else:
            self._rows.add_lists(row, first, fitting)
        if first < end and target.variant == INTERLEAVED:
            self._interleaved.append((target, row, size))

    def _count_hours(self, scopes: ScopeSet, first: int, end: int) -> None:
        times = self.lists.times
        hour = times[first] // HOUR_MS
        if times[end - 1] // HOUR_MS == hour:
            self._listed[scopes, hour] += end - first
        else:
            self._listed.update((scopes, ts // HOUR_MS) for ts in times[first:end])

    def _count_reactions(self, scopes: ScopeSet, first: int, end: int) -> None:
        for final in self.lists.lists[first:end]:
            if final.reactions:
                more = final.reactions, final.reactions**2, final.late_reactions
                self._reactions[scopes] = add_tallies(self._reactions.get(scopes, (0, 0, 0)), more)

    def _fitting(self, size: int, first: int, end: int, scopes: int) -> int:
        """Return the end of those lists that fit into a row of this size, and count the others in each of its scopes."""
        if size + end - first <= self.layout.lists_max:
            return end
        fitting = min(first + max(self.layout.lists_max - size, 0), end)
        for final in self.lists.lists[fitting:end]:
            self._counts["experiment_lists_full", final.topic] += scopes
        return fitting

    def sum(self) -> set[ScopeKey]:
        """Update the moments of experiments and the records of users. Returns the scopes that changed."""
        if not self._scopes:
            return set()
        before, after = self._rows.totals()
        self._add_hours()
        self._add_reactions()
        counted = after.copy()
        counted[list(self._withdrawn)] = 0
        rows = [(row, of_row[1]) for row, of_row in enumerate(self._scopes) if of_row is not None]
        covariates = covariate_columns(self.layout, self._covariates_of, after)
        changed = update_moments(self.targets, self.layout, rows, before, counted, covariates)
        if self.targets.have_cells:
            changed |= self._add_pairs(before, counted)
        self._update_records(pack_sums(after[:, 1:]))
        return changed

    def _add_hours(self) -> None:
        """Add new users and lists to the hours of their scopes."""
        for target, hours in self._by_target(self._newcomers):
            if not target.by_list:
                target.scope.arrivals = target.scope.arrivals.and_more(target.variant, hours)
        for target, hours in self._by_target(self._listed):
            scope, variant = target.scope, target.variant
            if target.by_list:
                scope.arrivals = scope.arrivals.and_more(variant, hours)
            if target.key[1] == WHOLE:
                scope.recent[variant] = merge_hours((scope.recent.get(variant, {}), hours))

    def _add_reactions(self) -> None:
        """Add reactions to the scopes of whole runs."""
        for scopes, more in self._reactions.items():
            for target in self.targets.targets_of(scopes):
                if target.key[1] == WHOLE:
                    known = target.scope.reactions.get(target.variant, (0, 0, 0))
                    target.scope.reactions[target.variant] = add_tallies(known, more)

    def _by_target(self, counts: Counter[tuple[ScopeSet, int]]) -> Iterable[tuple[VariantTarget, Counter[int]]]:
        """Return counts of sets and hours as counts of the hours of each scope."""
        found: dict[VariantTarget, Counter[int]] = {}
        for (scopes, hour), count in counts.items():
            for target in self.targets.targets_of(scopes):
                found.setdefault(target, Counter())[hour] += count
        return found.items()

    def _add_pairs(self, before: Ints, after: Ints) -> set[ScopeKey]:
        """Update the cross moments of cells. Returns the scopes that changed."""
        pairs = CellPairs(self.targets, self.layout.cross, before, after)
        users: dict[int, tuple[UserRecord, dict[ScopeSet, int]]] = {}
        for row, of_row in enumerate(self._scopes):
            if of_row is not None and pairs.cells_of(of_row[1]):
                record, scopes = of_row
                users.setdefault(id(record), (record, {}))[1][scopes] = row
        for record, changed in users.values():
            unchanged = [
                (scopes, totals.lists, totals.packed)
                for scopes, totals in record.entries.items()
                if scopes not in changed and pairs.cells_of(scopes)
            ]
            pairs.add_user([*changed.items()], unchanged)
        return pairs.sum()

    def _update_records(self, packed: Sequence[bytes]) -> None:
        """Put the new totals into users' records."""
        sizes = self._rows.sizes
        for row, of_row in enumerate(self._scopes):
            if of_row is None or row in self._withdrawn:
                continue
            record, scopes = of_row
            credits = self._credits.stored(row)
            if credits is not None:
                for target in self.targets.targets_of(scopes):
                    self._credits.put_back(target, row)
            record.entries[scopes] = ScopeTotals(sizes[row], packed[row], credits or NO_TOTALS.credits)
        for record, period, row in self._periods:
            record.earlier[period] = period, sizes[row], packed[row]
