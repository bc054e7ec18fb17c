"""Rows of one batch of users' totals: the totals as stored, and which lists are added to them. Pure.

Stored are the integers that are not 0, because most of them are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from streammetrics.experiments import CovarianceLayout
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.names import ASSESSMENT_NAMES
from streammetrics.statistics.interleaving import credit_thresholds
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import TOTAL_MAX
from streammetrics.windows.final_lists import FinalLists
from streammetrics.windows.tally_deltas import engagement_rows

LISTS_MAX: Final = 1 << 22
"""Lists of one user in one scope. Sums of more values up to 1, in units of 2**-40, could exceed TOTAL_MAX. Further lists are counted."""


class UserTotalsLayout:
    """Which of a tally's columns users' totals hold, what is measured of users, and how many lists of a user fit.

    `grades` are all grades of actions. Interleaved lists have a credit for each of them: see `interleaving.credit_thresholds`.
    """

    def __init__(self, layout: TallyLayout, metrics: Sequence[str], grades: Sequence[float] = ()) -> None:
        self.layout, scorer, wanted = layout, layout.scorer, set(metrics)
        columns = [
            index
            for index, column in enumerate(layout.columns)
            if column.kind != "bucket" and column.metric.name not in ASSESSMENT_NAMES and (not wanted or str(column.metric) in wanted)
        ]
        self.measures = Measures([layout.columns[index] for index in columns])
        scorer_columns = len(scorer.columns)
        self.score_columns = [layout.place_of(index) for index in columns if index < scorer_columns]
        self.engaged = [index - scorer_columns for index in columns if index >= scorer_columns]
        """The columns of engagement metrics, by their index among them. They follow the others."""
        deepest = max(column.metric.k or 1 for column in scorer.columns)
        best = [*scorer.score_list([scorer.grade_max] * min(deepest, scorer.items_max))]
        if layout.engagement is not None:
            best.append(layout.engagement.value_max(scorer.items_max))
        self.lists_max = min(LISTS_MAX, TOTAL_MAX // max(best))
        self.cross = CovarianceLayout(self.measures)
        self.covariate_bottoms = self.measures.covariate_bottoms
        self.credit_thresholds = credit_thresholds(grades, scorer.spec.relevance_threshold)

    def measures_of(self, covariates: bool) -> Measures:
        """Return the layout of moments with or without covariates."""
        return self.measures.with_covariates if covariates else self.measures


class TotalsRows:
    """Rows by number. `sizes` has the number of lists of each row, with the added ones.

    The caller adds no more lists to a row than fit. Lists are numbers among `lists`.
    """

    def __init__(self, layout: UserTotalsLayout, lists: FinalLists) -> None:
        self._layout, self._lists = layout, lists
        self._stored: list[tuple[int, bytes, int, int]] = []
        """The number of lists and the packed sums as stored; the first added list, and the last one + 1."""
        self._more: dict[int, list[tuple[int, int]]] = {}
        """More lists that are added to a row: the first list, and the last one + 1."""
        self.sizes: list[int] = []

    def add(self, lists: int, packed: bytes, first: int, end: int) -> int:
        """Add a row with some lists added, and return its number."""
        self._stored.append((lists, packed, first, end))
        self.sizes.append(lists + end - first)
        return len(self.sizes) - 1

    def add_lists(self, row: int, first: int, end: int) -> None:
        """Add more lists to a row."""
        self._more.setdefault(row, []).append((first, end))
        self.sizes[row] += end - first

    def copy(self, row: int) -> int:
        """Add a row with the same totals and lists, and return its number."""
        number = self.add(*self._stored[row])
        for first, end in self._more.get(row, ()):
            self.add_lists(number, first, end)
        return number

    def totals(self) -> tuple[Ints, Ints, Ints]:
        """Return the totals of all rows before and after this batch, shape (rows, totals_width), and the running sums of all columns."""
        lists, packed, firsts, ends = zip(*self._stored, strict=True)
        width = self._layout.measures.totals_width
        before = np.zeros((len(lists), width), dtype=np.int64)
        before[:, 0] = lists
        counted = np.flatnonzero(before[:, 0])
        if len(counted):
            before[counted, 1:] = unpack_sums([packed[row] for row in counted.tolist()], width - 1)
        sums = self._sums()
        after = before.copy()
        after[:, 0] = self.sizes
        after[:, 1:] += sums.take(ends, axis=0) - sums.take(firsts, axis=0)
        for row, parts in self._more.items():
            for first, end in parts:
                after[row, 1:] += sums[end] - sums[first]
        return before, after, sums

    def _sums(self) -> Ints:
        """Return the running sums of all columns over all lists."""
        layout, engaged = self._layout.layout, self._layout.engaged
        values = layout.rows_of_shapes(self._lists.shapes)[:, self._layout.score_columns]
        if not engaged or layout.engagement is None:
            return _running_sums(values, self._lists.shape_of)
        answered = engagement_rows([final.engaged() for final in self._lists.lists], layout.engagement)[:, engaged]
        of_lists = np.concatenate([values[self._lists.shape_of], answered], axis=1)
        return _running_sums(of_lists, np.arange(len(of_lists)))


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


def pack_sums(sums: Ints) -> list[bytes]:
    """Encode rows of integers: one bit for each number that is not 0, then these numbers as little-endian int64.

    >>> [len(row) for row in pack_sums(np.array([[0, 0, 7], [1, 2, 3]]))]
    [9, 25]
    """
    used = sums != 0
    bits = np.packbits(used, axis=1)
    ends = (np.cumsum(used.sum(axis=1)) * 8).tolist()
    numbers, flags, width = sums[used].astype("<i8").tobytes(), bits.tobytes(), bits.shape[1]
    return [
        flags[row * width : (row + 1) * width] + numbers[start:end] for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def unpack_sums(packed: Sequence[bytes], columns: int) -> Ints:
    """Decode rows of integers: shape (rows, columns).

    >>> unpack_sums(pack_sums(np.array([[0, 0, 7], [1, -2, 3]])), 3).tolist()
    [[0, 0, 7], [1, -2, 3]]
    """
    width = (columns + 7) // 8
    flags = np.frombuffer(b"".join([row[:width] for row in packed]), dtype=np.uint8).reshape(len(packed), width)
    used = np.unpackbits(flags, axis=1)[:, :columns].astype(bool)
    sums = np.zeros((len(packed), columns), dtype=np.int64)
    sums[used] = np.frombuffer(b"".join([row[width:] for row in packed]), dtype="<i8")
    return sums
