"""How many users each pane of a task had, by how long before each of them was last seen. `windows.unique_users` reads windows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from streammetrics.events.event_time import NEVER, pane_start
from streammetrics.state.tables import RowChanges
from streammetrics.windows.final_lists import FinalLists
from streammetrics.windows.last_seen import LastSeenBatch
from streammetrics.windows.unique_users import (
    PaneUserCountsByStart,
    UniqueUserRules,
    UserCountLayout,
    decode_user_counts,
    encode_user_counts,
)

UNIQUE_USERS: Final = "unique_users"
"""The table of the unique users of panes, by pane start (ms). They still change when the pane itself is final."""


class UniqueUserState(msgspec.Struct, array_like=True):
    """What is stored of `UniqueUserPanes` besides panes. `window_panes` is the length of the longest window; 0: users are not counted."""

    window_panes: int = 0
    counted_from: int = NEVER


class UniqueUserPanes:
    """Unique users of the panes whose lists may still be enrolled, by pane start (ms). Lists before `counted_from` (ms) do not count."""

    __slots__ = ("_dirty", "_layout", "_pane_ms", "_rules", "_stored_starts", "counted_from", "panes")

    def __init__(self, rules: UniqueUserRules | None, layout: UserCountLayout | None, pane_ms: int) -> None:
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
        if self._rules is None or self._layout is None:
            return None
        return LastSeenBatch(self._layout, self._rules.panes, pane_ms, self.counted_from // pane_ms, lists)

    def add(self, counted: LastSeenBatch) -> None:
        """Add the users that a batch has counted."""
        self._dirty |= counted.update_counts(self.panes)

    def changes(self, enrolled_before: int, oldest_kept: int) -> RowChanges:
        """Return the panes that changed, and drop those that are complete: all lists before `enrolled_before` (ms) are enrolled.

        Panes before `oldest_kept` (ms) leave the store.
        """
        changed = {start for start in self._dirty if start >= oldest_kept}
        gone = {start for start in self._stored_starts if start < oldest_kept}
        changes = RowChanges({str(start): encode_user_counts(self.panes[start]) for start in changed}, list(map(str, gone)))
        self._stored_starts = (self._stored_starts | changed) - gone
        self._dirty = set()
        for start in [start for start in self.panes if start < enrolled_before]:
            del self.panes[start]
        return changes
