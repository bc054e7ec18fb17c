"""Lists that enter -> the reach of their panes, and when each user was last there: all users of one commit together.

Pure. Of one user's lists the earlier enter no later than the later, so of his past only the last pane of each kind matters, in each
arm in which he was seen within the longest window.
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
"""An arm in which a user was seen: experiment, variant, his last pane there; and packed, for each cut-off, the greatest first, how many
panes before that one he last had a hit, NO_HIT for none that still matters."""
NO_HIT: Final = -1
AGO: Final = np.dtype("<i4")
CLOSE: Final = 8
"""Values are counted by their place where there are no more places than this many a value, for sorting them takes longer."""

LastSeen: TypeAlias = dict[ExperimentVariant, StoredLastSeen]
"""All arms in which a user was seen, as they are stored."""


class LastSeenRound:
    """All users that were looked at since the last commit. Lists before the pane `first` are not counted."""

    def __init__(self, layout: UserCountLayout, panes_max: int, pane_ms: int, first: int, lists: FinalLists) -> None:
        self._layout, self._panes_max, self._pane_ms, self._first, self._lists = layout, panes_max, pane_ms, first, lists
        self._first_ms = first * pane_ms
        self._unseen = NOWHERE, np.full(layout.kinds - 1, NO_HIT, dtype=AGO).tobytes()
        self._arms_of: list[tuple[ExperimentVariant, ...]] = []
        self._groups: dict[tuple[ExperimentVariant, ...], int] = {}
        """Arms that are counted together, by number."""
        self._groups_of = [self._group((ALL, *labels)) for labels in lists.labels]
        """Those of the lists of a run, by the number of their experiments."""
        self._rows: list[tuple[LastSeen, int, int, bytes]] = []
        """By row, arms in which a user was seen alike: all that is known of him, the group of the arms, his last pane there, and when he
        had hits."""
        self._seen: list[tuple[int, int, int]] = []
        """Lists that count for a row: the row, the number of the first, and that of the last + 1."""

    def read(self, told: Iterable[StoredLastSeen], oldest_open: int) -> LastSeen:
        """What still matters of a user's past; `oldest_open` is the oldest pane of which a list of his may still enter."""
        least = max(self._first, oldest_open - self._panes_max + 1)
        return {(seen[0], seen[1]): seen for seen in told if seen[2] >= least}

    def enter(self, mine: LastSeen, runs: Sequence[LabelRun]) -> None:
        """Let the lists of a user enter."""
        if len(runs) == 1:
            number, first, end = runs[0]
            if self._lists.times[end - 1] >= self._first_ms:
                self._seen += [(row, first, end) for row in self._alike(mine, self._groups_of[number])]
            return
        rows: dict[ExperimentVariant, int] = {}
        for number, first, end in runs:
            if self._lists.times[end - 1] < self._first_ms:
                continue
            for arm in self._arms_of[self._groups_of[number]]:
                if arm not in rows:
                    (rows[arm],) = self._alike(mine, self._group((arm,)))
                self._seen.append((rows[arm], first, end))

    def _group(self, arms: tuple[ExperimentVariant, ...]) -> int:
        """The number of arms that are counted together."""
        group = self._groups.setdefault(arms, len(self._groups))
        if group == len(self._arms_of):
            self._arms_of.append(arms)
        return group

    def _alike(self, mine: LastSeen, group: int) -> Sequence[int]:
        """Rows of arms in which a user is seen at the same times from now on: one for all where he was seen at the same times before."""
        row, unseen = len(self._rows), self._unseen
        if not mine:
            self._rows.append((mine, group, *unseen))
            return (row,)
        arms = self._arms_of[group]
        pasts = [unseen if told is None else told[2:] for told in map(mine.get, arms)]
        if pasts.count(pasts[0]) == len(pasts):
            self._rows.append((mine, group, *pasts[0]))
            return (row,)
        for past in dict.fromkeys(pasts):
            alike = self._group(tuple(arm for arm, known in zip(arms, pasts, strict=True) if known == past))
            self._rows.append((mine, alike, *past))
        return range(row, len(self._rows))

    def sum(self, reaches: PaneUserCountsByStart) -> set[int]:
        """Bring reaches, and what is to be stored of users, up to date; returns the starts of the panes that have changed."""
        if not self._rows:
            return set()
        _, groups, known_pane, known_ago = zip(*self._rows, strict=True)
        pane = np.array(known_pane, dtype=np.int64)[:, None]
        ago = np.frombuffer(b"".join(known_ago), dtype=AGO).reshape(len(pane), self._layout.kinds - 1)
        last = np.hstack([pane, np.where(ago == NO_HIT, NOWHERE, pane - ago)])
        rows, panes, levels = self._lists_of_rows()
        # A user who was there already later than his list was written by the task's next owner: the store will refuse this commit.
        ours = panes >= np.maximum(last[rows, 0], self._first)
        rows, panes, kinds, gaps = occurrences(rows[ours], panes[ours], levels[ours], last, self._panes_max)
        self._store(last)
        return self._count(reaches, np.array(groups, dtype=np.int64)[rows], panes, kinds, gaps)

    def _lists_of_rows(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Of each list that counts for a row: the row, the list's pane, and the kinds that it counts for."""
        rows, firsts, ends = (np.array(column, dtype=np.int64) for column in zip(*self._seen, strict=True))
        sizes = ends - firsts
        lists = np.arange(sizes.sum()) + np.repeat(ends - np.cumsum(sizes), sizes)
        levels = np.array([self._layout.level(shape[1:]) for shape in self._lists.shapes], dtype=np.int64)[self._lists.shape_of]
        panes = np.array(self._lists.times, dtype=np.int64) // self._pane_ms
        return np.repeat(rows, sizes), panes[lists], levels[lists]

    def _store(self, last: Int64Array) -> None:
        """Bring users' records up to date."""
        since = last[:, :1] - last[:, 1:]
        packed, size = np.where(since < self._panes_max, since, NO_HIT).astype(AGO).tobytes(), len(self._unseen[1])
        start = 0
        for (mine, group, _, _), pane in zip(self._rows, last[:, 0].tolist(), strict=True):
            ago = packed[start : start + size]
            start += size
            for arm in self._arms_of[group]:
                experiment, variant = arm
                mine[arm] = experiment, variant, pane, ago

    def _count(
        self, reaches: PaneUserCountsByStart, groups: Int64Array, panes: Int64Array, kinds: Int64Array, gaps: Int64Array
    ) -> set[int]:
        """Add occurrences to the panes' reach, those that are alike together."""
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
            reach = reaches.setdefault(starts[place[first]], {})
            for arm in self._arms_of[groups[first]]:
                of_arm = reach.setdefault(arm, {})
                for key, number in zip(keys[first:end], numbers[first:end], strict=True):
                    of_arm[key] = of_arm.get(key, 0) + number
        return set(starts)

    def matters_until(self, mine: LastSeen) -> int:
        """The time (ms) from which a list that enters finds nothing of this in its longest window."""
        return (max(pane for _, _, pane, _ in mine.values()) + self._panes_max) * self._pane_ms


def _numbered(values: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The values that there are, ascending, and which of them each is. Where they lie close together, none is sorted.

    >>> [column.tolist() for column in _numbered(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    least = values.min()
    above = values - least
    if above.max() >= CLOSE * len(values):
        known, place = np.unique(values, return_inverse=True)
        return known, place
    there = np.bincount(above) > 0
    return np.flatnonzero(there) + least, (np.cumsum(there) - 1)[above]


def _counted(values: Int64Array, size: int) -> tuple[Int64Array, Int64Array]:
    """The values that there are, ascending, and how often each is there; all are from 0 on and below `size`.

    >>> [column.tolist() for column in _counted(np.array([7, 5, 7]), 9)]
    [[5, 7], [1, 2]]
    """
    if size > CLOSE * len(values):
        return np.unique(values, return_counts=True)
    counts = np.bincount(values)
    known = np.flatnonzero(counts)
    return known, counts[known]
