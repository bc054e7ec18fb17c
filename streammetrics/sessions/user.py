"""A user's open sessions: which events belong together, and what may still be touched.

Pure. Sessions are more than a gap apart; an event within the gap of two joins them. Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from streammetrics.sessions.fragments import Duplicates
from streammetrics.sessions.session import ChangedLists, JoinRules, Session


class User:
    """One user's open sessions in order of time. `wrong_partition`: the id does not hash to the partition that it comes on.

    `entered`: the lists before it (ms, the start of a pane) are in the totals of their experiments already. `again`: he was saved since
    somebody last looked for users to let go of.
    """

    __slots__ = ("again", "entered", "sessions", "wrong_partition")

    def __init__(self, wrong_partition: bool = False, entered: int = -1, sessions: tuple[Session, ...] = ()) -> None:
        self.sessions = sessions
        self.wrong_partition = wrong_partition
        self.again = False
        self.entered = entered

    def session_at(self, ts: int, rules: JoinRules, touched: ChangedLists) -> tuple[Session | None, Duplicates | None]:
        """The session that an event at `ts` belongs to, opened or bridged as needed; None when that session is full.

        A full session takes no further event of its neighbourhood, and nothing refused may bridge; sessions that a bridge
        joins may together exceed the limit.
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
        return near[0], near[0].absorb(near[1], rules, touched)

    def may_reach(self, limit: int) -> bool:
        """Whether so many lists may be open, as far as the number of events says: no list is open that was not one of them."""
        sessions = self.sessions
        if len(sessions) == 1:
            return sessions[0].size >= limit
        return sum([session.size for session in sessions]) >= limit

    def lists_reach(self, limit: int, impression_id: str, ts: int, gap_ms: int) -> bool:
        """Whether a list at `ts` would exceed the limit of open lists; another copy of a list of its session is not one more.

        A list of more items than it may hold counts as well, for as long as its copies are kept.
        """
        lists = 0
        for session in self.sessions:
            lists += len(session.lists)
            if session.parts:
                lists += len(session.parts.keys() - session.lists.keys())
        return lists >= limit and not any(
            impression_id in session.lists or impression_id in session.parts for session in self._near(ts, gap_ms)
        )

    def items_held(self, impression_id: str, ts: int, gap_ms: int) -> int:
        """How many items, with those that come again, the fragments hold that a fragment at `ts` would be one more of."""
        known = [session.parts[impression_id] for session in self._near(ts, gap_ms) if impression_id in session.parts]
        return sum(len(fragment.items) for parts in known for fragment in parts.fragments)

    def _near(self, ts: int, gap_ms: int) -> list[Session]:
        """The sessions that an event at `ts` belongs to."""
        return [session for session in self.sessions if session.first - gap_ms <= ts <= session.last + gap_ms]

    def close_before(self, bound: int, gap_ms: int) -> list[Session]:
        """Take out the sessions that no admitted event can touch any more: those with last + gap < bound."""
        closed = [session for session in self.sessions if session.last + gap_ms < bound]
        if closed:
            self.sessions = tuple([session for session in self.sessions if session.last + gap_ms >= bound])
        return closed

    def next_due(self, gap_ms: int) -> int:
        """The earliest time at which one of the open sessions may close."""
        return min(session.last for session in self.sessions) + gap_ms
