"""Tests of admission and limits: rejected events leave nothing behind."""

from __future__ import annotations

from collections.abc import Sequence

from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import SupportRules
from streammetrics.engine.task_state import TaskState
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import MalformedEvent
from streammetrics.events.event_time import NEVER
from streammetrics.events.grades import parse_grades
from streammetrics.events.model import Impression
from streammetrics.metrics import Scorer, TallyLayout
from streammetrics.sessions.item_text import items_of
from streammetrics.sessions.rules import JoinRules
from streammetrics.state.tables import LoadedUsers

GRADES = parse_grades("click=1")
ONE_EVENT = SupportRules(users=1)
LAYOUT = TallyLayout(Scorer(["ndcg@3"]))


def stepped(rules: EngineRules, impressions: Sequence[Impression]) -> tuple[TaskState, list[str]]:
    """Take a batch of lists. Return the state, and for each list the reason why it was rejected, or an empty string."""
    engine = Engine(rules, LAYOUT)
    state = engine.open(None)
    batch = Batch(0, [(offset, -1, (event,)) for offset, event in enumerate(impressions)], len(impressions))
    engine.load(state, engine.needs(state, batch), LoadedUsers({}))
    why = {error.offset: error.reason for error in engine.step(state, batch).refused}
    return state, [why.get(offset, "") for offset in range(len(impressions))]


def taken(rules: EngineRules, lists: Sequence[tuple[str, str, str]]) -> tuple[list[str], list[str], int]:
    """Take lists of (user, experiment, variant). Return why each was rejected, the kept experiments, and the dropped variants."""
    impressions = [
        Impression(f"r{ts}", user, ts, ("a",), ((experiment, variant),) if experiment else ())
        for ts, (user, experiment, variant) in enumerate(lists)
    ]
    state, why = stepped(rules, impressions)
    return why, sorted(group.experiment for group, *_ in state.labels.stored().groups), state.progress.counts["too_many_variants", 0]


def test_rejected_lists_do_not_use_up_groups() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, groups_max=3, join=JoinRules(lists_open_max=1))
    bot = [("bot", f"e{number}", "a") for number in range(5)]
    assert taken(rules, [*bot, ("u", "real", "a")]) == (["", *["too_many_lists"] * 4, ""], ["", "e0", "real"], 0)
    assert taken(rules, [*bot, ("u", "real", "a"), ("v", "next", "a")])[1:] == (["", "e0", "real"], 1)


def test_lists_of_full_sessions_do_not_use_up_groups() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, groups_max=3, join=JoinRules(session_events_max=1))
    bot = [("bot", f"e{number}", "a") for number in range(5)]
    assert taken(rules, [*bot, ("u", "real", "a"), ("v", "next", "a")])[1:] == (["", "e0", "real"], 1)


def test_a_list_loses_the_variant_that_is_too_many_and_stays() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, groups_max=3, experiments=ExperimentRules(variants_max=1))
    why, experiments, dropped = taken(rules, [("u", "e", "a"), ("u", "e", "b"), ("u", "f", "c"), ("u", "", "")])
    assert (why, experiments, dropped) == ([""] * 4, ["", "e"], 2)


def test_of_variants_without_room_the_first_by_experiment_stays() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, experiments=ExperimentRules(variants_max=2))
    both = (("e", "a"), ("f", "a"), ("g", "a"))
    state, why = stepped(rules, [Impression(f"r{ts}", "u", ts, ("a",), labels) for ts, labels in enumerate((both, both[1:], both[2:]))])
    assert why == ["", "", ""]
    assert [impression.experiments for impression in state.sessions.users["u"].sessions[0].lists.values()] == [both[:2], both[1:2], ()]
    assert state.progress.counts["too_many_variants", 0] == 3


def test_dropped_labels_are_counted_for_lists_that_are_used() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, join=JoinRules(lists_open_max=1))
    impressions = [Impression(f"r{ts}", "u", ts, ("a",), label_notes=("label_empty", "label_empty")) for ts in range(2)]
    state, why = stepped(rules, impressions)
    assert why == ["", "too_many_lists"]
    assert state.progress.counts["label_empty", 0] == 2


