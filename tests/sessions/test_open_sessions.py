"""A user's sessions: when they open, merge and close, and the limits of a user."""

from __future__ import annotations

import pytest

from streammetrics.events.model import Impression
from streammetrics.sessions.open_sessions import (
    close_before,
    exceeds_lists_max,
    fragment_items,
    may_exceed_lists_max,
    session_at,
)
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session_events import add_list, untangle
from streammetrics.sessions.state import Session, User

RULES = JoinRules(gap_ms=7, attribution_ms=5, session_events_max=4, lists_open_max=2, items_max=3)


def opened(*times: int) -> User:
    user = User()
    for ts in times:
        assert session_at(user, ts, RULES, []) is not None
    return user


def sizes(user: User) -> list[tuple[int, int, int]]:
    return [(one.first, one.last, one.size) for one in user.sessions]


@pytest.mark.parametrize(("ts", "sessions"), [(16, 1), (17, 1), (18, 2), (3, 1), (2, 2)])
def test_the_gap_is_inclusive(ts: int, sessions: int) -> None:
    user = opened(10, ts)
    assert len(user.sessions) == sessions
    assert (user.only is not None) == (sessions == 1)


def test_an_event_between_two_sessions_merges_them() -> None:
    user = opened(0, 14)
    assert (len(user.sessions), user.only) == (2, None)
    session = session_at(user, 7, RULES, [])
    assert sizes(user) == [(0, 14, 3)]
    assert user.only is session


def test_what_is_stored_of_two_sessions_stays_in_front_when_they_merge() -> None:
    user = opened(0, 14)
    for session, log in zip(user.sessions, (b"Aa", b"Bb"), strict=True):
        session.log, session.saved_bytes, session.saved_entries = bytearray(log), 1, 1
    session = session_at(user, 7, RULES, [])
    assert session is not None
    assert (session.log, session.saved_bytes, session.saved_entries) == (b"ABab", 2, 2)


def test_a_full_session_refuses_events_and_is_not_merged() -> None:
    user = opened(0, 0, 0, 0)
    assert session_at(user, 7, RULES, []) is None
    assert session_at(user, 8, RULES, []) is not None
    assert [session.first for session in user.sessions] == [0, 8]


@pytest.mark.parametrize("times", [(0, 0, 0, 0, 14), (0, 14, 14, 14, 14)])
def test_no_event_merges_a_full_session_with_another(times: tuple[int, ...]) -> None:
    user = opened(*times)
    assert session_at(user, 7, RULES, []) is None
    assert [session.first for session in user.sessions] == [0, 14]


def test_a_session_closes_one_millisecond_after_its_gap() -> None:
    user = opened(10)
    assert close_before(user, 17, RULES.gap_ms) == []
    assert len(close_before(user, 18, RULES.gap_ms)) == 1
    assert (user.sessions, user.only, user.rewrite) == ([], None, False)


def test_a_user_is_written_again_once_a_stored_session_has_closed() -> None:
    user = opened(0, 10)
    user.sessions[0].saved_entries = 1
    close_before(user, 9, RULES.gap_ms)
    assert user.rewrite
    assert user.only is user.sessions[0]


def add(session: Session, identity: str, ts: int, *items: str) -> None:
    add_list(session, Impression(identity, "u", ts, items, positions=tuple(range(len(items))) if items else None), 0, RULES, [])


def test_a_copy_of_an_open_list_does_not_exceed_the_limit() -> None:
    user = opened(0)
    for identity in ("x", "y"):
        add(user.sessions[0], identity, 0)
    assert exceeds_lists_max(user, 2, "z", 0, RULES.gap_ms)
    assert not exceeds_lists_max(user, 2, "x", 0, RULES.gap_ms)


def test_lists_of_a_stale_session_count_before_they_are_joined() -> None:
    user = opened(0)
    for identity in ("x", "y"):
        add(user.sessions[0], identity, 0, "a")
    add(user.sessions[0], "z", 0)
    assert user.sessions[0].is_stale
    assert exceeds_lists_max(user, 3, "other", 0, RULES.gap_ms)
    assert not exceeds_lists_max(user, 4, "other", 0, RULES.gap_ms)
    assert not exceeds_lists_max(user, 3, "z", 0, RULES.gap_ms)


def test_the_same_id_in_another_session_is_a_new_list() -> None:
    user = opened(0, 2 * RULES.gap_ms)
    for session in user.sessions:
        add(session, "x", session.first)
    assert not exceeds_lists_max(user, 2, "x", 3 * RULES.gap_ms, RULES.gap_ms)
    assert exceeds_lists_max(user, 2, "x", 3 * RULES.gap_ms + 1, RULES.gap_ms)
    assert not exceeds_lists_max(user, 2, "x", -RULES.gap_ms, RULES.gap_ms)
    assert exceeds_lists_max(user, 2, "x", -RULES.gap_ms - 1, RULES.gap_ms)


def test_a_list_with_too_many_items_counts_as_open() -> None:
    user = opened(0, 0, 0, 0)
    for item in "abcd":
        add(user.sessions[0], "x", 0, item)
    untangle(user.sessions[0], RULES, [])
    assert fragment_items(user, "x", 0, RULES.gap_ms) == 4
    assert exceeds_lists_max(user, 1, "y", 0, RULES.gap_ms)
    assert not exceeds_lists_max(user, 1, "x", 0, RULES.gap_ms)


def test_a_user_with_fewer_events_than_the_limit_cannot_exceed_it() -> None:
    assert not may_exceed_lists_max(User(), 1)
    user = opened(0, 0, 10 * RULES.gap_ms)
    assert may_exceed_lists_max(user, 3), "events of all sessions count"
    assert not may_exceed_lists_max(user, 4)
