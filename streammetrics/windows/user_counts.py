"""The users of one pane: how many it had, and how many with a hit, by how many panes ago each was last seen.

Users are counted for all traffic and each variant, not by segment.

**Distinct users of a sliding window** are counted exactly and mergeably.

An occurrence is one (user, pane): the user had a list of the group in the pane (or a hit, which is counted separately). Its gap is the
number of panes since the user's previous occurrence. Gaps are capped at the panes of the longest window, so a first occurrence has the
greatest gap. A pane counts its occurrences by gap.

The users of a window are its occurrences whose previous occurrence is before the window: each user has exactly one. Counts of different
users add up, so they merge over partitions. Panes are numbered without gaps: pane start / pane length. A user's lists are counted in
order of time, so only the last pane of each kind must be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from streammetrics.errors import CallerError
from streammetrics.metrics import Scorer
from streammetrics.sessions.state import GradedPositions, pairs_of
from streammetrics.state.codec import VERSION, pack, plain_msgpack, reader

ExperimentVariant: TypeAlias = tuple[str, str]
"""Experiment and variant. Both empty: all traffic."""
ALL: Final[ExperimentVariant] = ("", "")
PaneUserCounts: TypeAlias = dict[ExperimentVariant, dict[tuple[int, int], int]]
"""Occurrences of one pane by (kind, gap). Kind 0: seen. The other kinds: had a hit, the greatest cut-off first."""
PaneUserCountsByStart: TypeAlias = dict[int, PaneUserCounts]
"""By pane start (ms)."""
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
    >>> columns = occurrences(np.array([0, 0, 0]), np.array([3, 9, 4]), np.array([1, 1, 0]), last, gap_max=5)
    >>> list(zip(*(column.tolist() for column in columns[1:])))
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


class UserCountLayout:
    """The kinds of occurrences: seen, and a hit for each cut-off of hit_rate among the metrics."""

    def __init__(self, scorer: Scorer) -> None:
        self.cutoffs = sorted({metric.k for metric in scorer.metrics if metric.record.of_users}, reverse=True)
        self.kinds = 1 + len(self.cutoffs)
        self._relevant = scorer.spec.relevance_threshold
        self._kind_of_position = [sum(position < k for k in self.cutoffs) for position in range(max(self.cutoffs, default=0))]

    def hit_kind(self, hits: GradedPositions) -> int:
        """Return the greatest kind that a list counts for: the number of cut-offs at which it has a hit.

        >>> layout = UserCountLayout(Scorer(["hit_rate@3", "hit_rate@10"]))
        >>> [layout.hit_kind(hits) for hits in ((), (10, 1), (9, 1, 20, 1), (2, 1), (2, 0.5, 5, 1))]
        [0, 0, 1, 2, 1]
        """
        relevant, kind_of_position = self._relevant, self._kind_of_position
        positions = [position for position, grade in pairs_of(hits) if grade >= relevant]
        return kind_of_position[first] if positions and (first := int(min(positions))) < len(kind_of_position) else 0


def flatten_counts(of_arm: Mapping[tuple[int, int], int]) -> list[int]:
    """Return occurrences as kind, gap, count, one after the other.

    >>> unflatten_counts(flatten_counts({(0, 5): 2, (1, 60): 1}))
    {(0, 5): 2, (1, 60): 1}
    """
    return [number for (kind, gap), count in of_arm.items() for number in (kind, gap, count)]


def unflatten_counts(numbers: Iterable[int]) -> dict[tuple[int, int], int]:
    """Reverse `flatten_counts`."""
    remaining = iter(numbers)
    return {(kind, gap): count for kind, gap, count in zip(remaining, remaining, remaining, strict=True)}


_read = reader(msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, list[int]]]]).decode, plain_msgpack, "the user counts of a pane")


def encode_user_counts(pane: PaneUserCounts) -> bytes:
    return pack((VERSION, [(*variant, flatten_counts(counts)) for variant, counts in pane.items()]))


def decode_user_counts(stored: bytes) -> PaneUserCounts:
    _, variants = _read(stored)
    return {(experiment, variant): unflatten_counts(numbers) for experiment, variant, numbers in variants}
