"""The engine against brute force: the stored integers are equal for any order of arrival, any batches and any crashes."""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.engine.engine import Engine
from streammetrics.engine.task_state import TaskState
from streammetrics.enrolment.reducer import Enrolments
from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.errors import StateError
from streammetrics.events.model import Exposure, Feedback, Impression
from streammetrics.sessions.open_sessions import session_at
from streammetrics.sessions.state import User
from streammetrics.sessions.user_sessions import UserSessions
from streammetrics.windows.pane_tallies import PaneTallies
from tests.oracle import Arrival, Group, Settings, Tick
from tests.support.brute_force import assert_equals_brute_force, expected, grades_text, machine_for
from tests.support.machine import Machine, counts_of, engine_of
from tests.support.strategies import Case, batches, cases, interleavings, tiny_session_cases

PARTS_OF_A_STATE = (TaskState, UserSessions, PaneTallies, Enrolments)
EVICTED = st.sampled_from([[], ["u"], ["v"], ["u", "v"]])


@given(cases(), st.booleans())
def test_one_batch_equals_brute_force(case: Case, flush: bool) -> None:
    machine = machine_for(case)
    machine.run(case.steps, flush)
    assert_equals_brute_force(machine, case, flush=flush)


@given(st.data(), cases(), st.booleans())
def test_any_batches_and_commits_equal_brute_force(data: st.DataObject, case: Case, flush: bool) -> None:
    machine = machine_for(case)
    for batch in data.draw(batches(case.steps)):
        machine.feed(batch)
        if data.draw(st.booleans()):
            machine.commit()
    machine.finish(flush)
    assert_equals_brute_force(machine, case, flush=flush)


@given(st.data(), cases())
def test_any_crash_between_commits_equals_brute_force(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    machine.feed_all(case.steps, data)
    machine.finish(flush=True)
    assert_equals_brute_force(machine, case, flush=True)


@given(st.data(), st.one_of(cases(), cases(exposures=True)), st.booleans())
def test_commits_of_one_event_with_any_users_evicted_equal_brute_force(data: st.DataObject, case: Case, flush: bool) -> None:
    machine = machine_for(case)
    machine.evict = lambda: machine.engine.drop(machine.state, data.draw(EVICTED))
    for step in case.steps:
        machine.feed([step])
        machine.commit()
    machine.finish(flush)
    assert_equals_brute_force(machine, case, flush=flush)


ROOM = st.integers(1, 5)
EXPOSURES_WITHIN_GROUPS_MAX = st.tuples(cases(exposures=True), st.just(1_000))


@given(st.data(), st.one_of(st.tuples(cases(), ROOM), EXPOSURES_WITHIN_GROUPS_MAX), st.tuples(*[ROOM] * 5), st.booleans())
def test_limits_refuse_the_same_events_in_any_batches_commits_and_evictions(
    data: st.DataObject, case_and_groups: tuple[Case, int], limits: tuple[int, int, int, int, int], are_users_counted: bool
) -> None:
    (case, groups), (events, lists, items, exposures, variants) = case_and_groups, limits
    case = replace(case, settings=replace(case.settings, session_events_max=events, items_max=items))
    experiments = ExperimentRules(variants_max=variants) if are_users_counted else None
    some = {"lists_open_max": lists, "groups_max": groups, "exposures_max": exposures}
    one, other = in_two_ways(data, case, engine_of(case.settings, grades_text(case), experiments=experiments, **some))
    assert counts_of(one) == counts_of(other)
    assert one.tallies() == other.tallies()


LABEL_COUNTS = {"too_many_variants", "too_many_groups", "list_exposed", "list_unexposed"}


@given(st.data(), cases(exposures=True), st.tuples(*[ROOM] * 4))
def test_commits_decide_only_which_labels_of_exposures_groups_max_drops(
    data: st.DataObject, case: Case, limits: tuple[int, int, int, int]
) -> None:
    """A list gets its variants from exposures at a commit. Lists that arrive before that commit take their room first.

    Of two copies of a list from two inputs, the labels may then decide which one is the duplicate. So inputs are counted together.
    """
    events, lists, groups, exposures = limits
    case = replace(case, settings=replace(case.settings, session_events_max=events))
    some = {"lists_open_max": lists, "groups_max": groups, "exposures_max": exposures}
    one, other = in_two_ways(data, case, engine_of(case.settings, grades_text(case), **some))
    assert counts_besides_labels(one) == counts_besides_labels(other)
    assert all_traffic(one) == all_traffic(other)


def in_two_ways(data: st.DataObject, case: Case, engine: Engine) -> tuple[Machine, Machine]:
    """Take the steps of a case as one batch, and in any batches with commits, crashes and evictions."""
    one, other = Machine(engine, case.settings), Machine(engine, case.settings)
    one.run(case.steps)
    other.evict = lambda: engine.drop(other.state, data.draw(EVICTED))
    other.feed_all(case.steps, data)
    other.finish(flush=True)
    return one, other


def counts_besides_labels(machine: Machine) -> Counter[str]:
    """Return the counts of all inputs together, by outcome."""
    counts = Counter[str]()
    for (outcome, _), count in counts_of(machine).items():
        if outcome not in LABEL_COUNTS:
            counts[outcome] += count
    return counts


def all_traffic(machine: Machine) -> dict[int, list[int]]:
    return {start: tally for (start, group), tally in machine.tallies().items() if group == Group()}


@given(st.data(), cases(without=("ticks",)))
def test_the_interleaving_of_inputs_does_not_matter(data: st.DataObject, case: Case) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case), machine_for(other)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.run(steps)
    assert one.tallies() == two.tallies()
    assert counts_of(one) == counts_of(two)


