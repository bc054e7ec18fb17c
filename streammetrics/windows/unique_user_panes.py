"""How many users each pane of a task had, by how long before each of them was last seen. `windows.unique_users` reads windows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypedDict

from streammetrics.engine.control import Control
from streammetrics.engine.rules import EngineRules
from streammetrics.events.event_time import NEVER, pane_start
from streammetrics.windows.final_lists import FinalLists
from streammetrics.windows.last_seen import LastSeenBatch
from streammetrics.windows.unique_users import PaneUserCountsByStart, UserCountLayout, decode_user_counts, encode_user_counts

UNIQUE_USERS: Final = "unique_users"
"""The table of the unique users of panes, by pane start (ms). They still change when the pane itself is final."""


class UserCountChanges(NamedTuple):
    """What a commit writes: the panes whose unique users changed, and those to delete."""

    changed: dict[str, bytes]
    gone: list[str]


class StoredUniqueUsers(TypedDict):
    """The fields of a task's control record that `UniqueUserPanes` owns."""

    user_window_panes: int
    users_counted_from: int


class UniqueUserPanes:
    """Unique users of the panes whose lists may still be enrolled, by pane start (ms). Lists before `counted_from` (ms) do not count."""

    __slots__ = ("_dirty", "_layout", "_rules", "_stored_starts", "counted_from", "panes")

    def __init__(self, rules: EngineRules, layout: UserCountLayout | None) -> None:
        self._rules, self._layout = rules, layout
        self._dirty: set[int] = set()
        self._stored_starts: set[int] = set()
        self.panes: PaneUserCountsByStart = {}
        self.counted_from = NEVER

    def restore(self, stored: Control, panes: Mapping[str, bytes], older: Iterable[str]) -> None:
        """Continue from the last commit. `older` are the starts of panes that do not change any more.

        If users were not counted then, or the longest window had another length, counting begins with the next pane.
        """
        rules = self._rules
        self._stored_starts = set(map(int, (*panes, *older)))
        if rules.unique_users is None:
            return
        if stored.user_window_panes == rules.unique_users.panes:
            self.counted_from = stored.users_counted_from
            self.panes = {int(start): decode_user_counts(pane) for start, pane in panes.items()}
        elif stored.newest != NEVER:
            self.counted_from = pane_start(stored.newest, rules.pane_ms) + rules.pane_ms

    def stored(self) -> StoredUniqueUsers:
        """Return the part of the control record that the next commit writes."""
        return {
            "user_window_panes": 0 if self._rules.unique_users is None else self._rules.unique_users.panes,
            "users_counted_from": self.counted_from,
        }

    def new_batch(self, lists: FinalLists) -> LastSeenBatch | None:
        """Begin to count the users of lists that are enrolled. None if unique users are not counted."""
        rules, pane_ms = self._rules, self._rules.pane_ms
        if rules.unique_users is None or self._layout is None:
            return None
        return LastSeenBatch(self._layout, rules.unique_users.panes, pane_ms, self.counted_from // pane_ms, lists)

    def add(self, counted: LastSeenBatch) -> None:
        """Add the users that a batch has counted."""
        self._dirty |= counted.update_counts(self.panes)

    def changes(self, enrolled_before: int, oldest_kept: int) -> UserCountChanges:
        """Return the panes that changed, and drop those that are complete: all lists before `enrolled_before` (ms) are enrolled.

        Panes before `oldest_kept` (ms) leave the store.
        """
        changed = {start for start in self._dirty if start >= oldest_kept}
        gone = {start for start in self._stored_starts if start < oldest_kept}
        changes = UserCountChanges({str(start): encode_user_counts(self.panes[start]) for start in changed}, list(map(str, gone)))
        self._stored_starts = (self._stored_starts | changed) - gone
        self._dirty = set()
        for start in [start for start in self.panes if start < enrolled_before]:
            del self.panes[start]
        return changes
