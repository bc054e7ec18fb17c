"""Lists that enter -> the reach of their panes, and when each user was last there: all users of one commit together.

Pure. Of one user's lists the earlier enter no later than the later, so of his past only the last pane of each kind matters, in each
arm in which he was seen within the longest window.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np

from streammetrics.events.model import Labels
from streammetrics.experiments.user_windows import NOWHERE, Ints, occurrences
from streammetrics.reach import ALL, Arm, Reaches, ReachLayout
from streammetrics.sessions import ShownList

StoredPresence: TypeAlias = tuple[str, str, int, bytes]
"""An arm in which a user was seen: experiment, variant, his last pane there; and packed, for each cut-off, the greatest first, how many
panes before that one he last had a hit, NO_HIT for none that still matters."""
NO_HIT: Final = -1
AGO: Final = np.dtype("<i4")

Presence: TypeAlias = dict[Arm, int]
"""A user's arms, each with its row in the round."""


class PresenceRound:
    """All users that were looked at since the last commit. Lists before the pane `first` are not counted."""

    def __init__(self, layout: ReachLayout, panes_max: int, pane_ms: int, first: int) -> None:
        self._layout, self._panes_max, self._pane_ms, self._first = layout, panes_max, pane_ms, first
        self._arms: dict[Arm, int] = {}
        self._arm_of: list[int] = []
        self._pane: list[int] = []
        self._ago: list[bytes] = []
        self._never = np.full(layout.kinds - 1, NO_HIT, dtype=AGO).tobytes()
        self._rows: list[int] = []
        """By list and arm: the row that it counts for; by list: how many those are, its pane, and the kinds that it counts for."""
        self._widths: list[int] = []
        self._panes: list[int] = []
        self._levels: list[int] = []

    def read(self, told: Iterable[StoredPresence], oldest_open: int) -> Presence:
        """What still matters of a user's past; `oldest_open` is the oldest pane of which a list of his may still enter."""
        least = max(self._first, oldest_open - self._panes_max + 1)
        return {
            (experiment, variant): self._row((experiment, variant), pane, ago) for experiment, variant, pane, ago in told if pane >= least
        }

    def enter(self, mine: Presence, lists: Iterable[ShownList]) -> None:
        """Let the lists of a user enter."""
        rows, widths, panes, levels = self._rows, self._widths, self._panes, self._levels
        pane_ms, first, level = self._pane_ms, self._first, self._layout.level
        known: dict[Labels, list[int]] = {}
        for shown in lists:
            pane, labels = shown.ts // pane_ms, shown.facts.experiments
            if pane < first:
                continue
            targets = known.get(labels)
            if targets is None:
                targets = known[labels] = [self._target(mine, arm) for arm in (ALL, *labels)]
            assert shown.hits is not None
            rows += targets
            widths.append(len(targets))
            panes.append(pane)
            levels.append(level(shown.hits) if shown.hits else 0)

    def _target(self, mine: Presence, arm: Arm) -> int:
        row = mine.get(arm)
        if row is None:
            row = mine[arm] = self._row(arm, NOWHERE, self._never)
        return row

    def _row(self, arm: Arm, pane: int, ago: bytes) -> int:
        self._arm_of.append(self._arms.setdefault(arm, len(self._arms)))
        self._pane.append(pane)
        self._ago.append(ago)
        return len(self._pane) - 1

    def sum(self, reaches: Reaches) -> set[int]:
        """Bring reaches, and all users' last panes, up to date; returns the starts of the panes that have changed."""
        if not self._rows:
            return set()
        pane = np.array(self._pane, dtype=np.int64)[:, None]
        ago = np.frombuffer(b"".join(self._ago), dtype=AGO).reshape(len(pane), self._layout.kinds - 1)
        last = np.hstack([pane, np.where(ago == NO_HIT, NOWHERE, pane - ago)])
        panes, levels = (np.repeat(np.array(column, dtype=np.int64), self._widths) for column in (self._panes, self._levels))
        rows = np.array(self._rows, dtype=np.int64)
        # A user who was there already later than his list was written by the task's next owner: the store will refuse this commit.
        ours = panes >= last[rows, 0]
        rows, panes, kinds, gaps = occurrences(rows[ours], panes[ours], levels[ours], last, self._panes_max)
        since = last[:, :1] - last[:, 1:]
        self._pane = last[:, 0].tolist()
        packed, size = np.where(since < self._panes_max, since, NO_HIT).astype(AGO).tobytes(), len(self._never)
        self._ago = [packed[start : start + size] for start in range(0, len(packed), size)] if size else self._ago
        return self._count(reaches, np.array(self._arm_of, dtype=np.int64)[rows], panes, kinds, gaps)

    def _count(self, reaches: Reaches, arms: Ints, panes: Ints, kinds: Ints, gaps: Ints) -> set[int]:
        """Add occurrences to the panes' reach, those that are alike together."""
        starts, place = np.unique(panes * self._pane_ms, return_inverse=True)
        shape = (len(starts), len(self._arms), self._layout.kinds, self._panes_max + 1)
        alike, counts = np.unique(np.ravel_multi_index((place, arms, kinds, gaps), shape), return_counts=True)
        start_of, arm_of = starts.tolist(), list(self._arms)
        for pane, arm, kind, gap, count in zip(*(each.tolist() for each in np.unravel_index(alike, shape)), counts.tolist(), strict=True):
            of_arm = reaches.setdefault(start_of[pane], {}).setdefault(arm_of[arm], {})
            of_arm[kind, gap] = of_arm.get((kind, gap), 0) + count
        return set(start_of)

    def stored(self, mine: Presence) -> list[StoredPresence]:
        """What is to be kept of a user, once all are summed."""
        return [(*arm, self._pane[row], self._ago[row]) for arm, row in mine.items()]

    def matters_until(self, mine: Presence) -> int:
        """The time (ms) from which a list that enters finds nothing of this in its longest window."""
        return (max([self._pane[row] for row in mine.values()]) + self._panes_max) * self._pane_ms
