"""A session: which list feedback belongs to, and the effect of copies and fragments."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from streammetrics.events.model import Impression
from streammetrics.sessions.outcomes import count_outcomes
from streammetrics.sessions.rules import JoinRules
from streammetrics.sessions.session import Session
from streammetrics.sessions.session_record import StoredFeedback
from streammetrics.sessions.shown_list import hits_of

RULES = JoinRules(gap_ms=7, attribution_ms=5, session_events_max=4, lists_open_max=2, items_max=3)


def shown(*lists: tuple[str, int, tuple[str, ...]]) -> Session:
    session = Session(0, 100)
    for identity, ts, items in lists:
        session.add_impression(Impression(identity, "u", ts, items), 0, RULES, [])
    return session


def outcome_of(session: Session, ts: int, item: str, identity: str | None = None, action: str = "click") -> str:
    """Add one feedback and return its outcome."""
    before = outcomes(session)
    session.add_feedback(StoredFeedback(ts, identity, item, action, 1, 0), RULES, [])
    ((reason, _),) = outcomes(session) - before
    return reason


def outcomes(session: Session) -> Counter[tuple[str, int]]:
    counts: Counter[tuple[str, int]] = Counter()
    count_outcomes(session, RULES.attribution_ms, counts)
    return counts


def hits(session: Session, identity: str) -> dict[int, float]:
    return {int(position): grade for position, grade in hits_of(session.lists[identity].hits or ())}


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([("a", 1), ("a", 3), ("a", 2)], {0: 3}),
        ([("c", 1), ("b", 2), ("b", 5), ("a", 2)], {2: 1, 1: 5, 0: 2}),  # a grade is no position, and a position no grade
        ([("b", 0), ("a", 0.5)], {0: 0.5}),
    ],
)
def test_an_item_has_its_greatest_grade(answers: list[tuple[str, float]], expected: dict[int, float]) -> None:
    session = shown(("x", 1, ("a", "b", "c")))
    for item, grade in answers:
        session.add_feedback(StoredFeedback(2, "x", item, "click", grade, 0), RULES, [])
    assert hits(session, "x") == expected
    session.rejoin(RULES, [])
    assert hits(session, "x") == expected


def test_feedback_without_an_id_belongs_to_the_latest_earlier_list_with_the_item() -> None:
    session = shown(("x", 1, ("a", "b")), ("y", 3, ("a",)), ("z", 3, ("a",)), ("later", 4, ("a",)))
    outcome_of(session, 3, "a")
    assert {identity: hits(session, identity) for identity in session.lists} == {"x": {}, "y": {}, "z": {0: 1}, "later": {}}
    outcome_of(session, 3, "b")
    assert hits(session, "x") == {1: 1}


@pytest.mark.parametrize("order", ["yz", "zy"])
def test_of_two_fragment_lists_at_the_same_time_the_greatest_id_gets_the_feedback(order: str) -> None:
    session = Session(0, 100)
    for identity in order:
        session.add_impression(Impression(identity, "u", 3, ("a",), positions=(0,)), 0, RULES, [])
    outcome_of(session, 3, "a")
    assert (hits(session, "y"), hits(session, "z")) == ({}, {0: 1})


@pytest.mark.parametrize(
    ("ts", "item", "identity", "outcome"),
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
def test_the_outcome_of_feedback_at_every_boundary(ts: int, item: str, identity: str | None, outcome: str) -> None:
    assert outcome_of(shown(("x", 4, ("a", "b"))), ts, item, identity) == outcome


def test_a_repeated_item_is_graded_at_its_first_place() -> None:
    session = shown(("x", 4, ("b", "a", "a")))
    outcome_of(session, 4, "a", "x")
    assert hits(session, "x") == {1: 1}


@pytest.mark.parametrize(
    ("answers", "repeated"), [(((4, 0), (4, 1)), 1), (((4, 1), (4, 0)), 1), (((5, 1), (4, 0)), 1), (((5, 0), (4, 1)), 0)]
)
def test_of_equal_feedback_from_two_topics_the_later_one_is_repeated(answers: tuple[tuple[int, int], ...], repeated: int) -> None:
    session = shown(("x", 4, ("a",)))
    for ts, topic in answers:
        session.add_feedback(StoredFeedback(ts, "x", "a", "click", 1, topic), RULES, [])
    assert outcomes(session) == {("matched", 0): 1, ("matched", 1): 1, ("repeated", repeated): 1}


def test_fragments_with_exactly_items_max_items_form_a_list() -> None:
    session = Session(0, 100)
    for position, item in enumerate("abc"):
        session.add_impression(Impression("x", "u", 1, (item,), positions=(position,)), 0, RULES, [])
    assert session.lists["x"].items == ("a", "b", "c")
    assert outcomes(session) == {}


def test_the_team_of_an_item_comes_from_the_first_fragment() -> None:
    session = Session(0, 100)
    for ts, items, positions, teams in ((2, ("a", "b"), (0, 1), ("B", "B")), (1, ("a",), (0,), ("A",))):
        session.add_impression(Impression("x", "u", ts, items, positions=positions, teams=teams), 0, RULES, [])
    assert session.lists["x"].impression.teams == ("A", "B")


def test_fragments_with_too_many_items_form_no_list_and_are_counted() -> None:
    session = Session(0, 100)
    for position, item in enumerate("abcd"):
        session.add_impression(Impression("x", "u", 1, (item,), positions=(position,)), 0, RULES, [])
    assert session.lists == {}
    assert outcomes(session) == {("too_many_items", 0): 4}


class CountingItem(str):
    """An item that counts how often it is hashed."""

    __slots__ = ("lookups",)
    lookups: int

    def __hash__(self) -> int:
        self.lookups = getattr(self, "lookups", 0) + 1
        return super().__hash__()

    __eq__ = str.__eq__


@pytest.mark.parametrize("positions", [None, (7,)])
def test_a_copy_does_not_visit_the_items_of_other_lists(positions: tuple[int, ...] | None) -> None:
    """A robot's session may have a million items and as many copies. Visiting all items per copy would stop the task."""
    session, item = shown(("x", 0, ("a",)), ("y", 1, ("b",))), CountingItem("c")
    session.lists["y"].impression = msgspec.structs.replace(session.lists["y"].impression, items=(item,))
    assert outcome_of(session, 5, "a") == "matched"
    lookups = item.lookups
    session.add_impression(Impression("x" if positions is None else "z", "u", 2, ("a",), positions=positions), 0, RULES, [])
    assert (outcome_of(session, 5, "a", action="watch"), item.lookups) == ("matched", lookups)
