"""What the lists of users that enter add to their totals, and these to the moments of experiments: all users of one commit together.

Pure. A user's first exposure is that of the first list that enters, and his totals only grow, until a list shows him a second variant:
then they are withdrawn, and he is counted among those who saw several.

With variance reduction, a user's lists before an experiment are summed beside it, with whatever labels; as the earlier enter first,
that sum is complete and changes no more when his first list of the experiment enters. With interleaving, the lists of the variant
INTERLEAVED have a credit as well, by pair of teams.

What each user adds was known at the last commit (before) and is known now (after), and the moments change by the difference. Integers
only, so the order of users and of commits cannot matter.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from streammetrics.engine.assignments import ExposureTargets, ScopeKey, VariantTarget
from streammetrics.engine.codec import StoredEarlier, StoredTotals
from streammetrics.engine.experiment_runs import CovariatePeriod, ExperimentRun
from streammetrics.engine.packed_sums import pack, unpack
from streammetrics.experiments.interleaving import CREDIT_WIDTH, INTERLEAVED, add_credits, list_credit
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import TOTAL_MAX, add, of_users, subtract, zero
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.arrays import Ints
from streammetrics.sessions.shown_list import hits_of
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.last_seen import LastSeen
from streammetrics.windows.tally_deltas import score_shapes

LISTS_MAX: Final = 1 << 22
"""Lists of one user in one scope; more could bring sums of values up to 1, in units of 2**-40, to TOTAL_MAX. They are counted."""
TEAMS_MAX: Final = 8
"""Teams of a list that are compared with each other; a list of more compares nothing, and is counted."""
TEAM_PAIRS_MAX: Final = 64
"""Pairs of teams of one life, in all or on one day; lists of further pairs are counted, and which pairs are further depends on order."""


class UserTotalsLayout:
    """Which columns of the scorer users' totals hold, what is measured of them, and how many lists of a user they can hold."""

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
        """The layout of the moments of a life."""
        return self.measures if run.earlier is None else self.measures.with_covariates


_Credits: TypeAlias = dict[tuple[str, str], tuple[int, int]]
"""Lists and credit of one user by pair of teams."""


class UserRecord(msgspec.Struct, gc=False):
    """All that is kept of one user, as it is stored. `changed`: it is not what is stored."""

    entries: dict[ScopeKey, StoredTotals]
    earlier: dict[CovariatePeriod, StoredEarlier]
    presence: LastSeen
    changed: bool


