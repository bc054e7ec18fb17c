"""A session: which list feedback belongs to, and the effect of copies and fragments. Event by event gives what all together give."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.events.model import Feedback, Impression
from streammetrics.metrics.records import PURCHASE_BITS
from streammetrics.sessions.engagement import Engagement
from streammetrics.sessions.item_text import items_of
from streammetrics.sessions.open_sessions import session_at, set_sessions
from streammetrics.sessions.rules import EngagementRules, JoinRules
from streammetrics.sessions.session_events import add_extension, add_feedback, add_list, join_log, log_of, outcomes, relabel, untangle
from streammetrics.sessions.state import (
    KINDS,
    NO_CHANGE,
    OUTCOMES,
    ChangedLists,
    LogFeedback,
    Session,
    ShownList,
    User,
    hits_of,
    pairs_of,
)

RULES = JoinRules(gap_ms=7, attribution_ms=5, session_events_max=4, lists_open_max=2, items_max=3)
Labels = tuple[tuple[str, str], ...]


def sent(session: Session, *events: Impression | LogFeedback, topic: int = 0, rules: JoinRules = RULES) -> Session:
    """Add events to a session, and bring it up to date."""
    for event in events:
        session.size += 1
        if isinstance(event, Impression):
            add_list(session, event, topic, rules, [])
        else:
            add(session, event, rules, [])
    untangle(session, rules, [])
    return session


def add(session: Session, told: LogFeedback, rules: JoinRules, changed: ChangedLists) -> None:
    """Add feedback, told as a log tells it."""
    event = Feedback("u", told.ts, told.item_id, told.action, told.value / (1 << PURCHASE_BITS), told.impression_id)
    add_feedback(session, event, told.grade, told.topic, rules, changed)


def shown(*lists: tuple[str, int, tuple[str, ...]]) -> Session:
    return sent(Session(0, 100), *[Impression(identity, "u", ts, items) for identity, ts, items in lists])


def joined_again(session: Session, rules: JoinRules) -> Session:
    """Return the session that follows from the log alone."""
    again = Session(session.first, session.last, session.size, session.relabels, session.log)
    join_log(again, log_of(session), rules, [])
    return again


def named_outcomes(session: Session) -> dict[tuple[str, int], int]:
    return {(OUTCOMES[at % KINDS], at // KINDS): count for at, count in outcomes(session).items() if count}


def outcome_of(session: Session, ts: int, item: str, identity: str | None = None, action: str = "click") -> str:
    """Add one feedback and return its outcome."""
    before = Counter(named_outcomes(session))
    ((reason, _),) = Counter(named_outcomes(sent(session, LogFeedback(ts, identity, item, action, 1, 0)))) - before
    return reason


def hits(session: Session, identity: str) -> dict[int, float]:
    return {int(place): grade for place, grade in pairs_of(session.lists[identity].hits)}


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
    for number, (item, grade) in enumerate(answers):
        sent(session, LogFeedback(2, "x", item, f"action-{number % 2}", grade, 0))
    assert hits(session, "x") == hits(joined_again(session, RULES), "x") == expected


def test_feedback_without_an_id_belongs_to_the_latest_earlier_list_with_the_item() -> None:
    session = shown(("x", 1, ("a", "b")), ("y", 3, ("a",)), ("z", 3, ("a",)), ("later", 4, ("a",)))
    outcome_of(session, 3, "a")
    assert {identity: hits(session, identity) for identity in session.lists} == {"x": {}, "y": {}, "z": {0: 1}, "later": {}}
    outcome_of(session, 3, "b")
    assert hits(session, "x") == {1: 1}


@pytest.mark.parametrize("order", ["yz", "zy"])
def test_of_two_fragment_lists_at_the_same_time_the_greatest_id_gets_the_feedback(order: str) -> None:
    session = sent(Session(0, 100), *[Impression(identity, "u", 3, ("a",), positions=(0,)) for identity in order])
    outcome_of(session, 3, "a")
    assert (hits(session, "y"), hits(session, "z")) == ({}, {0: 1})


@pytest.mark.parametrize(("older", "outcome"), [((), "out_of_list"), (("a",), "matched")])
def test_feedback_leaves_a_list_whose_whole_copy_never_showed_its_item(older: tuple[str, ...], outcome: str) -> None:
    """The whole copy comes last, is as old as the fragment, and so says what the list showed all the time."""
    rules = replace(RULES, joined_whole_max=0)
    session = sent(Session(0, 100), Impression("older", "u", 1, ("b", *older)), rules=rules)
    page = Impression("x", "u", 3, ("a",), positions=(0,))
    sent(session, page, LogFeedback(4, None, "a", "click", 1, 0), rules=rules)
    assert hits(session, "x") == {0: 1}
    sent(session, Impression("x", "u", 3, ("c",)), rules=rules)
    assert hits(session, "x") == {}
    assert named_outcomes(session)[outcome, 0] == 1
    assert named_outcomes(joined_again(session, RULES)) == named_outcomes(session)


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
    session = shown(("x", 4, ("a", "b")))
    assert outcome_of(session, ts, item, identity) == outcome
    assert named_outcomes(joined_again(session, RULES)) == {(outcome, 0): 1}


def test_a_repeated_item_is_graded_at_its_first_place() -> None:
    session = shown(("x", 4, ("b", "a", "a")))
    outcome_of(session, 4, "a", "x")
    assert hits(session, "x") == {1: 1}


@pytest.mark.parametrize(
    ("answers", "repeated"), [(((4, 0), (4, 1)), 1), (((4, 1), (4, 0)), 1), (((5, 1), (4, 0)), 1), (((5, 0), (4, 1)), 0)]
)
def test_of_equal_feedback_from_two_topics_the_later_one_is_repeated(answers: tuple[tuple[int, int], ...], repeated: int) -> None:
    session = shown(("x", 4, ("a",)))
    sent(session, *[LogFeedback(ts, "x", "a", "click", 1, topic) for ts, topic in answers])
    assert named_outcomes(session) == {("matched", 0): 1, ("matched", 1): 1, ("repeated", repeated): 1}


def test_fragments_with_exactly_items_max_items_form_a_list() -> None:
    session = sent(Session(0, 100), *[Impression("x", "u", 1, (item,), positions=(place,)) for place, item in enumerate("abc")])
    assert items_of(session.lists["x"].text) == ("a", "b", "c")
    assert named_outcomes(session) == {}


def test_the_team_of_an_item_comes_from_the_first_fragment() -> None:
    both = Impression("x", "u", 2, ("a", "b"), positions=(0, 1), teams=("B", "B"))
    session = sent(Session(0, 100), both, Impression("x", "u", 1, ("a",), positions=(0,), teams=("A",)))
    assert session.lists["x"].teams == ("A", "B")


def test_fragments_with_too_many_items_form_no_list_and_are_counted() -> None:
    session = sent(Session(0, 100), *[Impression("x", "u", 1, (item,), positions=(place,)) for place, item in enumerate("abcd")])
    assert session.lists == {}
    assert named_outcomes(session) == {("too_many_items", 0): 4}


@pytest.mark.parametrize("topic", [0, 1])
def test_a_copy_that_is_surely_later_needs_no_join(topic: int) -> None:
    session = shown(("x", 4, ("a",)))
    for ts in (4, 5):
        assert add_list(session, Impression("x", "u", ts, ("a",)), topic, RULES, [])
    assert not session.is_stale
    assert not add_list(session, Impression("x", "u", 3, ("b",)), topic, RULES, [])
    session.size += 3
    assert untangle(session, RULES, []) == {}
    assert named_outcomes(session) == {("list_id_reused", 0): 1}
    assert items_of(session.lists["x"].text) == ("b",)


def test_a_list_with_the_id_of_another_one_is_no_duplicate_but_its_copies_are() -> None:
    session = shown(("x", 4, ("a", "b")))
    duplicates = [
        add_list(session, Impression("x", "u", ts, items), 0, RULES, []) for ts, items in ((5, ("c",)), (6, ("c",)), (7, ("a", "b")))
    ]
    session.size += 3
    assert (duplicates, untangle(session, RULES, [])) == ([False] * 3, {0: 2})
    assert named_outcomes(session) == {("list_id_reused", 0): 1}


@pytest.mark.parametrize(("place", "conflicts"), [(0, {("place_conflict", 0): 1}), (2, {})], ids=["starts again", "follows"])
def test_a_list_with_two_items_at_one_place_is_counted_once(place: int, conflicts: dict[tuple[str, int], int]) -> None:
    pages = [Impression("x", "u", 1, ("b", "c"), positions=(0, 1)), Impression("x", "u", 2, ("a",), positions=(place,))]
    assert named_outcomes(sent(Session(0, 100), *pages)) == conflicts


def test_the_first_reaction_of_each_place_is_kept_and_the_others_count_by_their_grade() -> None:
    assert hits_of(((1, "skip", 0, 0, 0), (1, "click", 1, 0, 0), (0, "skip", 0, 0, 0), (1, "buy", 3, 0, 0))) == (1, 3)


ITEMS, IDS = st.sampled_from("abcdefg"), st.sampled_from("xxxyz")
LABELS = st.sampled_from([(), (("e", "a"),), (("e", "b"),)])


@st.composite
def fragments(draw: st.DrawFn) -> Impression:
    items = draw(st.lists(ITEMS, max_size=2))
    positions = tuple(sorted(draw(st.lists(st.integers(0, 9), min_size=len(items), max_size=len(items), unique=True))))
    teams = draw(st.sampled_from([(), (), (), ("A",) * len(items)]))
    return Impression(draw(IDS), "u", draw(st.integers(0, 9)), tuple(items), draw(LABELS), (), positions, teams)


wholes = st.builds(Impression, IDS, st.just("u"), st.integers(0, 9), st.lists(ITEMS, max_size=3).map(tuple), LABELS)
feedbacks = st.builds(
    LogFeedback,
    st.integers(0, 12),
    st.sampled_from([None, None, "x", "y", "z"]),
    ITEMS,
    st.sampled_from(["click", "purchase"]),
    st.sampled_from([0, 1, 2]),
    st.integers(0, 1),
    st.integers(0, 3),
)
plain = st.lists(wholes | feedbacks | st.sampled_from(["commit", "mark", "label"]), max_size=30)
steps = plain | st.lists(fragments() | fragments() | feedbacks | wholes | st.sampled_from(["commit", "restore", "label"]), max_size=40)
Told = tuple[int, Labels, int, frozenset[tuple[float, float]], Engagement]


def told(
    ts: int, items: tuple[str, ...], experiments: Labels, reactions: tuple[tuple[int, str, float, int, int], ...], engaged: Engagement
) -> Told:
    return ts, experiments, len(items), frozenset(pairs_of(hits_of(reactions))), engaged


def tallied(changed: ChangedLists) -> Counter[Told]:
    """What the next commit adds to the tallies and takes away."""
    change: Counter[Told] = Counter()
    for impression in changed:
        if isinstance(impression.tallied, tuple):
            ts, text, experiments, _, reactions, engaged = impression.tallied
            change[told(ts, items_of(text), experiments, reactions, engaged)] -= 1
        if impression.exists:
            change[told(impression.ts, items_of(impression.text), impression.experiments, impression.reactions, impression.engagement)] += 1
        impression.tallied = NO_CHANGE
    changed.clear()
    return change


def facts(impression: ShownList) -> tuple[object, ...]:
    ts, items, experiments, segments, reactions, engagement = impression.facts()
    return ts, items, experiments, segments, set(reactions), engagement, impression.topic, impression.teams


def state_of(session: Session) -> tuple[object, ...]:
    waiting = {name: Counter(map(repr, reactions)) for name, reactions in session.waiting.items() if reactions}
    lists = [(name, facts(impression)) for name, impression in session.lists.items()]
    return lists, named_outcomes(session), waiting, session.pieces, session.unnamed_last, session.shown_last


@given(steps, st.booleans(), st.sampled_from([None, EngagementRules(reformulation_ms=3)]), st.sampled_from([0, 5, 100]))
def test_event_by_event_gives_what_all_together_give(
    given_steps: list[Impression | LogFeedback | str], absolute: bool, engagement: EngagementRules | None, whole_max: int
) -> None:
    rules = replace(RULES, attribution_ms=6, items_max=5, absolute_positions=absolute, engagement=engagement, joined_whole_max=whole_max)
    session, changed, in_panes, duplicates, marked = Session(0, 12), ChangedLists(), Counter[Told](), 0, 0
    lists = sum(isinstance(step, Impression) for step in given_steps)
    for step in [*given_steps, "commit"]:
        if isinstance(step, Impression):
            session.size += 1
            marked += add_list(session, step, lists % 2, rules, changed)
        elif isinstance(step, LogFeedback):
            session.size += 1
            add(session, step, rules, changed)
        elif step == "mark":
            session.size += 1
            add_extension(session, 5)
        else:
            duplicates += sum(untangle(session, rules, changed).values())
            if step == "label" and session.lists:  # no event at or before a labelled list may follow, so this is the last one
                first = next(iter(session.lists.values()))
                relabel(session, first, (("e", "z"),), (), changed)
                assert state_of(joined_again(session, rules)) == state_of(session)
                return
            in_panes.update(tallied(changed))
            assert {place: count for place, count in in_panes.items() if count} == Counter(
                told(impression.ts, items_of(impression.text), impression.experiments, impression.reactions, impression.engagement)
                for impression in session.lists.values()
            )
            again = joined_again(session, replace(rules, joined_whole_max=100))
            assert state_of(again) == state_of(session)
            assert duplicates == sum(again.duplicates.values())
            if step == "restore":
                for impression in again.lists.values():
                    impression.tallied = NO_CHANGE
                session = again


@given(st.lists(wholes | fragments() | feedbacks, max_size=20), st.data())
def test_the_order_of_arrival_does_not_matter(events: list[Impression | LogFeedback], data: st.DataObject) -> None:
    rules = replace(RULES, attribution_ms=6, items_max=5, engagement=EngagementRules(reformulation_ms=3))
    other = data.draw(st.permutations(events))
    one, two = sent(Session(0, 12), *events, rules=rules), sent(Session(0, 12), *other, rules=rules)
    assert state_of(one)[:3] == state_of(two)[:3]


@given(st.lists(wholes | fragments() | feedbacks, max_size=20), st.integers(0, 12), st.sampled_from([0, 100]))
@example([Impression("x", "u", 1, ("a",))] * 3 + [Impression("x", "u", 0, ("a",), positions=(0,)), Impression("y", "u", 0, ())], 1, 0)
def test_sessions_that_become_one_are_joined_as_one(events: list[Impression | LogFeedback], border: int, whole_max: int) -> None:
    engagement = EngagementRules(reformulation_ms=3)
    rules = replace(
        RULES, attribution_ms=6, items_max=5, gap_ms=100, session_events_max=100, engagement=engagement, joined_whole_max=whole_max
    )
    user, changed = User(), ChangedLists()
    sides = [[event for event in events if (event.ts < border) is first] for first in (True, False)]
    sessions = [sent(Session(*span), *side, rules=rules) for span, side in zip(((-1, border - 1), (border, 12)), sides, strict=True)]
    set_sessions(user, sessions)
    merged = session_at(user, 6, rules, changed)
    assert merged is not None
    add_extension(merged, 6)
    untangle(merged, rules, changed)
    assert (user.only is merged, merged.size) == (True, len(events) + 1)
    everything = sent(Session(0, 12), *events, rules=rules)
    assert state_of(merged)[:3] == state_of(everything)[:3]
    assert not any(
        impression.exists for session in sessions for impression in session.lists.values() if impression not in merged.lists.values()
    )