def test_a_session_closed_by_a_limit_check_is_saved_even_if_the_list_is_rejected() -> None:
    join = JoinRules(lists_open_max=1, items_max=1, gap_ms=5)
    rules = EngineRules(topics=("i",), grades=GRADES, join=join, lateness_ms=0, out_of_orderness_ms=0, support=ONE_EVENT)
    engine = Engine(rules, LAYOUT)
    state = engine.open(None)
    results = []
    for ts, items in ((0, 1), (100, 11)):
        event = Impression(f"r{ts}", "u", ts, tuple(f"i{number}" for number in range(items)), positions=tuple(range(items)))
        batch = Batch(0, [(ts, -1, (event,))], ts + 1)
        engine.load(state, engine.needs(state, batch), LoadedUsers({}))
        refused = [error.reason for error in engine.step(state, batch).refused]
        engine.load(state, engine.needs(state, None), LoadedUsers({}))
        changes = engine.save(state).changes
        results.append((refused, [*changes.users], [*changes.users_gone]))
    assert results == [([], ["u"], []), (["too_many_items"], [], ["u"])]
    assert state.sessions.users == {}


def test_fragments_of_one_list_hold_at_most_ten_times_the_item_limit() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, join=JoinRules(items_max=2, gap_ms=100))
    impressions = [Impression("x", "u", ts, ("a", f"i{ts}"), positions=(0, ts + 1)) for ts in range(12)]
    state, why = stepped(
        rules, [*impressions, Impression("y", "u", 12, ("a",), positions=(0,)), Impression("x", "u", 200, ("a",), positions=(0,))]
    )
    assert why == [*[""] * 10, "too_many_items", "too_many_items", "", ""]
    (session, _) = state.sessions.users["u"].sessions
    assert (session.size, session.pieces["x"]) == (11, 20)  # rejected events extend nothing


def test_a_whole_list_is_accepted_when_its_fragments_are_full() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES, join=JoinRules(items_max=2))
    impressions = [Impression("x", "u", ts, ("a", f"i{ts}"), positions=(0, ts + 1)) for ts in range(11)]
    state, why = stepped(rules, [*impressions, Impression("x", "u", 20, ("a", "b"))])
    assert why == [*[""] * 10, "too_many_items", ""]
    state.sessions.take_changed(NEVER)
    assert items_of(state.sessions.users["u"].sessions[0].lists["x"].text) == ("a", "b")


def test_malformed_and_future_events_do_not_count_as_timed() -> None:
    rules = EngineRules(
        topics=("i",), grades=GRADES, join=JoinRules(items_max=1), lateness_ms=0, out_of_orderness_ms=0, future_ms=5, support=ONE_EVENT
    )
    engine = Engine(rules, LAYOUT)
    state = engine.open(None)

    def fragment(ts: int, *items: str) -> Impression:
        return Impression("x", "u", ts, items, positions=tuple(range(len(items))))

    def timed(*events: Impression | MalformedEvent) -> tuple[list[str], int]:
        batch = Batch(0, [(0, 100, events)], 1)
        engine.load(state, engine.needs(state, batch), LoadedUsers({}))
        result = engine.step(state, batch)
        return [error.reason for error in result.refused], result.timed

    assert timed(MalformedEvent("bad_id", ""), fragment(106, "a")) == (["bad_id", "future"], 0)
    assert timed(fragment(105, "a"), fragment(106, "a")) == (["future"], 1)
    assert timed(fragment(104, "a"), fragment(105, *"abcdefghijk")) == (["late", "too_many_items"], 2)
    assert timed() == ([], 0)


def test_ignored_records_are_counted_and_neither_refused_nor_timed() -> None:
    engine = Engine(EngineRules(topics=("i",), grades=GRADES), LAYOUT)
    state = engine.open(None)
    batch = Batch(0, [(number, -1, (MalformedEvent("ignored", f"page {number % 30}"),)) for number in range(40)], 40)
    engine.load(state, engine.needs(state, batch), LoadedUsers({}))
    result = engine.step(state, batch)
    assert (result.refused, result.timed) == ([], 0)
    assert dict(state.progress.counts) == {("events", 0): 40, ("ignored", 0): 40}
    reasons = {name: count for kind, name, count in state.unknown_names.stored() if kind == "ignored"}
    assert (len(reasons), reasons["page 0"], reasons["page 19"], reasons[""]) == (21, 2, 1, 10)


def test_events_of_a_calm_input_show_that_it_goes_on_and_wrong_clocks_do_not() -> None:
    rules = EngineRules(topics=("i",), grades=GRADES)
    engine = Engine(rules, LAYOUT)
    state, timed = engine.open(None), []
    calm = [(f"u{number % 50}", 15_000 * number) for number in range(100)]
    for offset, (user, ts) in enumerate([*calm, ("fast", calm[-1][1] + 200_000)]):
        batch = Batch(0, [(offset, -1, (Impression(f"r{offset}", user, ts, ("a",)),))], offset + 1)
        engine.load(state, engine.needs(state, batch), LoadedUsers({}))
        timed.append(engine.step(state, batch).timed)
    assert timed == [0] * 14 + [1] * 86 + [0]
