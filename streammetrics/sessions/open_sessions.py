"""The open sessions of a user: finds, opens, merges and closes them. Sessions are more than a gap apart.

An event within the gap of two sessions merges them. Times are event times in epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from streammetrics.sessions.join_rules import add
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session_events import log_of, remove_list
from streammetrics.sessions.state import ChangedLists, Session, User

KeyT = TypeVar("KeyT", bound=Hashable)


def near(user: User, ts: int, gap_ms: int) -> list[Session]:
    """Return the sessions within a gap of `ts`."""
    only = user.only
    if only is not None:  # most users
        return [only] if only.first - gap_ms <= ts <= only.last + gap_ms else []
    return [session for session in user.sessions if session.first - gap_ms <= ts <= session.last + gap_ms]


def set_sessions(user: User, sessions: list[Session]) -> None:
    """Replace the sessions of a user."""
    user.sessions = sessions
    user.only = sessions[0] if len(sessions) == 1 else None


def session_at(user: User, ts: int, rules: JoinRules, changed: ChangedLists) -> Session | None:
    """Return the session that an event at `ts` extends, opened or merged as needed; None if that session is full.

    An event near a full session is refused and merges nothing. Merged sessions may exceed the limit together.
    """
    sessions = near(user, ts, rules.gap_ms) if user.sessions else ()
    if not sessions:
        session = Session(ts, ts, 1)
        set_sessions(user, sorted([*user.sessions, session], key=_first) if user.sessions else [session])
        return session
    if any(session.size >= rules.session_events_max for session in sessions):
        return None
    session = sessions[0]
    if len(sessions) > 1:
        session, other = sessions if session.size >= sessions[1].size else reversed(sessions)
        _merge(session, other, changed)
        set_sessions(user, [session for session in user.sessions if session is not other])
    session.size += 1
    if ts < session.first:
        session.first = ts
    elif ts > session.last:
        session.last = ts
    return session


def _first(session: Session) -> int:
    return session.first


def _merge(session: Session, other: Session, changed: ChangedLists) -> None:
    """Add a shorter session to this one: their logs are one log."""
    if session.joined is not None:
        add(session.joined, log_of(other))
    early, late = (session, other) if session.first < other.first else (other, session)
    lists = session.lists
    if early is other:  # a list that both have stands where this session has it, so that all are in order of time
        lists = {name: shown_list for name, shown_list in early.lists.items() if name not in late.lists} | late.lists
    for name, shown_list in other.lists.items():
        if (kept := session.lists.get(name, shown_list)) is not shown_list:
            remove_list(shown_list, changed)
        lists[name] = kept
    session.lists, session.shown_last, session.older = lists, max(session.shown_last, other.shown_last), early.older
    session.first, session.last, session.size = early.first, max(session.last, other.last), session.size + other.size
    session.relabels += other.relabels
    stored, more = session.log[: session.saved_bytes], session.log[session.saved_bytes :]
    session.log = stored + other.log[: other.saved_bytes] + more + other.log[other.saved_bytes :]
    session.saved_bytes += other.saved_bytes
    session.saved_entries += other.saved_entries
    session.unnamed_last = max(session.unnamed_last, other.unnamed_last)
    session.duplicates, session.pieces = _sums(session.duplicates, other.duplicates), _sums(session.pieces, other.pieces)
    session.is_stale = True


def _sums(one: Mapping[KeyT, int], other: Mapping[KeyT, int]) -> dict[KeyT, int]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in [*one, *other]}


def close_before(user: User, bound: int, gap_ms: int) -> list[Session]:
    """Remove and return the sessions that no admitted event can reach: those with last + gap < bound."""
    closed = [session for session in user.sessions if session.last + gap_ms < bound]
    if closed:
        open_sessions = (
            [] if len(closed) == len(user.sessions) else [session for session in user.sessions if session.last + gap_ms >= bound]
        )
        set_sessions(user, open_sessions)
        user.rewrite |= any(session.saved_entries for session in closed)
    return closed


def next_close(user: User, gap_ms: int) -> int:
    """Return the earliest time at which a session may close. There must be one."""
    only = user.only
    return (only.last if only is not None else min([session.last for session in user.sessions])) + gap_ms


def may_exceed_lists_max(user: User, lists_max: int) -> bool:
    """Return whether the user has enough events to exceed the limit of open lists. Cheap: each open list is one event or more."""
    only = user.only
    return (only.size if only is not None else sum([session.size for session in user.sessions])) >= lists_max


def exceeds_lists_max(user: User, lists_max: int, impression_id: str, ts: int, gap_ms: int) -> bool:
    """Return whether a new list at `ts` would exceed the limit of open lists. A copy of a list in its session is not a new list.

    Fragments with too many items count as a list while they are kept.
    """
    lists = sum([len(session.lists) + sum([name not in session.lists for name in session.pieces]) for session in user.sessions])
    return lists >= lists_max and not any(
        impression_id in session.lists or impression_id in session.pieces for session in near(user, ts, gap_ms)
    )


def fragment_items(user: User, impression_id: str, ts: int, gap_ms: int) -> int:
    """Return the number of items, repeated ones included, of the fragments that a fragment at `ts` would join."""
    return sum([session.pieces.get(impression_id, 0) for session in near(user, ts, gap_ms)])
