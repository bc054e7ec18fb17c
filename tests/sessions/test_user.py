"""Sessions at their boundaries: before the gap, at the gap, after it, a late bridge; and how many lists are open."""

from __future__ import annotations

import pytest

from streammetrics.events.model import Impression
from streammetrics.sessions.session import JoinRules
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
def test_an_event_at_the_gap_belongs_and_one_past_it_does_not(ts: int, sessions: int) -> None:
    assert len(opened(10, ts).sessions) == sessions


def test_an_event_between_two_sessions_bridges_them() -> None:
    user = opened(0, 14)
    assert len(user.sessions) == 2
    session, _ = user.session_at(7, RULES, [])
    assert session is not None
    session.extend(7)
    assert [(one.first, one.last, one.size) for one in user.sessions] == [(0, 14, 3)]


def test_a_full_session_takes_no_more_and_does_not_bridge() -> None:
    user = opened(0, 0, 0, 0)
    assert user.session_at(7, RULES, []) == (None, None)
    assert user.session_at(8, RULES, [])[0] is not None
    assert [session.first for session in user.sessions] == [0, 8]


@pytest.mark.parametrize("times", [(0, 0, 0, 0, 14), (0, 14, 14, 14, 14)])
def test_nothing_bridges_to_a_full_session(times: tuple[int, ...]) -> None:
    user = opened(*times)
    assert user.session_at(7, RULES, []) == (None, None)
    assert [session.first for session in user.sessions] == [0, 14]


def test_a_session_closes_only_one_past_its_gap() -> None:
    user = opened(10)
    assert user.close_before(17, RULES.gap_ms) == []
    assert len(user.close_before(18, RULES.gap_ms)) == 1
    assert user.sessions == ()


def test_an_open_list_may_come_again_where_one_more_list_may_not() -> None:
    user = opened(0)
    for identity in ("x", "y"):
        user.sessions[0].add_impression(Impression(identity, "u", 0, ()), 0, RULES, [])
    assert user.lists_reach(2, "z", 0, RULES.gap_ms)
    assert not user.lists_reach(2, "x", 0, RULES.gap_ms)


def test_an_id_that_comes_again_in_another_session_is_one_more_list() -> None:
    user = opened(0, 2 * RULES.gap_ms)
    for session in user.sessions:
        session.add_impression(Impression("x", "u", session.first, ()), 0, RULES, [])
    assert not user.lists_reach(2, "x", 3 * RULES.gap_ms, RULES.gap_ms)
    assert user.lists_reach(2, "x", 3 * RULES.gap_ms + 1, RULES.gap_ms)
    assert not user.lists_reach(2, "x", -RULES.gap_ms, RULES.gap_ms)
    assert user.lists_reach(2, "x", -RULES.gap_ms - 1, RULES.gap_ms)


def test_a_list_of_too_many_items_counts_as_an_open_list() -> None:
    user = opened(0)
    for position, item in enumerate("abcd"):
        user.sessions[0].add_impression(Impression("x", "u", 0, (item,), positions=(position,)), 0, RULES, [])
    assert user.sessions[0].lists == {}
    assert user.lists_reach(1, "y", 0, RULES.gap_ms)
    assert not user.lists_reach(1, "x", 0, RULES.gap_ms)


def test_who_has_had_fewer_events_than_the_limit_cannot_have_as_many_lists() -> None:
    user = User()
    assert not user.may_reach(1)
    for ts in (0, 0, 10 * RULES.gap_ms):
        session, _ = user.session_at(ts, RULES, [])
        assert session is not None
        session.extend(ts)
    assert user.may_reach(3), "events of all sessions count"
    assert not user.may_reach(4)
