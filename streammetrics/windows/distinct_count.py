"""Distinct users of a sliding window, counted exactly and mergeably.

An occurrence is one (user, pane): the user had a list of the group in the pane (or a hit, which is counted separately). Its gap is the
number of panes since the user's previous occurrence. Gaps are capped at the panes of the longest window, so a first occurrence has the
greatest gap. A pane counts its occurrences by gap.

The users of a window are its occurrences whose previous occurrence is before the window: each user has exactly one. Counts of different
users add up, so they merge over partitions. Panes are numbered without gaps: pane start / pane length. A user's lists are counted in
order of time, so only the last pane of each kind must be kept.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.errors import CallerError

Int64Array: TypeAlias = npt.NDArray[np.int64]

NOWHERE: Final = -(1 << 61)
"""The last pane of a user that has none."""


class NewOccurrences(NamedTuple):
    """New occurrences: four arrays of one length."""

    rows: Int64Array
    panes: Int64Array
    kinds: Int64Array
    gaps: Int64Array


def occurrences(rows: Int64Array, panes: Int64Array, levels: Int64Array, last: Int64Array, gap_max: int) -> NewOccurrences:
    """Return the new occurrences of these lists, and update `last` in place.

    rows, panes, levels: for each list the row of its user, its pane, and its greatest kind. A list counts for all kinds up to it; kind
    0 is every list. Any order.

    last: shape (users, kinds), the last pane of each kind before these lists, or NOWHERE. No list may be older.

    gap_max: panes of the longest window. Greater gaps count as gap_max.

    >>> last = np.full((1, 2), NOWHERE)
    >>> found = occurrences(np.array([0, 0, 0]), np.array([3, 9, 4]), np.array([1, 1, 0]), last, gap_max=5)
    >>> list(zip(*(column.tolist() for column in found[1:])))
    [(3, 0, 5), (4, 0, 1), (9, 0, 5), (3, 1, 5), (9, 1, 5)]
    >>> last.tolist()
    [[9, 9]]
    """
    if gap_max < 1:
        raise CallerError("gap_max", f"got {gap_max}; allowed are 1 or more, the panes of the longest window")
    if np.any(panes < last[rows, 0]):
        raise CallerError("panes", "got a list before the last pane of its user; allowed are lists in order of time")
    order = np.lexsort((panes, rows))
    rows, panes, levels = rows[order], panes[order], levels[order]
    first = _changes(rows) | _changes(panes)  # the first of each user's lists in one pane
    if len(rows):
        rows, panes, levels = rows[first], panes[first], np.maximum.reduceat(levels, np.flatnonzero(first))
    parts = [_of_kind(kind, rows, panes, levels, last, gap_max) for kind in range(last.shape[1])]
    return NewOccurrences(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _of_kind(kind: int, rows: Int64Array, panes: Int64Array, levels: Int64Array, last: Int64Array, gap_max: int) -> NewOccurrences:
    """Return the occurrences of one kind by user and pane, and update the last panes of that kind."""
    counted = levels >= kind
    rows, panes = rows[counted], panes[counted]
    before = np.empty_like(panes)
    before[1:] = panes[:-1]
    begins = _changes(rows)
    before[begins] = last[rows[begins], kind]
    ends = np.append(begins[1:], True)[: len(rows)]
    last[rows[ends], kind] = panes[ends]
    new = panes != before
    return NewOccurrences(rows[new], panes[new], np.full(new.sum(), kind), np.minimum(panes - before, gap_max)[new])


def _changes(values: Int64Array) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before it. The first one does."""
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


def first_in_window(panes: Int64Array, gaps: Int64Array, start: int, end: int, gap_max: int) -> npt.NDArray[np.bool_]:
    """Return which occurrences are their users' first in the panes start <= pane < end. Each user of that window has one.

    Raises CallerError if the window has more than gap_max panes.

    >>> panes, gaps = np.array([3, 4, 9, 4]), np.array([10, 1, 5, 10])
    >>> int(first_in_window(panes, gaps, start=4, end=10, gap_max=10).sum())
    2
    """
    if end - start > gap_max:
        raise CallerError("window", f"got {end - start} panes; allowed are at most gap_max, {gap_max}")
    return (start <= panes) & (panes < end) & (panes - gaps < start)
