"""Final lists -> user counts of their panes, and when each user was last seen: all users of one commit together.

A user's lists are counted in order of time. So only the last pane of each kind is kept per user and variant, for the longest window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from streammetrics.windows.distinct_count import NOWHERE, Int64Array, occurrences
from streammetrics.windows.final_lists import FinalLists, LabelRun
from streammetrics.windows.unique_users import ALL, ExperimentVariant, PaneUserCountsByStart, UserCountLayout

StoredLastSeen: TypeAlias = tuple[str, str, int, bytes]
"""A variant in which a user was seen: experiment, variant, last pane, and the packed hits.

The hits have one number per cut-off, the greatest cut-off first: how many panes before the last pane the user last had a hit, or NO_HIT
if that is too long ago.
"""
NO_HIT: Final = -1
PANES_AGO: Final = np.dtype("<i4")
DENSE_FACTOR: Final = 8
"""Values are counted by index if their range is at most this many times their number; sorting is slower then."""

LastSeen: TypeAlias = dict[ExperimentVariant, StoredLastSeen]
"""All variants in which a user was seen, in stored form."""


class LastSeenBatch:
    """All users of one commit. Lists before the pane `first` are not counted."""

    def __init__(self, layout: UserCountLayout, panes_max: int, pane_ms: int, first: int, lists: FinalLists) -> None:
        self._layout, self._panes_max, self._pane_ms, self._first, self._lists = layout, panes_max, pane_ms, first, lists
        self._first_ms = first * pane_ms
        self._unseen = NOWHERE, np.full(layout.kinds - 1, NO_HIT, dtype=PANES_AGO).tobytes()
        self._arms_of: list[tuple[ExperimentVariant, ...]] = []
        self._groups: dict[tuple[ExperimentVariant, ...], int] = {}
        """Numbers of variants that are counted together."""
        self._groups_of = [self._group((ALL, *labels)) for labels in lists.labels]
        """The same by the number of a run's experiments."""
        self._rows: list[tuple[LastSeen, int, int, bytes]] = []
        """Rows: variants in which a user was seen at the same times. What is known of the user, the number of the variants, the user's
        last pane there, and the packed hits.
        """
        self._row_lists: list[tuple[int, int, int]] = []
        """Lists of a row: the row, the first list, the last list + 1."""

    def restore(self, stored: Iterable[StoredLastSeen], oldest_open: int) -> LastSeen:
        """Return what is still relevant of a user's past. `oldest_open` is the oldest pane that may still get a list of this user."""
        least = max(self._first, oldest_open - self._panes_max + 1)
        return {(seen[0], seen[1]): seen for seen in stored if seen[2] >= least}

    def add_lists(self, last_seen: LastSeen, runs: Sequence[LabelRun]) -> None:
        """Add the lists of a user."""
        if len(runs) == 1:
            number, first, end = runs[0]
            if self._lists.times[end - 1] >= self._first_ms:
                self._row_lists += [(row, first, end) for row in self._rows_for(last_seen, self._groups_of[number])]
            return
        rows: dict[ExperimentVariant, int] = {}
        for number, first, end in runs:
            if self._lists.times[end - 1] < self._first_ms:
                continue
            for arm in self._arms_of[self._groups_of[number]]:
                if arm not in rows:
                    (rows[arm],) = self._rows_for(last_seen, self._group((arm,)))
                self._row_lists.append((rows[arm], first, end))

    def _group(self, arms: tuple[ExperimentVariant, ...]) -> int:
        """Return the number of variants that are counted together."""
        group = self._groups.setdefault(arms, len(self._groups))
        if group == len(self._arms_of):
            self._arms_of.append(arms)
        return group

    def _rows_for(self, last_seen: LastSeen, group: int) -> Sequence[int]:
        """Return rows for variants: one row for all variants in which the user was seen at the same times so far."""
        row, unseen = len(self._rows), self._unseen
        if not last_seen:
            self._rows.append((last_seen, group, *unseen))
            return (row,)
        arms = self._arms_of[group]
        pasts = [unseen if known is None else known[2:] for known in map(last_seen.get, arms)]
        if pasts.count(pasts[0]) == len(pasts):
            self._rows.append((last_seen, group, *pasts[0]))
            return (row,)
        for past in dict.fromkeys(pasts):
            alike = self._group(tuple(arm for arm, known in zip(arms, pasts, strict=True) if known == past))
            self._rows.append((last_seen, alike, *past))
        return range(row, len(self._rows))

    def update_counts(self, user_counts: PaneUserCountsByStart) -> set[int]:
        """Update the user counts of panes and the stored records of users. Returns the starts of the changed panes."""
        if not self._rows:
            return set()
        _, groups, known_pane, known_ago = zip(*self._rows, strict=True)
        pane = np.array(known_pane, dtype=np.int64)[:, None]
        ago = np.frombuffer(b"".join(known_ago), dtype=PANES_AGO).reshape(len(pane), self._layout.kinds - 1)
        last = np.hstack([pane, np.where(ago == NO_HIT, NOWHERE, pane - ago)])
        rows, panes, levels = self._lists_of_rows()
        # The next owner of the task may have stored a later last pane already. The store will then refuse this commit.
        ours = panes >= np.maximum(last[rows, 0], self._first)
        rows, panes, kinds, gaps = occurrences(rows[ours], panes[ours], levels[ours], last, self._panes_max)
        self._store(last)
        return self._count(user_counts, np.array(groups, dtype=np.int64)[rows], panes, kinds, gaps)

    def _lists_of_rows(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the row, the pane and the greatest kind of each list."""
        rows, firsts, ends = (np.array(column, dtype=np.int64) for column in zip(*self._row_lists, strict=True))
        sizes = ends - firsts
        lists = np.arange(sizes.sum()) + np.repeat(ends - np.cumsum(sizes), sizes)
        levels = np.array([self._layout.hit_kind(shape[1:]) for shape in self._lists.shapes], dtype=np.int64)[self._lists.shape_of]
        panes = np.array(self._lists.times, dtype=np.int64) // self._pane_ms
        return np.repeat(rows, sizes), panes[lists], levels[lists]

    def _store(self, last: Int64Array) -> None:
        """Update the records of users."""
        since = last[:, :1] - last[:, 1:]
        packed, size = np.where(since < self._panes_max, since, NO_HIT).astype(PANES_AGO).tobytes(), len(self._unseen[1])
        start = 0
        for (last_seen, group, _, _), pane in zip(self._rows, last[:, 0].tolist(), strict=True):
            ago = packed[start : start + size]
            start += size
            for arm in self._arms_of[group]:
                experiment, variant = arm
                last_seen[arm] = experiment, variant, pane, ago

    def _count(
        self, user_counts: PaneUserCountsByStart, groups: Int64Array, panes: Int64Array, kinds: Int64Array, gaps: Int64Array
    ) -> set[int]:
        """Add occurrences to the user counts of panes, equal ones together."""
        if not len(panes):
            return set()
        known, place = _numbered(panes)
        shape = (len(known), len(self._groups), self._layout.kinds, self._panes_max + 1)
        alike, counts = _counted(np.ravel_multi_index((place, groups, kinds, gaps), shape), math.prod(shape))
        place, groups, kinds, gaps = np.unravel_index(alike, shape)
        keys, numbers = list(zip(kinds.tolist(), gaps.tolist(), strict=True)), counts.tolist()
        starts = [pane * self._pane_ms for pane in known.tolist()]
        cuts = [0, *(np.flatnonzero((place[1:] != place[:-1]) | (groups[1:] != groups[:-1])) + 1).tolist(), len(keys)]
        for first, end in pairwise(cuts):
            of_pane = user_counts.setdefault(starts[place[first]], {})
            for arm in self._arms_of[groups[first]]:
                of_arm = of_pane.setdefault(arm, {})
                for key, number in zip(keys[first:end], numbers[first:end], strict=True):
                    of_arm[key] = of_arm.get(key, 0) + number
        return set(starts)

    def relevant_until(self, last_seen: LastSeen) -> int:
        """Return the time (ms) from which on this user's past is no longer relevant to new lists."""
        return (max(pane for _, _, pane, _ in last_seen.values()) + self._panes_max) * self._pane_ms


def _numbered(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values, ascending, and the index of each value among them. Dense values are not sorted.

    >>> [column.tolist() for column in _numbered(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    least = values.min()
    above = values - least
    if above.max() >= DENSE_FACTOR * len(values):
        known, place = np.unique(values, return_inverse=True)
        return known, place
    there = np.bincount(above) > 0
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[above]


def _counted(values: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """Return the distinct values, ascending, and their counts. All values are at least 0 and below `size`.

    >>> [column.tolist() for column in _counted(np.array([7, 5, 7]), 9)]
    [[5, 7], [1, 2]]
    """
    if size > DENSE_FACTOR * len(values):
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    known = np.flatnonzero(counts)
    return known, counts[known]
