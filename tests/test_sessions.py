"""Sessions at their boundaries: before the gap, at the gap, after it, a late bridge; and which list a feedback answers."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from streammetrics.events.model import Impression
from streammetrics.sessions import JoinRules, Session, StoredFeedback, User

RULES = JoinRules(gap_ms=7, attribution_ms=5, session_events_max=4, lists_open_max=2, items_max=3)


def opened(*times: int) -> User:
    user = User()
    for ts in times:
        session, _ = user.session_at(ts, RULES, [])
        assert session is not None
        session.extend(ts)
    return user


def shown(*lists: tuple[str, int, tuple[str, ...]]) -> Session:
    session = Session(0, 100)
    for identity, ts, items in lists:
        session.add_impression(Impression(identity, "u", ts, items), 0, RULES, [])
    return session


def answer(session: Session, ts: int, item: str, identity: str | None = None) -> str:
    """The fate of one feedback."""
    session.feedback.clear()
    session.add_feedback(StoredFeedback(ts, identity, item, "click", 1, 0), RULES.attribution_ms, [])
    ((reason, _),) = fates(session)
    return reason


def fates(session: Session) -> Counter[tuple[str, int]]:
    counts: Counter[tuple[str, int]] = Counter()
    session.count_fates(RULES.attribution_ms, counts)
    return counts


def hits(session: Session, identity: str) -> dict[int, float]:
    return dict(session.lists[identity].hits or {})


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
    assert user.sessions == []


def test_feedback_without_an_id_answers_the_latest_list_at_or_before_it_that_shows_the_item() -> None:
    session = shown(("x", 1, ("a", "b")), ("y", 3, ("a",)), ("z", 3, ("a",)), ("later", 4, ("a",)))
    answer(session, 3, "a")
    assert {identity: hits(session, identity) for identity in session.lists} == {"x": {}, "y": {}, "z": {0: 1}, "later": {}}
    answer(session, 3, "b")
    assert hits(session, "x") == {1: 1}


@pytest.mark.parametrize("order", ["yz", "zy"])
def test_of_two_lists_of_fragments_shown_at_once_feedback_without_an_id_answers_the_greatest_id(order: str) -> None:
    session = Session(0, 100)
    for identity in order:
        session.add_impression(Impression(identity, "u", 3, ("a",), positions=(0,)), 0, RULES, [])
    answer(session, 3, "a")
    assert (hits(session, "y"), hits(session, "z")) == ({}, {0: 1})


@pytest.mark.parametrize(
    ("ts", "item", "identity", "fate"),
    [
        (9, "a", "x", "matched"),
        (10, "a", "x", "too_old"),
        (0, "a", "x", "matched"),
        (3, "a", None, "orphan"),
        (4, "a", None, "matched"),
        (4, "c", None, "out_of_list"),
        (4, "c", "x", "out_of_list"),
        (4, "a", "other", "orphan"),
        (90, "c", "x", "out_of_list"),
    ],
)
def test_the_fate_of_feedback_at_every_boundary(ts: int, item: str, identity: str | None, fate: str) -> None:
    assert answer(shown(("x", 4, ("a", "b"))), ts, item, identity) == fate


def test_an_item_shown_again_earns_its_grade_at_its_first_place() -> None:
    session = shown(("x", 4, ("b", "a", "a")))
    answer(session, 4, "a", "x")
    assert hits(session, "x") == {1: 1}


@pytest.mark.parametrize(
    ("answers", "repeated"), [(((4, 0), (4, 1)), 1), (((4, 1), (4, 0)), 1), (((5, 1), (4, 0)), 1), (((5, 0), (4, 1)), 0)]
)
def test_of_equal_answers_from_two_topics_the_later_one_is_repeated(answers: tuple[tuple[int, int], ...], repeated: int) -> None:
    session = shown(("x", 4, ("a",)))
    for ts, topic in answers:
        session.add_feedback(StoredFeedback(ts, "x", "a", "click", 1, topic), RULES.attribution_ms, [])
    assert fates(session) == {("matched", 0): 1, ("matched", 1): 1, ("repeated", repeated): 1}


def test_fragments_that_together_hold_as_many_items_as_a_list_may_are_that_list() -> None:
    session = Session(0, 100)
    for position, item in enumerate("abc"):
        session.add_impression(Impression("x", "u", 1, (item,), positions=(position,)), 0, RULES, [])
    assert session.lists["x"].items == ("a", "b", "c")
    assert fates(session) == {}


def test_the_team_of_an_item_is_the_one_that_the_first_fragment_says() -> None:
    session = Session(0, 100)
    for ts, items, positions, teams in ((2, ("a", "b"), (0, 1), ("B", "B")), (1, ("a",), (0,), ("A",))):
        session.add_impression(Impression("x", "u", ts, items, positions=positions, teams=teams), 0, RULES, [])
    assert session.lists["x"].facts.teams == ("A", "B")


def test_fragments_that_together_hold_too_many_items_are_no_list_and_are_counted_when_the_session_closes() -> None:
    session = Session(0, 100)
    for position, item in enumerate("abcd"):
        session.add_impression(Impression("x", "u", 1, (item,), positions=(position,)), 0, RULES, [])
    assert session.lists == {}
    assert fates(session) == {("too_many_items", 0): 4}


class Watched(str):
    """An item that counts how often it is looked up."""

    __slots__ = ("looks",)
    looks: int

    def __hash__(self) -> int:
        self.looks = getattr(self, "looks", 0) + 1
        return super().__hash__()

    __eq__ = str.__eq__


@pytest.mark.parametrize("positions", [None, (7,)])
def test_a_copy_costs_no_look_at_the_items_of_other_lists(positions: tuple[int, ...] | None) -> None:
    """A robot's session holds a million of them, and as many copies may come as events: it would stop the task for good."""
    session, item = shown(("x", 0, ("a",)), ("y", 1, ("b",))), Watched("c")
    session.lists["y"].facts = msgspec.structs.replace(session.lists["y"].facts, items=(item,))
    assert answer(session, 5, "a") == "matched"
    looks = item.looks
    session.add_impression(Impression("x" if positions is None else "z", "u", 2, ("a",), positions=positions), 0, RULES, [])
    assert (answer(session, 5, "a"), item.looks) == ("matched", looks)


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
