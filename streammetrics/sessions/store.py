"""The users of a task that are in memory, with their open sessions; and when each of them is due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, TypedDict

from streammetrics.engine.control import Control
from streammetrics.engine.list_labels import ListLabels
from streammetrics.engine.rules import EngineRules
from streammetrics.enrolment.reducer import Enrolments
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Impression
from streammetrics.sessions.open_sessions import close_before, next_close
from streammetrics.sessions.session_events import lists_from, outcomes, untangle
from streammetrics.sessions.state import KINDS, MATCHED, OUTCOMES, UNMATCHED, ChangedLists, Session, User
from streammetrics.sessions.turns import EnrolmentTurns
from streammetrics.sessions.user_codec import decode_user, save_user
from streammetrics.state.tables import StatePiece

CHECKED_PER_EVICTION: Final = 4
"""How many users `evict` checks for each one that is too many. This bounds the time of a call, even if all users were saved lately. Fewer
than a third more users than allowed stay, because beyond that every user is checked."""

FindMisplaced: TypeAlias = Callable[[Sequence[str]], AbstractSet[str]]
"""Returns those of some users whose events belong on another partition."""


class SessionChanges(NamedTuple):
    """What a commit writes of users: those with open sessions, when (event time, ms) users are due, and those without sessions.

    `pieces` are appended to the states of users, and `pieces_gone` of these are deleted.
    """

    users: dict[str, bytes]
    pieces: dict[str, StatePiece]
    pieces_gone: dict[str, int]
    due: dict[str, int]
    gone: list[str]


class StoredSessions(TypedDict):
    """The fields of a task's control record that `SessionStore` owns."""

    sessions_open: int
    users_without_sessions: int


