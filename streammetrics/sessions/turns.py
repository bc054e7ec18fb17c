"""When a user is due: a session may close, a list may get its variants or be enrolled, or the last exposure expires.

The lists of open sessions are enrolled by turns: a user's lists of one turn together, once all of them are final.

A turn is as many panes as patience allows, and at least one. So a list of a long session waits at most that long after it is final, and
a user's record is rarely written. The turns of different users begin at different panes, so that not all users are due at once.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from streammetrics.events.model import Impression, Labels
from streammetrics.sessions.open_sessions import next_close
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session_events import first_from
from streammetrics.sessions.state import User


class Turns:
    """Turns of all users. Times are in milliseconds.

    >>> turns = Turns(pane_ms=10, patience_ms=30, attribution_ms=60)
    >>> [turns.end_of("u", ts) for ts in (0, 9, 10, 39, 40)], turns.ended("u", 39)
    ([30, 30, 30, 60, 60], 30)
    """

    __slots__ = ("_attribution_ms", "_pane_ms", "_panes", "_turn_ms")

    def __init__(self, *, pane_ms: int, patience_ms: int, attribution_ms: int) -> None:
        self._pane_ms, self._attribution_ms = pane_ms, attribution_ms
        self._panes = max(1, patience_ms // pane_ms)
        self._turn_ms = self._panes * pane_ms

    def end_of(self, user_id: str, ts: int) -> int:
        """Return the end of the turn that holds a time."""
        return self.ended(user_id, ts) + self._turn_ms

    def ended(self, user_id: str, ts: int) -> int:
        """Return the end of the last turn that ends at or before a time."""
        shift_ms = crc32(user_id.encode()) % self._panes * self._pane_ms
        return (ts + shift_ms) // self._turn_ms * self._turn_ms - shift_ms

    def final(self, user_id: str, bound: int) -> int:
        """Return the end of the last turn whose lists are all final. No event before `bound` is admitted any more."""
        return self.ended(user_id, bound - self._attribution_ms)

    def due(self, user_id: str, ts: int) -> int:
        """Return when a user is due because of a list at `ts`: the turn is final for every later bound."""
        return self.ended(user_id, ts) + self._turn_ms + self._attribution_ms - 1


class DueTimes:
    """When (ms) users are due. `turns` are None if no users are counted."""

    __slots__ = ("_counts_users", "_rules", "_turns")

    def __init__(self, rules: JoinRules, turns: Turns | None, counts_users: Callable[[Labels], bool]) -> None:
        self._rules, self._turns, self._counts_users = rules, turns, counts_users

    def of(self, user_id: str, user: User) -> int:
        """When (ms) a user is due.

        The first list without its variants may get them, the first session may have ended, or the turn of the first list that is not
        enrolled is final. Without sessions, the last exposure has expired.
        """
        if not user.sessions:
            return min(self._labels_due(user), self._expires(user))
        due = min(self._labels_due(user), next_close(user, self._rules.gap_ms))
        if self._turns is None or max(user.sessions[0].first, user.handed_on_before) + self._rules.attribution_ms >= due:
            return due  # no list can be final before the session
        for session in user.sessions:  # in order of time, as the lists of each
            first = first_from(session, user.handed_on_before, self._counts_users)
            if first is not None:
                return min(due, self._turns.due(user_id, first.ts))
        return due

    def _labels_due(self, user: User) -> int:
        """Return when (ms) a user is due because of exposures: the first list may get its variants, or the first exposure be counted."""
        if user.exposures is None:
            return user.unlabelled_from
        return min(user.unlabelled_from, user.exposures.first_from(user.exposed_before))

    def _expires(self, user: User) -> int:
        """Return the last time (ms) at which a list may need an exposure of a user. There must be one."""
        assert self._rules.exposures is not None
        assert user.exposures is not None
        return user.exposures.newest + self._rules.exposures.validity_ms

    def later(self, user_id: str, user: User, bound: int) -> int | None:
        """Return when (ms) a user is due if that is not before `bound`; None if the user needs something now, or may."""
        if self._rules.exposures is not None or not user.sessions or next_close(user, self._rules.gap_ms) < bound:
            return None
        due = self.of(user_id, user)
        return due if due >= bound else None

    def depends_on(self, user: User, event: Impression, closed_before: int, counted_from: int) -> bool:
        """Return whether a user may be due sooner because of a new list, which may be handed on before its session can close.

        Lists before `counted_from` (ms) do not count, so they have set no due time.

        A user is due when the turn of the first list that is not enrolled is final. An older list of an open turn has set that time
        already, if it counts. Nothing is needed if the session can close first. Its stored due time is early enough then, because a
        session's end only moves later.
        """
        assert self._turns is not None
        final = self._turns.final(event.user_id, closed_before)
        for session in user.sessions:
            for shown_list in reversed(session.lists.values()):
                if (
                    shown_list.ts <= event.ts
                    and self._counts_users(shown_list.experiments)
                    and shown_list.impression_id != event.impression_id
                    and shown_list.ts >= counted_from
                    and shown_list.ts >= final
                ):
                    return False
        return True
