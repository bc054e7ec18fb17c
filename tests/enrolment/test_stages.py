"""Stages of rollouts and assignment by list against brute force: the integers are equal for any order, batches and crashes."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.enrolment.rules import ExperimentRules, Span, StagePlan
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Feedback, Impression
from tests.oracle import Arrival, Step
from tests.oracle.experiments import merge
from tests.support.brute_force import FOR_EVER_MS, scopes_of
from tests.support.enrolments import (
    DAY_MS,
    DUE_MAX,
    NOON_MS,
    PATIENCE,
    RANKER,
    clock,
    expected,
    found,
    kept,
    machine_for,
    machine_of,
    shown,
    take,
)
from tests.support.strategies import START_MS, USERS, Case, batches, cases, interleavings, settings

BOUNDARIES = st.lists(st.integers(0, 30), min_size=1, max_size=3, unique=True).map(sorted)


@st.composite
def plans(draw: st.DrawFn) -> StagePlan:
    """Stages that begin in the middle of a case, from its start on or later, or by the segment `surface`."""
    by_list = draw(st.booleans())
    if draw(st.integers(0, 3)) == 2:
        return StagePlan((), "surface", draw(st.sampled_from((("home", "search"), ("home",)))), by_list)
    starts = [(str(START_MS + at), START_MS + at) for at in draw(BOUNDARIES)]
    return StagePlan((*([("", NEVER)] if draw(st.integers(0, 3)) else []), *starts), by_list=by_list)


PLANS = st.fixed_dictionaries({"ranker": plans()}, optional={"layout": plans()})
RULES = st.builds(ExperimentRules, idle_ms=st.sampled_from((FOR_EVER_MS, 20, FOR_EVER_MS, 3)), patience_ms=PATIENCE, plans=PLANS)


@given(cases(), RULES, st.booleans())
def test_one_batch_equals_brute_force(case: Case, rules: ExperimentRules, flush: bool) -> None:
    machine = machine_for(case, rules)
    machine.run(case.steps, flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


@st.composite
def ramps(draw: st.DrawFn) -> Case:
    """Users who return in every stage, mostly with one variant at a time, and everything is final at the end."""
    chosen = draw(settings())
    turn = st.tuples(st.sampled_from(USERS), st.sampled_from((1, 9, 0, 3)), st.sampled_from((0, 1, 0)), st.sampled_from(("home", "search")))
    steps: list[Step] = []
    now, moves = START_MS, draw(st.integers(2, 9))
    for number, (user, pause, place, surface) in enumerate(draw(st.lists(turn, min_size=6, max_size=14))):
        now += pause
        is_late, stray = number >= moves, number % 7 == 4
        variant = "treatment" if stray or (user == "u" and is_late) else "control"
        variants = (("layout", "wide"), ("ranker", variant)) if number % 3 else (("ranker", variant),)
        steps.append(Arrival(chosen.inputs[0], Impression(f"{number}", user, now, ("a", "b"), variants, (("surface", surface),))))
        if place:
            steps.append(Arrival(chosen.inputs[-1], Feedback(user, now, "b", "click", impression_id=f"{number}")))
    steps += [Arrival(name, Feedback("clock", now + 100, "a", "click")) for name in chosen.inputs]
    return Case(chosen, tuple(steps))


@given(st.data(), ramps() | cases(), RULES, DUE_MAX, st.booleans())
def test_any_batches_commits_and_crashes_equal_brute_force(
    data: st.DataObject, case: Case, rules: ExperimentRules, due_max: int, flush: bool
) -> None:
    machine = machine_for(case, rules, due_max)
    machine.take_all(case.steps, data)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


@given(st.data(), cases(without=("ticks",)), RULES)
def test_the_interleaving_of_inputs_does_not_matter(data: st.DataObject, case: Case, rules: ExperimentRules) -> None:
    other = data.draw(interleavings(case))
    one, two = machine_for(case, rules), machine_for(other, rules)
    for machine, steps in ((one, case.steps), (two, other.steps)):
        machine.run(steps)
    assert found(one) == found(two)


@given(st.data(), ramps(), PLANS, st.sampled_from((3, 12, 20)), DUE_MAX)
def test_stages_within_the_time_of_their_experiment(
    data: st.DataObject, case: Case, plans: dict[str, StagePlan], end: int, due_max: int
) -> None:
    rules = ExperimentRules(idle_ms=FOR_EVER_MS, plans=plans, spans={"ranker": Span(START_MS + 1, START_MS + end)})
    machine = machine_for(case, rules, due_max)
    machine.run_in_batches(data.draw(batches(case.steps)), data, flush=False)
    assert found(machine) == expected(case, machine, rules, flush=False)


def test_a_plain_experiment_stores_nothing_of_stages() -> None:
    """Its scopes have seven parts and its record has no parts of runs, even beside an experiment with stages."""
    machine = machine_of(plans={"layout": StagePlan((("", NEVER), ("5", 5)))})
    take(machine, shown("u", NOON_MS, RANKER), shown("u", NOON_MS + 10, RANKER), clock(NOON_MS + 10_000))
    _, _, cells = kept(machine, "u")
    assert {len(json.loads(cell)) for cell in cells.values()} == {7}
    assert machine.state.labels.stored().parts == []


def test_stages_may_be_added_to_a_running_experiment() -> None:
    """The first stage goes on with what was counted before, and users who return are in both."""
    plan = StagePlan((("", NEVER), ("later", NOON_MS + 5_000)))
    machine = machine_of()
    take(machine, shown("u", NOON_MS, RANKER), shown("v", NOON_MS, RANKER), clock(NOON_MS + 4_000))
    later = machine_of(plans={"ranker": plan}, store=machine.store)
    take(later, shown("u", NOON_MS + 6_000, (("ranker", "b"),)), clock(NOON_MS + 12_000), clock(NOON_MS + 12_000))
    scope = found(later)["ranker", None]
    assert {stage: each.first_exposures for stage, each in scope.stages.items()} == {("", ""): {"a": 2}, ("", "later"): {"b": 1}}
    assert scope.multi_exposed == 0
    assert scope.pairs[("", "", "a"), ("", "later", "b")]["hit_rate@1"] == (1, 1, 0, 0, 0)


def test_nothing_of_an_ended_rollout_is_left() -> None:
    plan = StagePlan((("", NEVER), ("later", NOON_MS + 5_000)), by_list=True)
    machine = machine_of(due_max=1, idle_ms=DAY_MS, plans={"ranker": plan})
    lists = [shown("u", NOON_MS + at, (("ranker", variant),)) for at, variant in ((0, "a"), (10, "b"), (6_000, "a"), (6_010, "b"))]
    take(machine, *lists, clock(NOON_MS + 20_000), clock(NOON_MS + 20_000))
    totals, _, cells = kept(machine, "u")
    assert (set(totals), len(cells)) == ({"u"}, 8)
    take(machine, clock(NOON_MS + 7_000 + DAY_MS), clock(NOON_MS + 7_000 + DAY_MS))
    assert kept(machine, "u") == ({}, ["clock"], {})
    assert machine.state.labels.stored().parts == []


@given(st.data(), ramps(), PLANS, DUE_MAX)
def test_tasks_with_other_orders_of_stages_are_summed_exactly(
    data: st.DataObject, case: Case, plans: dict[str, StagePlan], due_max: int
) -> None:
    """Each user is in one task, and the parts of a run have other numbers in each."""
    rules = ExperimentRules(idle_ms=FOR_EVER_MS, plans=plans)
    parts, machines = [], []
    for users in (("u", "clock"), ("v", "clock")):
        own = Case(case.settings, tuple(step for step in case.steps if isinstance(step, Arrival) and step.event.user_id in users))
        machine = machine_for(own, rules, due_max)
        machine.take_all(own.steps, data)
        machine.finish(flush=True)
        parts.append(expected(own, machine, rules, flush=True))
        machines.append(machine)
    machines[0].report()
    builder = machines[0].builder
    builder.update(1, machines[1].store.view([0], {})[0])
    assert scopes_of(builder, machines[0].engine, 2) == merge(parts)