class SessionStore:
    """Users in memory. A user is due when a session may close, a list may get its variants or be enrolled, or the last exposure expires.

    `users` includes users without sessions and exposures until they are saved. `dirty` are the users that the next commit writes.
    `changed` are the lists that changed since the last commit, which tallies them.
    `due_changed` are the users that need a new due time. `put_off` are users that need nothing before a later due time (ms). No stored
    user is due before `next_due` (ms). `open` is the number of open sessions of all users of the task, in memory or not.
    `without_sessions` is the number of its stored users that have exposures only.
    """

    __slots__ = (
        "_counts",
        "_due_requested",
        "_enrolments",
        "_has_exposures",
        "_list_labels",
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

    def __init__(self, rules: EngineRules, enrolments: Enrolments, list_labels: ListLabels, counts: Counter[tuple[str, int]]) -> None:
        self._rules, self._enrolments, self._list_labels, self._counts = rules, enrolments, list_labels, counts
        self.turns = EnrolmentTurns(rules)
        self._has_exposures = rules.join.exposures is not None
        self._due_requested = False
        self.users: dict[str, User] = {}
        self.dirty: dict[str, User] = {}
        self.changed: ChangedLists = []
        self.due_changed: set[str] = set()
        self.put_off: dict[str, int] = {}
        self.next_due = NEVER
        self.open = self.without_sessions = 0

    def restore(self, stored: Control) -> None:
        """Continue from the last commit. Users are loaded when they are needed."""
        self.open, self.without_sessions = stored.sessions_open, stored.users_without_sessions

    def stored(self) -> StoredSessions:
        """Return the part of the control record that the next commit writes."""
        return {"sessions_open": self.open, "users_without_sessions": self.without_sessions}

    def missing(self, user_ids: set[str]) -> set[str]:
        """Return those of the users that are not in memory."""
        return user_ids.difference(self.users)

    def due_before(self, bound: int) -> int | None:
        """Return the bound (ms) if users that are due before it should be loaded: at most once between two commits."""
        return bound if bound > self.next_due and not self._due_requested and bound > NEVER else None

    def load(self, user_ids: Iterable[str], stored: Mapping[str, bytes], misplaced: FindMisplaced | None) -> None:
        """Decode users into memory. Those in memory are newer than the store and stay."""
        new = [user_id for user_id in user_ids if user_id not in self.users]
        on_wrong_partition = misplaced(new) if misplaced is not None and new else frozenset()
        for user_id in new:
            wrong = user_id in on_wrong_partition
            known = stored.get(user_id)
            self.users[user_id] = User(wrong) if known is None else decode_user(known, self._rules.join, wrong)

    def note_due(self, next_due_ms: int | None) -> None:
        """Note that the due users were loaded. `next_due_ms` is when the next one is due, None if there is no other."""
        self._due_requested = True
        self.next_due = FOREVER if next_due_ms is None else next_due_ms

    def close_due(self, due: Iterable[str], bound: int) -> None:
        """Label the lists of users that are due, close their ended sessions, and pass on those of their lists that can be enrolled.

        A session's end moves with each event, and the stored due time does not. A user who needs nothing yet only gets a new due time.
        """
        for user_id in due:
            user = self.users[user_id]
            self._untangle(user.sessions)
            if (later := self._later_due(user_id, user, bound)) is not None:
                self.put_off[user_id] = later
                self._enrolments.forget_record(user_id)
                continue
            self.due_changed.add(user_id)
            if user.exposures is not None:
                self._enrolments.add_exposures(user_id, user, bound)
            self.close_ended(user_id, user, bound)
            self._enrolments.add_open_sessions(user_id, user, bound)

    def _later_due(self, user_id: str, user: User, bound: int) -> int | None:
        """Return when (ms) a user is due if that is not before `bound`; None if the user needs something now, or may."""
        if self._has_exposures or not user.sessions or next_close(user, self._rules.join.gap_ms) < bound:
            return None
        due = self._due_of(user_id, user)
        return due if due >= bound else None

    def note_list(self, user: User, event: Impression, closed_before: int, users_counted_from: int) -> None:
        """Make sure that a user is due in time for a list that is enrolled before its session can close.

        A user is due when the turn of the first list that is not enrolled is final. An older list of an open turn has set that time
        already, if it counts. Nothing is needed if the session can close first. Its stored due time is early enough then, because a
        session's end only moves later.
        """
        final = self.turns.final(event.user_id, closed_before)
        counted_from = max(self._enrolments.counted_from, users_counted_from)  # older lists set no due time
        for session in user.sessions:
            for shown in reversed(session.lists.values()):
                if (
                    shown.ts <= event.ts
                    and self._rules.counts_users(shown.experiments)
                    and shown.impression_id != event.impression_id
                    and shown.ts >= counted_from
                    and shown.ts >= final
                ):
                    return
        self.due_changed.add(event.user_id)

    def close_ended(self, user_id: str, user: User, bound: int) -> None:
        """Close those sessions of a user that no event can extend any more, and pass their lists on to enrolment.

        This is the only place where sessions close. No event before `bound` (ms) is admitted any more.
        """
        self.dirty[user_id] = user
        if self._has_exposures:
            self.label(user, bound)
        closed = close_before(user, bound, self._rules.join.gap_ms)
        self._untangle(closed)
        for session in closed:
            self.open -= 1
            matched, unmatched = self._count_outcomes(session)
            if self._has_exposures:
                self._list_labels.count_exposed(session.lists.values())
            self._enrolments.add_session(user_id, user, session, matched, unmatched)

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
                for topic, count in untangle(session, self._rules.join, self.changed).items():
                    self._counts["duplicate", topic] += count

    def label(self, user: User, bound: int) -> None:
        """Label the lists of a user before `bound` (ms)."""
        self._untangle(user.sessions)
        self._list_labels.label(user, bound, self.changed)

    def take_changed(self, bound: int) -> ChangedLists:
        """Bring all sessions up to date, label their lists before `bound` (ms), and return the lists that changed since the last commit."""
        for user_id, user in self.dirty.items():
            self._untangle(user.sessions)
            if user.unlabelled_from < bound:
                self._list_labels.label(user, bound, self.changed)
                self.due_changed.add(user_id)
        if self._has_exposures:
            self._list_labels.advance(bound, self.next_due)
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
        known = ((user_id, self.dirty.get(user_id)) for user_id in self.due_changed.union(enrolled))
        ended = {user_id: user for user_id, user in known if user is not None and not user.is_kept}
        for user_id in ended:
            del self.dirty[user_id]
        return ended

    def _take_due(self, gone: Iterable[str], records_due: Mapping[str, int]) -> dict[str, int]:
        """Return the new due times (ms) of users. `gone` are the users that are deleted. Users may be requested again after this."""
        due = self.put_off | {user_id: self._due_of(user_id, self.users[user_id]) for user_id in self.due_changed if user_id in self.users}
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

    def _due_of(self, user_id: str, user: User) -> int:
        """When (ms) a user is due.

        The first list without its variants may get them, the first session may have ended, or the turn of the first list that is not
        enrolled is final. Without sessions, the last exposure has expired.
        """
        if not user.sessions:
            return min(self._list_labels.due(user), self._list_labels.expires(user))
        due = min(self._list_labels.due(user), next_close(user, self._rules.join.gap_ms))
        if not self._rules.users_counted:
            return due
        if self.turns.due(user_id, max(user.sessions[0].first, user.enrolled_before)) >= due:  # no list can be due before the session
            return due
        lists = [shown for session in user.sessions for shown in lists_from(session, user.enrolled_before)]
        if self._rules.unique_users is None:
            lists = [shown for shown in lists if self._rules.counts_users(shown.experiments)]
        if not lists:
            return due
        return min(due, self.turns.due(user_id, min([shown.ts for shown in lists])))

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
