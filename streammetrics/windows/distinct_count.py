"""Distinct users of a sliding window, exactly and mergeably, by how many panes ago each was there before. Pure.

An occurrence is one (user, pane): the user had a list of the group in the pane (or a hit: the same law with another set of
panes). Its gap is how many panes before it lies his previous occurrence, capped at the number of panes of the longest window:
"never before" and "too long ago to matter" are one. A pane's tally counts its occurrences by gap. The users of a window are its
occurrences whose previous one lies before the window's start: each user's first in it, and nobody twice.

Tallies of different users add up, so they merge over partitions. Panes are numbered without gaps: pane start / pane length. Of one
user's lists the earlier are never counted after the later, so all that must be kept of him is the last pane of each kind.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.measures import ExperimentError

Int64Array: TypeAlias = npt.NDArray[np.int64]

NOWHERE: Final = -(1 << 61)
"""The last pane of a user who was never there."""


class NewOccurrences(NamedTuple):
    """New occurrences, each a user in a pane with something of one kind: four arrays of one length."""

    rows: Int64Array
    panes: Int64Array
    kinds: Int64Array
    gaps: Int64Array


def occurrences(rows: Int64Array, panes: Int64Array, levels: Int64Array, last: Int64Array, gap_max: int) -> NewOccurrences:
    """What lists add, and brings `last` up to date in place.

    rows, panes, levels: of each list, the row of its user, its pane, and how many kinds above 0 it counts for (kind 0 is to be there;
    who counts for a kind counts for all below it). Any order.
    last: shape (users, kinds), the last pane of each kind before these lists, NOWHERE if none. No list may lie before it.
    gap_max: panes of the longest window; a gap of that or more counts as gap_max.

    >>> last = np.full((1, 2), NOWHERE)
    >>> found = occurrences(np.array([0, 0, 0]), np.array([3, 9, 4]), np.array([1, 1, 0]), last, gap_max=5)
    >>> list(zip(*(column.tolist() for column in found[1:])))
    [(3, 0, 5), (4, 0, 1), (9, 0, 5), (3, 1, 5), (9, 1, 5)]
    >>> last.tolist()
    [[9, 9]]
    """
    if gap_max < 1:
        raise ExperimentError("gap_max", f"got {gap_max}; allowed are 1 or more, the panes of the longest window")
    if np.any(panes < last[rows, 0]):
        raise ExperimentError("panes", "got one before the last of its user; allowed are lists in the order of time")
    order = np.lexsort((panes, rows))
    rows, panes, levels = rows[order], panes[order], levels[order]
    first = _changes(rows) | _changes(panes)  # of each user's lists of one pane
    if len(rows):
        rows, panes, levels = rows[first], panes[first], np.maximum.reduceat(levels, np.flatnonzero(first))
    parts = [_of_kind(kind, rows, panes, levels, last, gap_max) for kind in range(last.shape[1])]
    return NewOccurrences(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _of_kind(kind: int, rows: Int64Array, panes: Int64Array, levels: Int64Array, last: Int64Array, gap_max: int) -> NewOccurrences:
    """The occurrences of one kind, by user and pane; brings the last panes of that kind up to date."""
    counted = levels >= kind
    mine, there = rows[counted], panes[counted]
    before = np.empty_like(there)
    before[1:] = there[:-1]
    begins = _changes(mine)
    before[begins] = last[mine[begins], kind]
    ends = np.append(begins[1:], True)[: len(mine)]
    last[mine[ends], kind] = there[ends]
    new = there != before
    return NewOccurrences(mine[new], there[new], np.full(new.sum(), kind), np.minimum(there - before, gap_max)[new])


def _changes(values: Int64Array) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before it; the first one does."""
    differs = np.ones(len(values), dtype=bool)
    differs[1:] = values[1:] != values[:-1]
    return differs


def are_first(panes: Int64Array, gaps: Int64Array, start: int, end: int, gap_max: int) -> npt.NDArray[np.bool_]:
    """Which occurrences are their users' first of the panes start <= pane < end: each user of that window has one.

    ExperimentError if that is longer than gap_max panes.

    >>> panes, gaps = np.array([3, 4, 9, 4]), np.array([10, 1, 5, 10])
    >>> int(are_first(panes, gaps, start=4, end=10, gap_max=10).sum())
    2
    """
    if end - start > gap_max:
        raise ExperimentError("window", f"got {end - start} panes; allowed are at most gap_max, {gap_max}")
    return (start <= panes) & (panes < end) & (panes - gaps < start)
