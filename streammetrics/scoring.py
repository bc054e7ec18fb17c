"""Lists whose grades changed -> what that changes in the sums of their cells, by one call of the metric core a batch.

A cell is one (pane start, label set): all that two lists need to share to be tallied alike. A list that changed gives its
old values back and pays in its new ones; both are integers, so the order of changes cannot matter. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from streammetrics.metrics import Scorer
from streammetrics.sessions import UNTOUCHED, Hits, Labels, ShownList, _Untouched

Cell: TypeAlias = tuple[int, Labels, Labels]
"""Pane start (ms), experiments, segments."""


class Layout:
    """Which number of a tally stands where: lists, lists with feedback, the scorer's columns, then places with feedback.

    The places of a ratio metric are kept twice because they differ between all lists and the lists with feedback; every
    other column is 0 for a list without feedback, so one sum serves both.
    """

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.place_columns = [index for index, column in enumerate(scorer.columns) if column.kind == "places"]
        self.width = 2 + len(scorer.columns) + len(self.place_columns)

    def zero(self) -> list[int]:
        """The tally of no list: the identity of `add`."""
        return [0] * self.width


def add(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Merge two tallies: exact at any size, associative and commutative."""
    return [left + right for left, right in zip(one, other, strict=True)]


def changes(touched: Iterable[ShownList], layout: Layout, pane_ms: int) -> dict[Cell, list[int]]:
    """What the touched lists change in each cell, as tallies to be added; marks the lists as tallied."""
    batch = _Batch()
    for shown in touched:
        before, hits = shown.before, shown.hits
        shown.before = UNTOUCHED
        assert not isinstance(before, _Untouched)
        if before is hits:
            continue
        facts = shown.facts
        cell = (shown.ts - shown.ts % pane_ms, facts.experiments, facts.segments)
        length = len(shown.items)
        if before is not None:
            batch.add(cell, length, before, -1)
        if hits is not None:
            batch.add(cell, length, hits, 1)
    return batch.sums(layout)


class _Batch:
    """Weighted rows for the metric core. Lists without hits differ by cell and length only: one row stands for all of them."""

    def __init__(self) -> None:
        self.cells: dict[Cell, int] = {}
        self.row_cells: list[int] = []
        self.lengths: list[int] = []
        self.weights: list[int] = []
        self.hit_rows: list[int] = []
        self.hit_positions: list[int] = []
        self.hit_grades: list[float] = []
        self.empty: dict[tuple[int, int], int] = {}

    def add(self, cell: Cell, length: int, hits: Hits, weight: int) -> None:
        index = self.cells.setdefault(cell, len(self.cells))
        if not hits:
            self.empty[index, length] = self.empty.get((index, length), 0) + weight
            return
        row = len(self.lengths)
        self.row_cells.append(index)
        self.lengths.append(length)
        self.weights.append(weight)
        for position, grade in hits.items():
            self.hit_rows.append(row)
            self.hit_positions.append(position)
            self.hit_grades.append(grade)

    def sums(self, layout: Layout) -> dict[Cell, list[int]]:
        """Score the rows, weigh them and sum them by cell; cells in which nothing changed are left out."""
        with_hits = len(self.lengths)
        for (index, length), weight in self.empty.items():
            self.row_cells.append(index)
            self.lengths.append(length)
            self.weights.append(weight)
        if not self.lengths:
            return {}
        columns = len(layout.scorer.columns)
        rows = np.empty((len(self.lengths), layout.width), dtype=np.int64)
        rows[:, 0] = 1
        rows[:, 1] = 0
        rows[:with_hits, 1] = 1
        rows[:, 2 : 2 + columns] = layout.scorer.score_hits(
            np.array(self.lengths, dtype=np.int64),
            np.array(self.hit_rows, dtype=np.int64),
            np.array(self.hit_positions, dtype=np.int64),
            np.array(self.hit_grades),
        )
        for extra, column in enumerate(layout.place_columns):
            rows[:, 2 + columns + extra] = rows[:, 2 + column] * rows[:, 1]
        rows *= np.array(self.weights, dtype=np.int64)[:, None]
        sums = np.zeros((len(self.cells), layout.width), dtype=np.int64)
        np.add.at(sums, np.array(self.row_cells, dtype=np.int64), rows)
        return {cell: sums[index].tolist() for cell, index in self.cells.items() if sums[index].any()}
