"""Lists whose grades changed -> what that changes in the sums of their cells, by one call of the metric core a batch.

A cell is one (pane start, label set): all that two lists need to share to be tallied alike. A list that changed gives its
old values back and pays in its new ones; both are integers, so the order of changes cannot matter. Pure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from streammetrics.events.model import Labels
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.units import TOTAL_MAX
from streammetrics.sessions.shown_list import UNCHANGED, ShownList, Unchanged, hits_of

GroupT = TypeVar("GroupT", bound=Hashable)
SumsArray: TypeAlias = npt.NDArray[np.int64 | np.object_]
"""Whole numbers, of int64 or of Python."""
LabelledPane: TypeAlias = tuple[int, Labels, Labels]
"""Pane start (ms), experiments, segments."""
ScoredRow: TypeAlias = tuple[Any, ...]
"""Lists of one cell that score alike: the cell's number, then their shape."""
RowShape: TypeAlias = tuple[Any, ...]
"""What a list's values depend on: its length, then its hits."""


def add(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Merge two tallies: exact at any size, associative and commutative."""
    assert len(one) == len(other), "tallies of different layouts"
    return list(map(operator.add, one, other))


def changes(
    touched: Iterable[ShownList], layout: TallyLayout, pane_ms: int, groups: Callable[[Labels, Labels], Sequence[GroupT]]
) -> dict[tuple[int, GroupT], list[int]]:
    """What the touched lists change in each (pane start, group), as tallies to be added; marks the lists as tallied.

    `groups` names the groups that lists with some experiments and segments count in.
    """
    cells: dict[LabelledPane, int] = {}
    rows: dict[ScoredRow, int] = {}
    for shown in touched:
        tallied, hits = shown.tallied, shown.hits
        shown.tallied = UNCHANGED
        if tallied is hits:
            continue
        impression = shown.impression
        start = shown.ts - shown.ts % pane_ms  # `pane_start`, written out
        cell = cells.setdefault((start, impression.experiments, impression.segments), len(cells))
        length = len(shown.items)
        if tallied is not None:
            assert not isinstance(tallied, Unchanged)
            row = (cell, length, *tallied)
            rows[row] = rows.get(row, 0) - 1
        if hits is not None:
            row = (cell, length, *hits)
            rows[row] = rows.get(row, 0) + 1
    sums = _sums(len(cells), [(row, weight) for row, weight in rows.items() if weight], layout)
    return {} if sums is None else _by_group(cells, sums, groups)


def score(shapes: Sequence[RowShape], layout: TallyLayout) -> Ints:
    """The rows that lists of these shapes add to a tally: shape (lists, width)."""
    hits = [(index, *hit) for index, shape in enumerate(shapes) for hit in hits_of(shape[1:])]
    return layout.rows_of_hits(
        np.array([shape[0] for shape in shapes], dtype=np.int64),
        np.array([index for index, _, _ in hits], dtype=np.int64),
        np.array([position for _, position, _ in hits], dtype=np.int64),
        np.array([grade for _, _, grade in hits], dtype=np.float64),
    )


def _sums(cells: int, rows: Sequence[tuple[ScoredRow, int]], layout: TallyLayout) -> SumsArray | None:
    """Score the rows, weigh them and sum them by cell: shape (cells, width). None if there are none.

    One list's values fit int64; where the sums of all may not, they are whole numbers of Python.
    """
    if not rows:
        return None
    values, weights = score([row[1:] for row, _ in rows], layout), np.array([weight for _, weight in rows], dtype=np.int64)
    if int(np.abs(values).max()) * int(np.abs(weights).sum()) > TOTAL_MAX:
        values, weights = values.astype(object), weights.astype(object)
    sums = np.zeros((cells, layout.width), dtype=values.dtype)
    np.add.at(sums, np.array([row[0] for row, _ in rows], dtype=np.int64), values * weights[:, None])
    return sums


def _by_group(
    cells: Iterable[LabelledPane], sums: SumsArray, groups: Callable[[Labels, Labels], Sequence[GroupT]]
) -> dict[tuple[int, GroupT], list[int]]:
    """Add each cell's sums to all of its groups; groups in which nothing changed are left out."""
    indices: dict[tuple[int, GroupT], int] = {}
    pairs = [
        (cell, indices.setdefault((start, group), len(indices)))
        for cell, (start, experiments, segments) in enumerate(cells)
        for group in groups(experiments, segments)
    ]
    tallies = np.zeros((len(indices), sums.shape[1]), dtype=sums.dtype)
    np.add.at(tallies, [index for _, index in pairs], sums[[cell for cell, _ in pairs]])
    changed = np.flatnonzero((tallies != 0).any(axis=1))
    named = list(indices)
    return {named[index]: tally for index, tally in zip(changed.tolist(), tallies[changed].tolist(), strict=True)}
