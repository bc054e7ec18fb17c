"""Unique users: the user counts of a task's panes, and the distinct users of windows that are read from them.

Only lists that are in the users' totals count, so counts are complete some time after a pane is final; windows of users end there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from streammetrics.events.event_time import NEVER, pane_start
from streammetrics.state.tables import RowChanges, TaskTimes
from streammetrics.windows.final_lists import FinalLists
from streammetrics.windows.last_seen import LastSeenBatch
from streammetrics.windows.user_counts import (
    ExperimentVariant,
    Int64Array,
    PaneUserCountsByStart,
    UserCountLayout,
    decode_user_counts,
    encode_user_counts,
    first_in_window,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueUserRules:
    """`panes`: panes of the longest window. `patience_ms`: see `ExperimentRules`."""

    panes: int
    patience_ms: int = 0


UNIQUE_USERS: Final = "unique_users"
"""The table of the unique users of panes, by pane start (ms). They still change when the pane itself is final."""


class UniqueUserState(msgspec.Struct, array_like=True):
    """What is stored of `UniqueUserPanes` besides panes. `window_panes` is the length of the longest window; 0: users are not counted."""

    window_panes: int = 0
    counted_from: int = NEVER


class UniqueUserPanes:
    """Unique users of the panes whose lists may still be enrolled, by pane start (ms). Lists before `counted_from` (ms) do not count."""

    __slots__ = ("_dirty", "_layout", "_pane_ms", "_rules", "_stored_starts", "counted_from", "panes")

    def __init__(self, rules: UniqueUserRules | None, layout: UserCountLayout, pane_ms: int) -> None:
        self._rules, self._layout, self._pane_ms = rules, layout, pane_ms
        self._dirty: set[int] = set()
        self._stored_starts: set[int] = set()
        self.panes: PaneUserCountsByStart = {}
        self.counted_from = NEVER

    def restore(self, stored: UniqueUserState, newest: int, panes: Mapping[str, bytes], older: Iterable[str]) -> None:
        """Continue from the last commit, whose newest event was at `newest` (ms). `older` are the starts of panes that do
        not change any more.

        If users were not counted then, or the longest window had another length, counting begins with the next pane.
        """
        self._stored_starts = set(map(int, (*panes, *older)))
        if self._rules is None:
            return
        if stored.window_panes == self._rules.panes:
            self.counted_from = stored.counted_from
            self.panes = {int(start): decode_user_counts(pane) for start, pane in panes.items()}
        elif newest != NEVER:
            self.counted_from = pane_start(newest, self._pane_ms) + self._pane_ms

    def stored(self) -> UniqueUserState:
        """Return what the next commit writes besides panes."""
        return UniqueUserState(0 if self._rules is None else self._rules.panes, self.counted_from)

    def new_batch(self, lists: FinalLists) -> LastSeenBatch | None:
        """Begin to count the users of lists that are enrolled. None if unique users are not counted."""
        pane_ms = self._pane_ms
        if self._rules is None:
            return None
        return LastSeenBatch(self._layout, self._rules.panes, pane_ms, self.counted_from // pane_ms, lists)

    def add(self, counted: LastSeenBatch) -> None:
        """Add the users that a batch has counted."""
        self._dirty |= counted.update_counts(self.panes)

    def changes(self, times: TaskTimes) -> RowChanges:
        """Return the panes that changed, and drop those that are complete."""
        changed = {start for start in self._dirty if start >= times.oldest_kept}
        gone = {start for start in self._stored_starts if start < times.oldest_kept}
        rows = {str(start): encode_user_counts(self.panes[start]) for start in changed}
        self._stored_starts = (self._stored_starts | changed) - gone
        self._dirty = set()
        for start in [start for start in self.panes if start < times.enrolled_before]:
            del self.panes[start]
        return RowChanges(rows, list(map(str, gone)), times.enrolled_before)


@dataclass(frozen=True, slots=True)
class UserCounts:
    """Users of one variant in one window, and users with a hit by cut-off."""

    arm: ExperimentVariant
    users: int
    users_with_hit: Mapping[int, int]

    @property
    def hit_rates(self) -> dict[int, float]:
        """Users with a hit / users, by cut-off."""
        return {k: users / self.users for k, users in self.users_with_hit.items()}


@dataclass(frozen=True, slots=True)
class UniqueUserWindow:
    """The users of one window: panes with end_ms - window_ms <= start < end_ms. `end_ms` is None before the first watermark.

    `complete` is False if some task has not counted the users of all panes. The window then has no users.
    """

    window_ms: int
    end_ms: int | None
    complete: bool
    arms: tuple[UserCounts, ...] = ()


class UniqueUserWindows:
    """The user counts of all tasks' panes, updated task by task; windows of users are read from them.

    Only complete panes are read, so a window is computed once for each of its ends.
    """

    def __init__(self, layout: UserCountLayout, pane_ms: int) -> None:
        self._layout, self._pane_ms = layout, pane_ms
        self._of_task: dict[int, dict[int, bytes | list[tuple[ExperimentVariant, Int64Array]]]] = {}
        self._windows: dict[int, tuple[tuple[int, int], UniqueUserWindow]] = {}

    def update(self, task: int, user_counts: Mapping[int, bytes], oldest_kept_ms: int, is_snapshot: bool = False) -> None:
        """Update the panes of a task that may have changed, in their stored form. They are decoded once they are complete.

        Panes before `oldest_kept_ms` have left the task's store. `is_snapshot`: these are all panes of the task, and earlier results
        may be wrong because the store lost commits.
        """
        if is_snapshot:
            self._of_task.pop(task, None)
            self._windows.clear()
        panes = self._of_task.setdefault(task, {})
        panes.update(user_counts)
        for start in [start for start in panes if start < oldest_kept_ms]:
            del panes[start]

    def _rows(
        self, panes: dict[int, bytes | list[tuple[ExperimentVariant, Int64Array]]], start: int
    ) -> list[tuple[ExperimentVariant, Int64Array]]:
        """Return the user counts of a pane by variant, as rows of kind, gap and count."""
        counts = panes[start]
        if isinstance(counts, bytes):
            user_counts = decode_user_counts(counts)
            counts = panes[start] = [
                (arm, np.array([(*key, count) for key, count in of_arm.items()], dtype=np.int64)) for arm, of_arm in user_counts.items()
            ]
        return counts

    def window(self, window_ms: int, end_ms: int, panes_max: int) -> UniqueUserWindow:
        """Return the users of the window that ends at `end_ms`. `panes_max`: the panes of the longest window that the tasks count for."""
        last = self._windows.get(window_ms)
        if last is None or last[0] != (end_ms, panes_max):
            last = self._windows[window_ms] = (end_ms, panes_max), self._read(window_ms, end_ms, panes_max)
        return last[1]

    def _read(self, window_ms: int, end_ms: int, panes_max: int) -> UniqueUserWindow:
        start_ms, pane_ms = end_ms - window_ms, self._pane_ms
        arms: dict[ExperimentVariant, int] = {}
        windows = [
            (arms.setdefault(arm, len(arms)), start // pane_ms, rows)
            for panes in self._of_task.values()
            for start in panes
            if start_ms <= start < end_ms
            for arm, rows in self._rows(panes, start)
        ]
        users = np.zeros((len(arms), self._layout.kinds), dtype=np.int64)
        if windows:
            sizes = [len(rows) for _, _, rows in windows]
            of_arm, panes = (
                np.repeat(np.array(column, dtype=np.int64), sizes) for column in ([one[0] for one in windows], [one[1] for one in windows])
            )
            kinds, gaps, counts = np.concatenate([rows for _, _, rows in windows]).T
            first = first_in_window(panes, gaps, start_ms // pane_ms, end_ms // pane_ms, panes_max)
            np.add.at(users, (of_arm[first], kinds[first]), counts[first])
        counts_of = [
            UserCounts(arm, users_seen, dict(sorted(zip(self._layout.cutoffs, hits, strict=True))))
            for arm, (users_seen, *hits) in zip(arms, users.tolist(), strict=True)
        ]
        return UniqueUserWindow(window_ms, end_ms, True, tuple(sorted(counts_of, key=lambda one: one.arm)))
