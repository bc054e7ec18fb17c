"""A user's open sessions and exposures: finds, opens, merges and closes sessions.

Sessions are more than a gap apart. An event within the gap of two sessions merges them. Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.sessions.exposures import UserExposures
from streammetrics.sessions.fragments import Duplicates
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.shown_list import ChangedLists


class StoredSize:
    """How a user is stored: the number of pieces after the whole state (-1: none may follow), and the bytes of both.

    `without_sessions`: the stored state has exposures only.
    """

    __slots__ = ("piece_bytes", "pieces", "whole_bytes", "without_sessions")

    def __init__(self) -> None:
        self.pieces, self.whole_bytes, self.piece_bytes = -1, 0, 0
        self.without_sessions = False


class User:
    """One user's open sessions in order of time, and the exposures that may still matter (None: the user never had one).

    `wrong_partition`: the user id does not hash to the partition that its events arrive on. `enrolled_before`: lists before this time
    (ms, a pane start) are already in the totals of their experiments. `recently_saved`: the user was saved since the last eviction
    check. `sampled_from`: start (ms) of the period in which the user was last added to the task's sample of users. `unlabelled_from`: lists
    from this time (ms) on do not have the variants of their exposures yet; FOREVER if there is none. `exposed_before`: exposures before
    this time (ms) are counted in the splits of their experiments.
    """

    __slots__ = (
        "enrolled_before",
        "exposed_before",
        "exposures",
        "recently_saved",
        "sampled_from",
        "sessions",
        "stored",
        "unlabelled_from",
        "wrong_partition",
    )

    def __init__(self, wrong_partition: bool = False, enrolled_before: int = -1, sessions: tuple[Session, ...] = ()) -> None:
        self.sessions = sessions
        self.wrong_partition = wrong_partition
        self.recently_saved = False
        self.stored = StoredSize()
        self.sampled_from = NEVER
        self.enrolled_before = enrolled_before
        self.exposures: UserExposures | None = None
        self.unlabelled_from = FOREVER
        self.exposed_before = 0

    @property
    def is_kept(self) -> bool:
        """Whether anything of the user is stored: an open session, or an exposure."""
        return bool(self.sessions or self.exposures)

    def session_at(self, ts: int, rules: JoinRules, changed: ChangedLists) -> tuple[Session | None, Duplicates | None]:
        """Return the session of an event at `ts`, opened or merged as needed; None if that session is full.

        An event near a full session is refused and merges nothing. Merged sessions may exceed the limit together.
        """
        near = self._near(ts, rules.gap_ms)
        if any(session.size >= rules.session_events_max for session in near):
            return None, None
        if not near:
            session = Session(ts, ts)
            self.sessions = tuple(sorted([*self.sessions, session], key=lambda opened: opened.first))
            return session, None
        if len(near) == 1:
            return near[0], None
        self.sessions = tuple([session for session in self.sessions if session is not near[1]])
        return near[0], near[0].absorb(near[1], rules, changed)

    def may_exceed_lists_max(self, lists_max: int) -> bool:
        """Return whether the user has enough events to exceed the limit of open lists. Cheap: each open list is one event or more."""
        sessions = self.sessions
        if len(sessions) == 1:
            return sessions[0].size >= lists_max
        return sum([session.size for session in sessions]) >= lists_max

    def exceeds_lists_max(self, lists_max: int, impression_id: str, ts: int, gap_ms: int) -> bool:
        """Return whether a new list at `ts` would exceed the limit of open lists. A copy of a list in its session is not a new list.

        Fragments with too many items count as a list while they are kept.
        """
        lists = 0
        for session in self.sessions:
            lists += len(session.lists)
            if session.fragmented:
                lists += len(session.fragmented.keys() - session.lists.keys())
        return lists >= lists_max and not any(
            impression_id in session.lists or impression_id in session.fragmented for session in self._near(ts, gap_ms)
        )

    def fragment_items(self, impression_id: str, ts: int, gap_ms: int) -> int:
        """Return the number of items, repeated ones included, of the fragments that a fragment at `ts` would join."""
        return sum([session.fragment_items(impression_id) for session in self._near(ts, gap_ms) if session.fragmented])

    def _near(self, ts: int, gap_ms: int) -> list[Session]:
        """Return the sessions within a gap of `ts`."""
        return [session for session in self.sessions if session.first - gap_ms <= ts <= session.last + gap_ms]

    def close_before(self, bound: int, gap_ms: int) -> list[Session]:
        """Remove and return the sessions that no admitted event can reach: those with last + gap < bound."""
        closed = [session for session in self.sessions if session.last + gap_ms < bound]
        if closed:
            self.sessions = tuple([session for session in self.sessions if session.last + gap_ms >= bound])
        return closed

    def next_due(self, gap_ms: int) -> int:
        """Return the earliest time at which a session may close. There must be one."""
        return min(session.last for session in self.sessions) + gap_ms