class TotalsRound:
    """All users that were looked at since the last commit, on their way into the moments.

    A user has a row for each scope that he adds to, and for each time before an experiment: what is stored of it, and the lists that
    are added now.
    """

    def __init__(self, targets: ExposureTargets, layout: UserTotalsLayout, lists: FinalLists, counts: Counter[tuple[str, int]]) -> None:
        self.targets, self.layout, self.lists, self._counts = targets, layout, lists, counts
        self.arms: list[VariantTarget] = []
        """Those that have rows, in the order in which they got the first."""
        self.rows: list[tuple[dict[ScopeKey, StoredTotals], int, bytes, int, int]] = []
        """By row: all that its user adds, lists and packed sums as they are stored, and the lists that are added: the number of the first,
        and that of the last + 1."""
        self.sizes: list[int] = []
        """By row: how many lists it has then."""
        self.further: list[tuple[int, int, int]] = []
        """Lists that are added to a row besides those: the row, first and last + 1."""
        self.times_before: list[tuple[dict[CovariatePeriod, StoredEarlier], CovariatePeriod, int]] = []
        """Times before experiments whose totals change: of which user, and the row."""
        self.pasts: dict[int, int | StoredEarlier] = {}
        """By row, the user's time before the experiment, where that is of use: another row, or what is stored."""
        self.credits: dict[int, _Credits] = {}
        """Of rows with interleaved lists."""
        self.withdrawn: set[int] = set()
        """Rows of users who turned out to have seen several variants."""

    def read(self, record: UserRecord, told: Iterable[StoredTotals], earlier: Iterable[StoredEarlier]) -> None:
        """Take what may still be of use of what is stored of a user."""
        is_open, is_period_open = self.targets.is_open, self.targets.is_period_open
        record.entries = {cell: entry for entry in told if is_open(cell := entry[:2])}
        if earlier:
            record.earlier = {entry[0]: entry for entry in earlier if is_period_open(entry[0])}

    def enter(self, record: UserRecord, runs: Sequence[LabelRun]) -> None:
        """Let the lists of a user enter."""
        times, course_at = self.lists.times, self.targets.at
        rows_before = self._enter_before(record, runs[0][1], runs[-1][2]) if self.targets.rules.earlier else {}
        rows: dict[ScopeKey, int] = {}
        for number, first, end in runs:
            begin = first
            while begin < end:
                course = course_at(number, times[begin])
                stop = end if times[end - 1] <= course.last else bisect_right(times, course.last, begin, end)
                if course.variants:
                    alone = len(runs) == 1 and stop - begin == end - first
                    self._enter_arms(record, course.variants, rows, rows_before, begin, stop, alone)
                begin = stop

    def _enter_before(self, record: UserRecord, first: int, end: int) -> dict[CovariatePeriod, int]:
        """Sum the lists of the times before experiments, with whatever labels; returns the rows of these times."""
        times, rows = self.lists.times, {}
        for time in self.targets.rules.earlier:
            begin = bisect_left(times, max(time.from_ms, self.targets.counted_from), first, end)
            stop = bisect_left(times, time.start_ms, begin, end)
            if begin < stop and self.targets.is_period_open(time):
                _, lists, packed = record.earlier.setdefault(time, (time, 0, b""))
                row = rows[time] = self._row({}, lists, packed, begin, stop)
                self.times_before.append((record.earlier, time, row))
        return rows

    def _enter_arms(
        self,
        record: UserRecord,
        arms: Iterable[VariantTarget],
        rows: dict[ScopeKey, int],
        before: dict[CovariatePeriod, int],
        first: int,
        end: int,
        alone: bool,
    ) -> None:
        """Let lists enter that all go to the same arms. `rows` are those that the user has by now; `alone`: no other lists of his enter.

        A variant that is not the user's first takes out what he added, and he adds nothing more. Lists that are alone come to the same
        wherever he had the same before: there, one row is enough.
        """
        entries, interleaved = record.entries, []
        alike: dict[tuple[Any, ...], int] = {}
        for arm in arms:
            cell = arm.key
            told = entries.get(cell)
            if told is None:
                told = entries[cell] = arm.newcomer
                arm.newcomers += 1
            if told[2] is None:
                continue
            if told[2] != arm.variant:
                self._withdraw(record, arm, told, rows.get(cell), before, first)
                continue
            row, lists = rows.get(cell), told[3]
            if row is not None:
                lists = self.sizes[row]
                self._add(row, first, end)
            else:
                past = told[3:5]
                row = None if arm.special else alike.get(past)
                if row is None:
                    row = self._row(entries, lists, told[4], first, end)
                    if alone and not arm.special and self.sizes[row] == lists + end - first:
                        alike[past] = row
                rows[cell] = row
                self._join(arm, row, record, told, before)
            if arm.variant == INTERLEAVED:
                interleaved.append((arm, row, lists))
        if interleaved:
            self._enter_credits(interleaved, first, end)

    def _withdraw(
        self, record: UserRecord, arm: VariantTarget, told: StoredTotals, row: int | None, before: dict[CovariatePeriod, int], first: int
    ) -> None:
        """Take out what a user added, for a list has shown him another variant."""
        if row is None:
            row = self._row(record.entries, told[3], told[4], first, first)
            assert told[2] is not None
            self._join(self.targets.variant(arm.run, arm.key[1], told[2]), row, record, told, before)
        self.withdrawn.add(row)
        record.entries[arm.key] = (*arm.key, None, 0, b"", [])
        arm.scope.multi_exposed += 1

    def _join(self, arm: VariantTarget, row: int, record: UserRecord, told: StoredTotals, before: dict[CovariatePeriod, int]) -> None:
        """Count a row in an arm from now on, with the user's time before the experiment and the credit that he has there."""
        if not arm.changed:
            self.arms.append(arm)
        arm.changed.append(row)
        if not arm.special:
            return
        past = arm.run.earlier
        if past is not None and past in record.earlier:
            self.pasts[row] = before.get(past, record.earlier[past])
        if arm.variant == INTERLEAVED:
            credits = self.credits[row] = {(one, other): (shown, credit) for one, other, shown, credit in told[5]}
            add_credits(arm.scope.credits, credits, -1)

    def _row(self, entries: dict[ScopeKey, StoredTotals], lists: int, packed: bytes, first: int, end: int) -> int:
        """A new row, with some lists added."""
        if lists + end - first > self.layout.lists_max:
            end = self._fitting(lists, first, end)
        self.sizes.append(lists + end - first)
        self.rows.append((entries, lists, packed, first, end))
        return len(self.rows) - 1

    def _add(self, row: int, first: int, end: int) -> None:
        """Add more lists to a row."""
        end = self._fitting(self.sizes[row], first, end)
        self.sizes[row] += end - first
        self.further.append((row, first, end))

    def _fitting(self, size: int, first: int, end: int) -> int:
        """The end of those lists that fit in beside so many; the others are counted."""
        fitting = min(first + max(self.layout.lists_max - size, 0), end)
        for final in self.lists.lists[fitting:end]:
            self._counts["experiment_lists_full", final.topic] += 1
        return fitting

    def _enter_credits(self, targets: Sequence[tuple[VariantTarget, int, int]], first: int, end: int) -> None:
        """Give the credit of interleaved lists to each pair of their teams. Each target is an arm, a row, and its lists before these."""
        for number in range(first, end):
            final = self.lists.lists[number]
            wanted = [(arm, row) for arm, row, lists in targets if lists + number - first < self.layout.lists_max]
            teams = sorted({*final.teams} - {""}) if wanted else []
            if len(teams) > TEAMS_MAX:
                self._counts["too_many_teams", final.topic] += 1
                continue
            earned = dict(hits_of(final.hits))
            grades = [earned.get(position, 0) for position in range(len(final.teams))]
            for one, other in combinations(teams, 2):
                credit = list_credit(final.teams, grades, one, other, self.layout.relevant_grade)
                assert credit is not None
                for arm, row in wanted:
                    if (one, other) in arm.scope.credits or len(arm.scope.credits) < TEAM_PAIRS_MAX:
                        arm.scope.credits.setdefault((one, other), [0] * CREDIT_WIDTH)
                        shown, known = self.credits[row].get((one, other), (0, 0))
                        self.credits[row][one, other] = shown + 1, known + credit
                    else:
                        self._counts["too_many_teams", final.topic] += 1

    def sum(self) -> set[ScopeKey]:
        """Bring the moments, and what is to be stored of all users that changed, up to date; returns the scopes that changed."""
        if not self.sizes:
            return set()
        before, after = self._totals()
        covariates = self._covariates(after)
        for arm in self.arms:
            if arm.newcomers:
                exposures = arm.scope.first_exposures
                exposures[arm.variant] = exposures.get(arm.variant, 0) + arm.newcomers
            known = arm.scope.moments.get(arm.variant) or zero(self.layout.measures_of(arm.run))
            left = self._moments(arm.run, arm.changed, before, covariates)
            if self.withdrawn:
                arm.changed = [row for row in arm.changed if row not in self.withdrawn]
            joined = self._moments(arm.run, arm.changed, after, covariates)
            arm.scope.moments[arm.variant] = add(known, subtract(joined, left))
            if arm.variant == INTERLEAVED:
                for row in arm.changed:
                    add_credits(arm.scope.credits, self.credits[row], 1)
        self._store(pack(after[:, 1:]))
        return {arm.key for arm in self.arms}

    def _totals(self) -> tuple[Ints, Ints]:
        """The totals of all rows as they were, and as they are now: shape (rows, totals_width)."""
        _, lists, packed, firsts, ends = zip(*self.rows, strict=True)
        width = self.layout.measures.totals_width
        before = np.zeros((len(lists), width), dtype=np.int64)
        before[:, 0] = lists
        known = np.flatnonzero(before[:, 0])
        if len(known):
            before[known, 1:] = unpack([packed[row] for row in known.tolist()], width - 1)
        values = score_shapes(self.lists.shapes, self.layout.layout)[:, self.layout.places]
        sums = _running_sums(values, self.lists.shape_of)
        after = before.copy()
        after[:, 0] = self.sizes
        after[:, 1:] += sums.take(ends, axis=0) - sums.take(firsts, axis=0)
        for row, first, end in self.further:
            after[row, 1:] += sums[end] - sums[first]
        return before, after

    def _store(self, packed: Sequence[bytes]) -> None:
        """Bring users' records up to date."""
        rows, sizes, credits = self.rows, self.sizes, self.credits
        for arm in self.arms:
            cell, variant = arm.key, arm.variant
            number, day = cell
            none = arm.newcomer[5]
            for row in arm.changed:
                told = [(*pair, *sums) for pair, sums in credits[row].items()] if row in credits else none
                rows[row][0][cell] = number, day, variant, sizes[row], packed[row], told
        for earlier, time, row in self.times_before:
            earlier[time] = time, sizes[row], packed[row]

    def _moments(self, run: ExperimentRun, rows: Sequence[int], totals: Ints, covariates: Ints | None) -> list[int]:
        """The moments of users with these totals; their time before the experiment is what it is after the round."""
        measures = self.layout.measures_of(run)
        if not measures.covariates:
            return of_users(measures, totals[rows])
        assert covariates is not None
        return of_users(measures, totals[rows], covariates[rows])

    def _covariates(self, after: Ints) -> Ints | None:
        """By row, the covariates of those who have some; None when no experiment wants them."""
        if all(arm.run.earlier is None for arm in self.arms):
            return None
        measures = self.layout.measures.with_covariates
        past = np.zeros((len(after), measures.totals_width), dtype=np.int64)
        changed = [(row, other) for row, other in self.pasts.items() if isinstance(other, int)]
        if changed:
            past[[row for row, _ in changed]] = after[[other for _, other in changed]]
        resting = [(row, told) for row, told in self.pasts.items() if not isinstance(told, int)]
        if resting:
            rows = [row for row, _ in resting]
            past[rows, 0] = [lists for _, (_, lists, _) in resting]
            past[rows, 1:] = unpack([packed for _, (_, _, packed) in resting], measures.totals_width - 1)
        return measures.covariate_columns(past)


def _running_sums(values: Ints, rows: Ints) -> Ints:
    """Row by row, the sum of all of `values[rows]` before it, and the sum of all: what some that follow each other come to is a difference.

    SumsArray of many may exceed int64, and then wrap; a difference that does not is exact all the same.

    >>> _running_sums(np.array([[1, 5], [1 << 62, 0]]), np.array([1, 1, 0])).tolist()
    [[0, 0], [4611686018427387904, 0], [-9223372036854775808, 0], [-9223372036854775807, 5]]
    """
    sums = np.empty((len(rows) + 1, values.shape[1]), dtype=np.int64)
    sums[0] = 0
    np.take(values, rows, axis=0, out=sums[1:], mode="clip")  # all are in range; only so is nothing copied on the way
    return np.cumsum(sums, axis=0, out=sums)