@given(st.data(), tiny_session_cases())
def test_sealed_sessions_equal_brute_force_in_any_batches(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    machine.run_in_batches(data.draw(batches(case.steps)), data)
    assert_equals_brute_force(machine, case, flush=True)


@given(st.data(), cases())
def test_a_final_pane_never_changes_and_panes_become_final_in_order(data: st.DataObject, case: Case) -> None:
    machine = machine_for(case)
    for batch in data.draw(batches(case.steps)):
        machine.feed(batch)
        machine.commit()
    machine.finish(flush=True)
    starts = [final.start_ms for final in machine.finals]
    assert starts == sorted(set(starts))
    result = expected(case, machine, flush=True)
    assert {start for start, _ in result.panes} == set(starts)
    for final in machine.finals:
        stored = machine.aggregator.pane(final.start_ms) if machine.report() else {}
        assert final.pane == stored


@given(cases())
def test_no_user_is_left_when_all_sessions_are_closed(case: Case) -> None:
    machine = machine_for(case)
    machine.run(case.steps)
    report = machine.report()
    assert (report.users_open, report.sessions_open) == (0, 0)
    assert machine.state.sessions.users == {}


ONE_LIST_A_VARIANT = {("", ""): 2, ("ranker", "a"): 1, ("ranker", "b"): 1}
ONE_INPUT = Settings(inputs=("events",), gap_ms=7, lateness_ms=0, attribution_ms=5, pane_ms=1, windows_ms=(1,))


def test_an_event_older_than_the_watermark_that_it_sets_joins_its_session() -> None:
    """Here the last event completes a row of two, whose time lies beyond the end of the session that this event belongs to."""
    impression = Impression("w", "u", 0, ())
    events = [
        *[Arrival("impressions", impression)] * 2,
        Tick(3),
        Arrival("feedback", impression),
        Arrival("feedback", Impression("w", "u", 12, ())),
    ]
    steps = (*events, Tick(3), Arrival("feedback", Feedback("u", 1, "a", "click", impression_id="w")))
    case = Case(Settings(attribution_ms=12, support_users=2), steps)
    machine = machine_for(case)
    machine.run(case.steps, flush=False)
    assert_equals_brute_force(machine, case, flush=False)


def arrivals(*events: Exposure | Impression | Feedback) -> tuple[Arrival, ...]:
    return tuple(Arrival("events", event) for event in events)


OLDER = Impression("a", "u", 0, ("i",))
CLICK = Feedback("u", 4, "i", "click")
BEYOND = Feedback("u", 6, "j", "click")
TAKES_AWAY = (OLDER, Impression("b", "u", 3, ("j",), positions=(0,)), CLICK, BEYOND, Impression("b", "u", 8, ("i",), positions=(1,)))
GIVES_BACK = (OLDER, Impression("b", "u", 3, ("i",), positions=(0,)), CLICK, BEYOND, Impression("b", "u", 8, ("j",)))


TOO_LONG = (*GIVES_BACK[:-1], Impression("b", "u", 8, ("j", "k"), positions=(1, 2)))


@pytest.mark.parametrize(
    "events", [TAKES_AWAY, GIVES_BACK, TOO_LONG], ids=["takes feedback away", "gives feedback back", "is one too long with it"]
)
def test_a_late_fragment_of_one_list_does_not_change_another_final_list(events: tuple[Impression | Feedback, ...]) -> None:
    case = Case(replace(ONE_INPUT, items_max=2), arrivals(*events))
    machine = machine_for(case)
    for step in case.steps:
        machine.feed([step])
        machine.commit()
    machine.finish(flush=True)
    assert_equals_brute_force(machine, case, flush=True)


@given(
    st.data(),
    cases(),
    st.fixed_dictionaries(
        {
            "lists_open_max": st.sampled_from([1, 2, 1_000]),
            "groups_max": st.sampled_from([1, 4, 1_000]),
            "retention_ms": st.sampled_from([1, 30]),
        }
    ),
)
def test_batches_and_crashes_do_not_matter_at_tight_limits(data: st.DataObject, case: Case, limits: dict[str, int]) -> None:
    """At these limits the order of arrival decides what is rejected. Batches and crashes do not."""
    engine = engine_of(case.settings, grades_text(case), **limits)
    whole, cut = Machine(engine, case.settings), Machine(engine, case.settings)
    whole.feed(case.steps)
    while cut.position < len(case.steps):
        cut.feed(case.steps[cut.position : cut.position + data.draw(st.integers(1, 8))])
        if data.draw(st.booleans()):
            cut.commit()
            cut.open()
    for machine in (whole, cut):
        machine.finish(flush=True)
    assert counts_of(cut) == counts_of(whole)
    assert [final.pane for final in cut.finals] == [final.pane for final in whole.finals]
    assert cut.state.panes.totals == whole.state.panes.totals


UNLABELLED = (Impression("w", "u", 0, ()), Impression("x", "u", 4, ()))
LABELLED = Impression("y", "u", 5, (), experiments=(("ranker", "control"),))


@pytest.mark.parametrize(("taken", "variants"), [(3, {"wide": 3}), (4, {"control": 1})])
def test_a_variant_of_exposures_takes_its_room_at_a_commit(taken: int, variants: dict[str, int]) -> None:
    """There is room for one variant. The last list has one, and it arrives before or after the commit that labels the first list."""
    case = Case(replace(ONE_INPUT, validity_ms=9), arrivals(Exposure("u", 0, "layout", "wide"), *UNLABELLED, LABELLED))
    machine = Machine(engine_of(case.settings, groups_max=2), case.settings)
    machine.feed(case.steps[:taken])
    machine.commit()
    machine.feed(case.steps[taken:])
    machine.finish(flush=True)
    assert {total.variant: total.tally[0] for total in machine.report().totals if total.variant} == variants


def test_lists_of_ended_sessions_do_not_count_towards_the_limit() -> None:
    steps = arrivals(OLDER, Impression("clock", "v", 20, ()), Impression("b", "u", 20, ("i",)))
    for batch in (1, 3):
        machine = Machine(engine_of(ONE_INPUT, lists_open_max=1), ONE_INPUT)
        for start in range(0, 3, batch):
            machine.feed(steps[start : start + batch])
        machine.finish(flush=True)
        assert counts_of(machine) == {("events", "events"): 3}


@pytest.mark.parametrize(("clock", "final"), [(5, []), (6, [0])])
def test_a_pane_is_final_when_it_ends_at_the_final_bound(clock: int, final: list[int]) -> None:
    machine = Machine(engine_of(ONE_INPUT), ONE_INPUT)
    machine.feed(arrivals(OLDER, Impression("clock", "v", clock, ())))
    machine.commit()
    assert [pane.start_ms for pane in machine.finals] == final


def test_a_pane_that_is_not_final_is_kept_beyond_the_retention_time() -> None:
    machine = Machine(engine_of(ONE_INPUT, retention_ms=1), ONE_INPUT)
    for event in (OLDER, Impression("clock", "v", 5, ())):
        machine.feed(arrivals(event))
        machine.commit()
    machine.open()
    machine.finish(flush=True)
    assert [pane.start_ms for pane in machine.finals] == [0, 5]


def test_former_lists_of_a_forgotten_group_do_not_count_when_it_returns() -> None:
    settings = replace(ONE_INPUT, pane_ms=4, windows_ms=(4,))
    machine = Machine(engine_of(settings, groups_max=3, retention_ms=1), settings)
    impressions = [("a", 0), ("c", 0), ("b", 4), ("a", 4)]
    machine.feed(arrivals(*(Impression(f"{arm}{ts}", arm, ts, ("i",), (("ranker", arm),)) for arm, ts in impressions)))
    machine.finish(flush=True)
    assert {group: tally[0] for group, tally in machine.state.panes.totals.items()} == ONE_LIST_A_VARIANT


def test_a_late_first_list_counts_in_the_totals_of_its_group() -> None:
    settings = replace(ONE_INPUT, pane_ms=4, windows_ms=(4,), lateness_ms=20)
    machine = Machine(engine_of(settings), settings)
    impressions = [("a", 100), ("b", 100 - settings.out_of_orderness_ms - settings.lateness_ms)]
    machine.feed(arrivals(*(Impression(f"{arm}{ts}", arm, ts, ("i",), (("ranker", arm),)) for arm, ts in impressions)))
    machine.finish(flush=True)
    assert {group: tally[0] for group, tally in machine.state.panes.totals.items()} == ONE_LIST_A_VARIANT


def test_a_user_is_dropped_from_memory_only_when_saved() -> None:
    machine = Machine(engine_of(ONE_INPUT), ONE_INPUT)
    machine.feed(arrivals(OLDER))
    machine.engine.drop(machine.state, ["u"])
    machine.engine.forget(machine.state, 0)
    assert [*machine.state.sessions.users] == ["u"]
    machine.prepare()
    machine.engine.drop(machine.state, ["u"])
    assert [*machine.state.sessions.users] == []


def test_users_that_were_saved_lately_stay_longer_in_memory() -> None:
    machine = Machine(engine_of(ONE_INPUT), ONE_INPUT)
    engine, state = machine.engine, machine.state

    def save(*users: str) -> None:
        for number, user in enumerate(users):
            session_at(state.sessions.users.setdefault(user, User()), number, machine.engine.rules.join, [])
            state.sessions.dirty[user] = state.sessions.users[user]
        engine.save(state)

    save(*"abcdef")
    engine.forget(state, 5)  # all were saved lately: the first four move to the end
    assert "".join(state.sessions.users) == "efabcd"
    save("b")
    engine.forget(state, 4)  # e and f move to the end; a and c were not saved since
    assert "".join(state.sessions.users) == "defb"
    save("d", "e", "f")
    state.sessions.dirty["b"] = state.sessions.users["b"]
    engine.forget(state, 0)
    assert "".join(state.sessions.users) == "b"


@given(st.lists(st.sets(st.integers(0, 30), max_size=8), max_size=60), st.integers(0, 12))
def test_at_most_a_third_more_users_than_allowed_stay_in_memory(saves: list[set[int]], users_max: int) -> None:
    machine = Machine(engine_of(ONE_INPUT), ONE_INPUT)
    for users in saves:
        for user in map(str, users):
            session_at(machine.state.sessions.users.setdefault(user, User()), 0, machine.engine.rules.join, [])
            machine.state.sessions.dirty[user] = machine.state.sessions.users[user]
        machine.engine.save(machine.state)
        machine.engine.forget(machine.state, users_max)
        assert 3 * len(machine.state.sessions.users) <= 4 * users_max


def test_state_of_other_topics_is_rejected_even_if_their_number_is_equal() -> None:
    machine, other = Machine(engine_of(ONE_INPUT), ONE_INPUT), replace(ONE_INPUT, inputs=("others",))
    machine.commit()
    with pytest.raises(StateError, match="state of other rules") as refused:
        Machine(engine_of(other), other, machine.store)
    assert refused.value.message.endswith(f"\n  kafka.topics: stored {', '.join(ONE_INPUT.inputs)}; now others")


def test_the_totals_of_a_forgotten_group_are_dropped() -> None:
    machine = Machine(engine_of(ONE_INPUT, groups_max=2, retention_ms=1), ONE_INPUT)
    counts = []
    for arm, ts in (("a", 0), ("a", 10), ("b", 20), ("b", 30)):
        machine.feed(arrivals(Impression(f"x{ts}", "u", ts, ("i",), (("ranker", arm),))))
        machine.commit()
        counts.append([*machine.state.panes.totals])
    assert counts == [[], [("", ""), ("ranker", "a")], [], [("", ""), ("ranker", "b")]]


def test_a_state_that_is_given_up_is_freed_without_a_collection() -> None:
    """Collections are rare, so a cycle would keep the whole state of each task that moves to another worker."""
    machine = Machine(engine_of(ONE_INPUT, experiments=ExperimentRules()), ONE_INPUT)
    gc.collect()
    gc.disable()
    try:
        machine.feed(arrivals(OLDER, Impression("clock", "v", 5, ("i",), (("ranker", "a"),))))
        machine.commit()
        before = parts_alive()
        assert min(before[part.__name__] for part in PARTS_OF_A_STATE) > 0
        machine.open()  # as after a crash: the task begins from its last commit
        assert parts_alive() == before
    finally:
        gc.enable()


def parts_alive() -> Counter[str]:
    return Counter(type(live_object).__name__ for live_object in gc.get_objects() if type(live_object) in PARTS_OF_A_STATE)
