"""The users of a task that are in memory, with their open sessions; when each of them is due; and what becomes final of them.

Here alone it is decided that a list is final: its session has closed, or all lists of its turn are final (see `turns`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import msgspec

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Impression, Labels
from streammetrics.sessions.exposures import FinalExposure
from streammetrics.sessions.open_sessions import close_before
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session_events import lists_between, outcomes, untangle
from streammetrics.sessions.state import KINDS, MATCHED, OUTCOMES, UNMATCHED, ChangedLists, Session, ShownList, User
from streammetrics.sessions.turns import DueTimes, Turns
from streammetrics.sessions.user_codec import decode_user, save_user
from streammetrics.state.tables import StatePiece

CHECKED_PER_EVICTION: Final = 4
"""How many users `evict` checks for each one that is too many. This bounds the time of a call, even if all users were saved lately. Fewer
than a third more users than allowed stay, because beyond that every user is checked."""

MisplacedUsers: TypeAlias = Callable[[Sequence[str]], AbstractSet[str]]
"""Returns those of some users whose events belong on another partition."""


Labeller: TypeAlias = Callable[[User, int, ChangedLists], None]
"""Gives the lists of a user before a time (ms) the variants of the user's exposures, and notes which lists change."""


class SessionChanges(NamedTuple):
    """What a commit writes of users: those with open sessions, when (event time, ms) users are due, and those without sessions.

    `pieces` are appended to the states of users, and `pieces_gone` of these are deleted.
    """

    users: dict[str, bytes]
    pieces: dict[str, StatePiece]
    pieces_gone: dict[str, int]
    due: dict[str, int]
    gone: list[str]


class SessionState(msgspec.Struct, array_like=True):
    """What is stored of `UserSessions` besides users: see `open` and `without_sessions` there."""

    open: int = 0
    without_sessions: int = 0


class ClosedSession(NamedTuple):
    """The user, the time (ms) of a session's last event, and how much of its feedback was matched and not."""

    user_id: str
    last_ms: int
    matched: int
    unmatched: int


class FinalEvents(NamedTuple):
    """What has become final: lists and exposures by user, in order of time, and sessions that closed. It does not change any more."""

    lists: dict[str, list[ShownList]]
    exposures: dict[str, list[FinalExposure]]
    closed: list[ClosedSession]


