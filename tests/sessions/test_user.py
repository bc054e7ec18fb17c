"""A user's sessions: before, at and after the gap, merged sessions, and the limit of open lists."""

from __future__ import annotations

import pytest

from streammetrics.events.model import Impression
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.user import User

RULES = JoinRules(gap_ms=7, attribution_ms=5, session_events_max=4, lists_open_max=2, items_max=3)


def opened(*times: int) -> User:
    user = User()
    for ts in times:
        session, _ = user.session_at(ts, RULES, [])
        assert session is not None
        session.extend(ts)
    return user


@pytest.mark.parametrize(("ts", "sessions"), [(16, 1), (17, 1), (18, 2), (3, 1), (2, 2)])
def test_the_gap_is_inclusive(ts: int, sessions: int) -> None:
    assert len(opened(10, ts).sessions) == sessions


def test_an_event_between_two_sessions_merges_them() -> None:
    user = opened(0, 14)
    assert len(user.sessions) == 2
    session, _ = user.session_at(7, RULES, [])
    assert session is not None
    session.extend(7)
    assert [(one.first, one.last, one.size) for one in user.sessions] == [(0, 14, 3)]


def test_a_full_session_refuses_events_and_is_not_merged() -> None:
    user = opened(0, 0, 0, 0)
    assert user.session_at(7, RULES, []) == (None, None)
    assert user.session_at(8, RULES, [])[0] is not None
    assert [session.first for session in user.sessions] == [0, 8]


@pytest.mark.parametrize("times", [(0, 0, 0, 0, 14), (0, 14, 14, 14, 14)])
def test_no_event_merges_a_full_session_with_another(times: tuple[int, ...]) -> None:
    user = opened(*times)
    assert user.session_at(7, RULES, []) == (None, None)
    assert [session.first for session in user.sessions] == [0, 14]


def test_a_session_closes_one_millisecond_after_its_gap() -> None:
    user = opened(10)
    assert user.close_before(17, RULES.gap_ms) == []
    assert len(user.close_before(18, RULES.gap_ms)) == 1
    assert user.sessions == ()


def test_a_copy_of_an_open_list_does_not_exceed_the_limit() -> None:
    user = opened(0)
    for identity in ("x", "y"):
        user.sessions[0].add_impression(Impression(identity, "u", 0, ()), 0, RULES, [])
    assert user.exceeds_lists_max(2, "z", 0, RULES.gap_ms)
    assert not user.exceeds_lists_max(2, "x", 0, RULES.gap_ms)


def test_the_same_id_in_another_session_is_a_new_list() -> None:
    user = opened(0, 2 * RULES.gap_ms)
    for session in user.sessions:
        session.add_impression(Impression("x", "u", session.first, ()), 0, RULES, [])
    assert not user.exceeds_lists_max(2, "x", 3 * RULES.gap_ms, RULES.gap_ms)
    assert user.exceeds_lists_max(2, "x", 3 * RULES.gap_ms + 1, RULES.gap_ms)
    assert not user.exceeds_lists_max(2, "x", -RULES.gap_ms, RULES.gap_ms)
    assert user.exceeds_lists_max(2, "x", -RULES.gap_ms - 1, RULES.gap_ms)


def test_a_list_with_too_many_items_counts_as_open() -> None:
    user = opened(0)
    for position, item in enumerate("abcd"):
        user.sessions[0].add_impression(Impression("x", "u", 0, (item,), positions=(position,)), 0, RULES, [])
    assert user.sessions[0].lists == {}
    assert user.exceeds_lists_max(1, "y", 0, RULES.gap_ms)
    assert not user.exceeds_lists_max(1, "x", 0, RULES.gap_ms)


def test_a_user_with_fewer_events_than_the_limit_cannot_exceed_it() -> None:
    user = User()
    assert not user.may_exceed_lists_max(1)
    for ts in (0, 0, 10 * RULES.gap_ms):
        session, _ = user.session_at(ts, RULES, [])
        assert session is not None
        session.extend(ts)
    assert user.may_exceed_lists_max(3), "events of all sessions count"
    assert not user.may_exceed_lists_max(4)
