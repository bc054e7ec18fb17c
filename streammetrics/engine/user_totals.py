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
from typing import Any, Final

import msgspec
import numpy as np

from streammetrics.engine.assignments import ExposureTargets, ScopeKey, VariantTarget
from streammetrics.engine.codec import StoredEarlier, StoredTotals
from streammetrics.engine.experiment_runs import CovariatePeriod, ExperimentRun
from streammetrics.engine.packed_sums import pack_sums, unpack_sums
from streammetrics.engine.team_credits import TeamCredits
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import TOTAL_MAX, add, of_users, subtract, zero
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.arrays import Ints
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.last_seen import LastSeen
from streammetrics.windows.tally_deltas import score_shapes

LISTS_MAX: Final = 1 << 22
"""Lists of one user in one scope. Sums of more values up to 1, in units of 2**-40, could exceed TOTAL_MAX. Further lists are counted."""


class UserTotalsLayout:
    """Which of the scorer's columns users' totals hold, what is measured of users, and how many lists of a user fit."""

    def __init__(self, layout: TallyLayout, metrics: Sequence[str]) -> None:
        self.layout, scorer, wanted = layout, layout.scorer, set(metrics)
        columns = [index for index, column in enumerate(scorer.columns) if not wanted or str(column.metric) in wanted]
        self.places = [layout.place_of(index) for index in columns]
        self.measures = Measures([scorer.columns[index] for index in columns])
        deepest = max(column.metric.k or 1 for column in scorer.columns)
        best = scorer.score_list([scorer.grade_max] * min(deepest, scorer.items_max))
        self.lists_max = min(LISTS_MAX, TOTAL_MAX // max(best))
        self.relevant_grade = scorer.spec.relevance_threshold

    def measures_of(self, run: ExperimentRun) -> Measures:
        """Return the layout of a run's moments."""
        return self.measures if run.earlier is None else self.measures.with_covariates


class UserRecord(msgspec.Struct, gc=False):
    """All that is stored of one user beside sessions. `changed`: it differs from what is stored."""

    entries: dict[ScopeKey, StoredTotals]
    earlier: dict[CovariatePeriod, StoredEarlier]
    last_seen: LastSeen
    changed: bool


class TotalsBatch:
    """The users of one commit, whose final lists are added to their totals.

    A user has a row for each scope and each covariate period to which lists are added. A row has the totals as stored, and the numbers of
    its lists among `lists`. Scopes with equal totals and equal lists share a row.
    """

    def __init__(self, targets: ExposureTargets, layout: UserTotalsLayout, lists: FinalLists, counts: Counter[tuple[str, int]]) -> None:
        self.targets, self.layout, self.lists, self._counts = targets, layout, lists, counts
        self._credits = TeamCredits(lists, layout.lists_max, layout.relevant_grade, counts)
        self._changed: list[VariantTarget] = []
        """Targets that have rows."""
        self._rows: list[tuple[dict[ScopeKey, StoredTotals], int, bytes, int, int]] = []
        """By row: the user's entries; the number of lists and the packed sums as stored; the first added list, and the last one + 1."""
        self._sizes: list[int] = []
        """By row: the number of lists, with the added ones."""
        self._more_lists: list[tuple[int, int, int]] = []
        """More lists that are added to a row: the row, the first list, and the last one + 1."""
        self._periods: list[tuple[dict[CovariatePeriod, StoredEarlier], CovariatePeriod, int]] = []
        """Totals of covariate periods that change: the user's totals, the period, and the row."""
        self._covariates_of: dict[int, int | StoredEarlier] = {}
        """By row: the user's totals before the experiment, as another row or as stored."""
        self._withdrawn: set[int] = set()
        """Rows of users that saw several variants."""

    def restore(self, record: UserRecord, stored: Iterable[StoredTotals], earlier: Iterable[StoredEarlier]) -> None:
        """Read a user's stored totals into a record, except those that no longer matter."""
        is_open, is_period_open = self.targets.is_open, self.targets.is_period_open
        record.entries = {scope: entry for entry in stored if is_open(scope := entry[:2])}
        if earlier:
            record.earlier = {entry[0]: entry for entry in earlier if is_period_open(entry[0])}

    def add_lists(self, record: UserRecord, label_runs: Sequence[LabelRun]) -> None:
        """Add a user's lists to the record."""
        times, target_at = self.lists.times, self.targets.at
        period_rows = self._add_to_periods(record, label_runs[0][1], label_runs[-1][2]) if self.targets.rules.earlier else {}
        rows: dict[ScopeKey, int] = {}
        for number, first, end in label_runs:
            begin = first
            while begin < end:
                target = target_at(number, times[begin])
                stop = end if times[end - 1] <= target.last else bisect_right(times, target.last, begin, end)
                if target.variants:
                    alone = len(label_runs) == 1 and stop - begin == end - first
                    self._add_to_variants(record, target.variants, rows, period_rows, begin, stop, alone)
                begin = stop

    def _add_to_periods(self, record: UserRecord, first: int, end: int) -> dict[CovariatePeriod, int]:
        """Add lists to the covariate periods that hold them, whatever their labels. Returns the rows of these periods."""
        times, rows = self.lists.times, {}
        for period in self.targets.rules.earlier:
            begin = bisect_left(times, max(period.from_ms, self.targets.counted_from), first, end)
            stop = bisect_left(times, period.start_ms, begin, end)
            if begin < stop and self.targets.is_period_open(period):
                _, lists, packed = record.earlier.setdefault(period, (period, 0, b""))
                row = rows[period] = self._new_row({}, lists, packed, begin, stop)
                self._periods.append((record.earlier, period, row))
        return rows

    def _add_to_variants(
        self,
        record: UserRecord,
        targets: Iterable[VariantTarget],
        rows: dict[ScopeKey, int],
        period_rows: dict[CovariatePeriod, int],
        first: int,
        end: int,
        alone: bool,
    ) -> None:
        """Add lists to the same targets. `rows` are the user's rows so far. `alone`: the user has no other lists in this batch.

        If the user had another variant before, the totals there are withdrawn and nothing is added any more. Lists that are alone lead to
        the same totals wherever the user had the same before, so these targets share a row.
        """
        entries, interleaved = record.entries, []
        shared: dict[tuple[Any, ...], int] = {}
        for target in targets:
            scope = target.key
            entry = entries.get(scope)
            if entry is None:
                entry = entries[scope] = target.newcomer
                target.newcomers += 1
            if entry[2] is None:
                continue
            if entry[2] != target.variant:
                self._withdraw(record, target, entry, rows.get(scope), period_rows, first)
                continue
            row, lists = rows.get(scope), entry[3]
            if row is not None:
                lists = self._sizes[row]
                self._add_more(row, first, end)
            else:
                before = entry[3:5]
                row = None if target.special else shared.get(before)
                if row is None:
                    row = self._new_row(entries, lists, entry[4], first, end)
                    if alone and not target.special and self._sizes[row] == lists + end - first:
                        shared[before] = row
                rows[scope] = row
                self._count_row(target, row, record, entry, period_rows)
            if target.variant == INTERLEAVED:
                interleaved.append((target, row, lists))
        if interleaved:
            self._credits.add_lists(interleaved, first, end)

    def _withdraw(
        self,
        record: UserRecord,
        target: VariantTarget,
        entry: StoredTotals,
        row: int | None,
        period_rows: dict[CovariatePeriod, int],
        first: int,
    ) -> None:
        """Take a user's totals out of a scope, because a list has shown another variant."""
        if row is None:
            row = self._new_row(record.entries, entry[3], entry[4], first, first)
            assert entry[2] is not None
            self._count_row(self.targets.variant(target.run, target.key[1], entry[2]), row, record, entry, period_rows)
        self._withdrawn.add(row)
        record.entries[target.key] = (*target.key, None, 0, b"", [])
        target.scope.multi_exposed += 1

    def _count_row(
        self, target: VariantTarget, row: int, record: UserRecord, entry: StoredTotals, period_rows: dict[CovariatePeriod, int]
    ) -> None:
        """Count a row for a target, with the user's covariates and credits there."""
        if not target.changed:
            self._changed.append(target)
        target.changed.append(row)
        if not target.special:
            return
        period = target.run.earlier
        if period is not None and period in record.earlier:
            self._covariates_of[row] = period_rows.get(period, record.earlier[period])
        if target.variant == INTERLEAVED:
            self._credits.restore(target, row, entry[5])

    def _new_row(self, entries: dict[ScopeKey, StoredTotals], lists: int, packed: bytes, first: int, end: int) -> int:
        """Make a row with some lists added, and return its number."""
        if lists + end - first > self.layout.lists_max:
            end = self._fitting(lists, first, end)
        self._sizes.append(lists + end - first)
        self._rows.append((entries, lists, packed, first, end))
        return len(self._rows) - 1

    def _add_more(self, row: int, first: int, end: int) -> None:
        """Add more lists to a row."""
        end = self._fitting(self._sizes[row], first, end)
        self._sizes[row] += end - first
        self._more_lists.append((row, first, end))

    def _fitting(self, size: int, first: int, end: int) -> int:
        """Return the end of those lists that fit into a row of this size, and count the others."""
        fitting = min(first + max(self.layout.lists_max - size, 0), end)
        for final in self.lists.lists[fitting:end]:
            self._counts["experiment_lists_full", final.topic] += 1
        return fitting

    def sum(self) -> set[ScopeKey]:
        """Update the moments of experiments and the records of users. Returns the scopes that changed."""
        if not self._sizes:
            return set()
        before, after = self._totals()
        covariates = self._covariates(after)
        for target in self._changed:
            if target.newcomers:
                exposures = target.scope.first_exposures
                exposures[target.variant] = exposures.get(target.variant, 0) + target.newcomers
            known = target.scope.moments.get(target.variant) or zero(self.layout.measures_of(target.run))
            old = self._moments(target.run, target.changed, before, covariates)
            if self._withdrawn:
                target.changed = [row for row in target.changed if row not in self._withdrawn]
            new = self._moments(target.run, target.changed, after, covariates)
            target.scope.moments[target.variant] = add(known, subtract(new, old))
            if target.variant == INTERLEAVED:
                self._credits.put_back(target)
        self._update_records(pack_sums(after[:, 1:]))
        return {target.key for target in self._changed}

    def _totals(self) -> tuple[Ints, Ints]:
        """Return the totals of all rows before and after this batch: shape (rows, totals_width)."""
        _, lists, packed, firsts, ends = zip(*self._rows, strict=True)
        width = self.layout.measures.totals_width
        before = np.zeros((len(lists), width), dtype=np.int64)
        before[:, 0] = lists
        known = np.flatnonzero(before[:, 0])
        if len(known):
            before[known, 1:] = unpack_sums([packed[row] for row in known.tolist()], width - 1)
        values = score_shapes(self.lists.shapes, self.layout.layout)[:, self.layout.places]
        sums = _running_sums(values, self.lists.shape_of)
        after = before.copy()
        after[:, 0] = self._sizes
        after[:, 1:] += sums.take(ends, axis=0) - sums.take(firsts, axis=0)
        for row, first, end in self._more_lists:
            after[row, 1:] += sums[end] - sums[first]
        return before, after

    def _update_records(self, packed: Sequence[bytes]) -> None:
        """Put the new totals into users' records."""
        rows, sizes, credits_of = self._rows, self._sizes, self._credits.stored
        for target in self._changed:
            scope, variant = target.key, target.variant
            number, day = scope
            no_credits = target.newcomer[5]
            for row in target.changed:
                rows[row][0][scope] = number, day, variant, sizes[row], packed[row], credits_of(row) or no_credits
        for earlier, period, row in self._periods:
            earlier[period] = period, sizes[row], packed[row]

    def _moments(self, run: ExperimentRun, rows: Sequence[int], totals: Ints, covariates: Ints | None) -> list[int]:
        """Return the moments of users with these totals. Covariates do not change once a list of the run is enrolled."""
        measures = self.layout.measures_of(run)
        if not measures.covariates:
            return of_users(measures, totals[rows])
        assert covariates is not None
        return of_users(measures, totals[rows], covariates[rows])

    def _covariates(self, after: Ints) -> Ints | None:
        """Return the covariates by row, 0 for users without. None if no experiment uses them."""
        if all(target.run.earlier is None for target in self._changed):
            return None
        measures = self.layout.measures.with_covariates
        earlier = np.zeros((len(after), measures.totals_width), dtype=np.int64)
        changed = [(row, other) for row, other in self._covariates_of.items() if isinstance(other, int)]
        if changed:
            earlier[[row for row, _ in changed]] = after[[other for _, other in changed]]
        unchanged = [(row, stored) for row, stored in self._covariates_of.items() if not isinstance(stored, int)]
        if unchanged:
            rows = [row for row, _ in unchanged]
            earlier[rows, 0] = [lists for _, (_, lists, _) in unchanged]
            earlier[rows, 1:] = unpack_sums([packed for _, (_, _, packed) in unchanged], measures.totals_width - 1)
        return measures.covariate_columns(earlier)


def _running_sums(values: Ints, rows: Ints) -> Ints:
    """Return, for each row, the sum of `values[rows]` before it, and at the end the sum of all. The sum of a range is a difference of two.

    Sums may wrap around int64. Differences that fit are exact all the same.

    >>> _running_sums(np.array([[1, 5], [1 << 62, 0]]), np.array([1, 1, 0])).tolist()
    [[0, 0], [4611686018427387904, 0], [-9223372036854775808, 0], [-9223372036854775807, 5]]
    """
    sums = np.empty((len(rows) + 1, values.shape[1]), dtype=np.int64)
    sums[0] = 0
    np.take(values, rows, axis=0, out=sums[1:], mode="clip")  # all rows are in range; this mode avoids a copy
    return np.cumsum(sums, axis=0, out=sums)