class UserSessions:
    """Users in memory. A user is due when a session may close, a list may get its variants or be enrolled, or the last exposure expires.

    `users` includes users without sessions and exposures until they are saved. `dirty` are the users that the next commit writes.
    `changed` are the lists that changed since the last commit, which tallies them.
    `due_changed` are the users that need a new due time. `put_off` are users that need nothing before a later due time (ms). No stored
    user is due before `next_due` (ms). `open` is the number of open sessions of all users of the task, in memory or not.
    `without_sessions` is the number of its stored users that have exposures only.

    `turns` are None if no users are counted: no lists are handed on then. `label` gives lists the variants of exposures, before they are
    final. `counts_users` says whether the users of a list with some experiments are counted.
    """

    __slots__ = (
        "_counts",
        "_due",
        "_due_requested",
        "_final",
        "_has_exposures",
        "_label",
        "_rules",
        "changed",
        "dirty",
        "due_changed",
        "next_due",
        "open",
        "put_off",
        "turns",
        "users",
        "without_sessions",
    )

    def __init__(
        self,
        rules: JoinRules,
        turns: Turns | None,
        label: Labeller,
        counts: Counter[tuple[str, int]],
        *,
        counts_users: Callable[[Labels], bool],
    ) -> None:
        self._rules, self.turns, self._label, self._counts = rules, turns, label, counts
        self._due = DueTimes(rules, turns, counts_users)
        self._has_exposures = rules.exposures is not None
        self._final = FinalEvents({}, {}, [])
        self._due_requested = False
        self.users: dict[str, User] = {}
        self.dirty: dict[str, User] = {}
        self.changed: ChangedLists = []
        self.due_changed: set[str] = set()
        self.put_off: dict[str, int] = {}
        self.next_due = NEVER
        self.open = self.without_sessions = 0

    def restore(self, stored: SessionState) -> None:
        """Continue from the last commit. Users are loaded when they are needed."""
        self.open, self.without_sessions = stored.open, stored.without_sessions

    def stored(self) -> SessionState:
        """Return what the next commit writes besides users."""
        return SessionState(self.open, self.without_sessions)

    def missing(self, user_ids: set[str]) -> set[str]:
        """Return those of the users that are not in memory."""
        return user_ids.difference(self.users)

    def due_before(self, bound: int) -> int | None:
        """Return the bound (ms) if users that are due before it should be loaded: at most once between two commits."""
        return bound if bound > self.next_due and not self._due_requested and bound > NEVER else None

    def load(self, user_ids: Iterable[str], stored: Mapping[str, bytes], misplaced: MisplacedUsers | None) -> None:
        """Decode users into memory. Those in memory are newer than the store and stay."""
        new = [user_id for user_id in user_ids if user_id not in self.users]
        on_wrong_partition = misplaced(new) if misplaced is not None and new else frozenset()
        for user_id in new:
            wrong = user_id in on_wrong_partition
            value = stored.get(user_id)
            self.users[user_id] = User(wrong) if value is None else decode_user(value, self._rules, wrong)

    def note_due(self, next_due_ms: int | None) -> None:
        """Note that the due users were loaded. `next_due_ms` is when the next one is due, None if there is no other."""
        self._due_requested = True
        self.next_due = FOREVER if next_due_ms is None else next_due_ms

    def close_due(self, due: Iterable[str], bound: int) -> None:
        """Label the lists of users that are due, close their ended sessions, and hand on what is final.

        A session's end moves with each event, and the stored due time does not. A user who needs nothing yet only gets a new due time.
        """
        for user_id in due:
            user = self.users[user_id]
            self._untangle(user.sessions)
            if (later := self._due.later(user_id, user, bound)) is not None:
                self.put_off[user_id] = later
                continue
            self.due_changed.add(user_id)
            self.hand_on_exposures(user_id, user, bound)
            self.close_ended(user_id, user, bound)
            self._hand_on_open(user_id, user, bound)

    def take_final(self) -> FinalEvents:
        """Return what has become final since the last call."""
        final, self._final = self._final, FinalEvents({}, {}, [])
        return final

    def _hand_on(self, user_id: str, lists: Iterable[ShownList]) -> None:
        self._final.lists.setdefault(user_id, []).extend(lists)

    def hand_on_exposures(self, user_id: str, user: User, bound: int) -> None:
        """Hand on the exposures before `bound` (ms), before labelling forgets them: no earlier one is admitted any more."""
        if user.exposures is None or bound == NEVER:
            return
        exposures = user.exposures.between(user.exposed_before, bound)
        user.exposed_before = max(user.exposed_before, bound)
        if exposures:
            self._final.exposures.setdefault(user_id, []).extend(exposures)

    def _hand_on_open(self, user_id: str, user: User, bound: int) -> None:
        """Hand on those lists of open sessions whose turn is final."""
        if bound in (NEVER, FOREVER) or self.turns is None or not user.sessions:
            return
        final = self.turns.final(user_id, bound)
        if final > user.handed_on_before:
            for session in user.sessions:
                self._hand_on(user_id, lists_between(session, user.handed_on_before, final))
            user.handed_on_before = final

    def note_list(self, user: User, event: Impression, closed_before: int, counted_from: int) -> None:
        """Make sure that a user is due in time for a list that is handed on before its session can close."""
        if self._due.depends_on(user, event, closed_before, counted_from):
            self.due_changed.add(event.user_id)

    def close_ended(self, user_id: str, user: User, bound: int) -> None:
        """Close those sessions of a user that no event can extend any more, and hand their lists on.

        This is the only place where sessions close. No event before `bound` (ms) is admitted any more.
        """
        self.dirty[user_id] = user
        if self._has_exposures:
            self.label(user, bound)
        closed = close_before(user, bound, self._rules.gap_ms)
        self._untangle(closed)
        for session in closed:
            self.open -= 1
            matched, unmatched = self._count_outcomes(session)
            if self._has_exposures:
                for shown_list in session.lists.values():
                    self._counts["list_exposed" if shown_list.experiments else "list_unexposed", shown_list.topic] += 1
            self._final.closed.append(ClosedSession(user_id, session.last, matched, unmatched))
            if self.turns is not None:
                self._hand_on(user_id, lists_between(session, user.handed_on_before, FOREVER))

    def _count_outcomes(self, session: Session) -> tuple[int, int]:
        """Count what became of the events of a session that has closed. Returns the number of matched and of unmatched feedback."""
        matched = unmatched = 0
        for at, count in outcomes(session).items():
            topic, outcome = divmod(at, KINDS)
            if count:
                self._counts[OUTCOMES[outcome], topic] += count
            if outcome == MATCHED:
                matched += count
            elif outcome in UNMATCHED:
                unmatched += count
        return matched, unmatched

    def _untangle(self, sessions: Iterable[Session]) -> None:
        """Bring sessions up to date with their logs, and count the duplicates that this reveals."""
        for session in sessions:
            if session.is_stale:
                for topic, count in untangle(session, self._rules, self.changed).items():
                    self._counts["duplicate", topic] += count

    def label(self, user: User, bound: int) -> None:
        """Label the lists of a user before `bound` (ms)."""
        self._untangle(user.sessions)
        self._label(user, bound, self.changed)

    def take_changed(self, bound: int) -> ChangedLists:
        """Bring all sessions up to date, label their lists before `bound` (ms), and return the lists that changed since the last commit."""
        for user_id, user in self.dirty.items():
            if user.only is None or user.only.is_stale:  # after a commit without sessions, most users have not changed
                self._untangle(user.sessions)
            if user.unlabelled_from < bound:
                self._label(user, bound, self.changed)
                self.due_changed.add(user_id)
        changed, self.changed = self.changed, []
        return changed

    def changes(self, records_due: Mapping[str, int], *, with_sessions: bool = True) -> SessionChanges:
        """Return what to commit, and drop users without sessions and exposures. `records_due`: when (ms) users' totals no longer matter.

        Without sessions, only due times are written and users deleted. All other users stay unsaved.
        """
        users: dict[str, bytes] = {}
        pieces: dict[str, StatePiece] = {}
        pieces_gone: dict[str, int] = {}
        gone: list[str] = []
        dirty = self.dirty if with_sessions else self._take_ended(records_due)
        for user_id, user in dirty.items():
            before, saved = user.pieces, save_user(user) if user.is_kept else None
            if user.exposures_only or user.exposures:
                self._count_without_sessions(user, saved is not None and not user.sessions)
            if isinstance(saved, StatePiece):
                pieces[user_id] = saved
            elif before > 0:
                pieces_gone[user_id] = before
            if isinstance(saved, bytes):
                users[user_id] = saved
            if saved is None:
                del self.users[user_id]
                gone.append(user_id)
            else:
                user.recently_saved = True
        due = self._take_due(gone, records_due)
        if with_sessions:
            self.dirty = {}
        return SessionChanges(users, pieces, pieces_gone, due, gone)

    def _take_ended(self, enrolled: Iterable[str]) -> dict[str, User]:
        """Return the users without sessions and exposures among those that were due or enrolled. They are not dirty any more."""
        users = ((user_id, self.dirty.get(user_id)) for user_id in self.due_changed.union(enrolled))
        ended = {user_id: user for user_id, user in users if user is not None and not user.is_kept}
        for user_id in ended:
            del self.dirty[user_id]
        return ended

    def _take_due(self, gone: Iterable[str], records_due: Mapping[str, int]) -> dict[str, int]:
        """Return the new due times (ms) of users. `gone` are the users that are deleted. Users may be requested again after this."""
        due = self.put_off | {user_id: self._due.of(user_id, self.users[user_id]) for user_id in self.due_changed if user_id in self.users}
        for user_id in gone:
            due.pop(user_id, None)
            if user_id in records_due:
                due[user_id] = records_due[user_id]
        if due:
            self.next_due = min(self.next_due, *due.values())
        self.due_changed, self.put_off, self._due_requested = set(), {}, False
        return due

    def _count_without_sessions(self, user: User, now: bool) -> None:
        self.without_sessions += now - user.exposures_only
        user.exposures_only = now

    def evict(self, users_max: int) -> None:
        """Drop saved users from memory until `users_max` are left, or for now fewer than 4/3 of that.

        Second-chance order: users are checked from the oldest on. A user that was saved since the last check moves to the end; any other is
        dropped. If all users are checked, they are checked twice. A later call continues.
        """
        users, excess = self.users, len(self.users) - users_max
        if excess <= 0:
            return
        checked = list(islice(users, CHECKED_PER_EVICTION * excess))
        for user_id in 2 * checked if len(checked) == len(users) else checked:
            if user_id in self.dirty or user_id not in users:
                continue
            user = users.pop(user_id)
            if user.recently_saved:
                user.recently_saved = False
                users[user_id] = user
            elif (excess := excess - 1) == 0:
                return

    def drop(self, user_ids: Iterable[str]) -> None:
        """Drop saved users from memory; unsaved ones stay. `user_ids` may be a live view of `users`."""
        for user_id in [user_id for user_id in user_ids if user_id not in self.dirty]:
            self.users.pop(user_id, None)
