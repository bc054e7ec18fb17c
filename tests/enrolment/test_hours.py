"""Arrivals, lists by hour and reactions against brute force: equal in any batches, commits and crashes, within bounds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.enrolment.rules import ExperimentRules, StagePlan
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Exposure, Feedback
from streammetrics.experiments import Stored
from streammetrics.experiments.arrivals import BLOCKS_MAX, HOUR_MS, HOURS_MAX
from tests.oracle import Arrival, Step
from tests.support.enrolments import (
    DAY_MS,
    DUE_MAX,
    NOON_MS,
    SETTINGS,
    clicked,
    clock,
    expected,
    found,
    machine_for,
    machine_of,
    shown,
    take,
)
from tests.support.machine import Machine, engine_of
from tests.support.strategies import Case

NOON = NOON_MS // HOUR_MS
DELAYS = st.lists(st.sampled_from((0, 450, 451, 500, 501)), max_size=2)
"""Delays of clicks (ms). With `SETTINGS` the last tenth of the attribution window begins after 450."""
TURN = st.tuples(st.sampled_from("uvwx"), st.sampled_from((1, 0, 3, 13)), st.sampled_from("aab"), DELAYS)
TURNS = st.lists(TURN, min_size=1, max_size=14)
PLANS = st.sampled_from(
    (
        {},
        {"ranker": StagePlan((("", NEVER),), by_list=True)},
        {"ranker": StagePlan((("", NEVER), ("next", NOON_MS + 5 * HOUR_MS)))},
    )
)


def stored(machine: Machine) -> Stored:
    machine.report()
    return machine.builder.experiments.stored(1)["ranker", WHOLE]


@given(st.data(), TURNS, PLANS, DUE_MAX, st.booleans())
def test_hours_equal_brute_force_in_any_batches_commits_and_crashes(
    data: st.DataObject, turns: list[tuple[str, int, str, list[int]]], plans: dict[str, StagePlan], due_max: int, flush: bool
) -> None:
    now, steps = NOON_MS, list[Step]()
    for user, hours, variant, delays in turns:
        now += hours * HOUR_MS + 1
        steps.append(shown(user, now, (("ranker", variant),)))
        steps += [clicked(user, now + delay) for delay in delays]
    steps.append(clock(now + 9_000))
    case, rules = Case(SETTINGS, tuple(steps)), ExperimentRules(plans=plans)
    machine = machine_for(case, rules, due_max)
    machine.take_all(case.steps, data)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


def test_a_user_arrives_once_in_the_hour_of_their_first_list() -> None:
    machine = machine_of()
    ranker, other = (("ranker", "a"),), (("ranker", "b"),)
    take(machine, shown("u", NOON_MS, ranker), shown("v", NOON_MS + HOUR_MS - 1, other), shown("u", NOON_MS + HOUR_MS, ranker))
    take(machine, shown("w", NOON_MS + HOUR_MS, ranker), clock(NOON_MS + DAY_MS))
    kept = stored(machine)
    assert (kept.arrivals.block_ms, kept.arrivals.counts) == (HOUR_MS, {"a": {NOON: 1, NOON + 1: 1}, "b": {NOON: 1}})
    assert kept.recent_lists == {"a": {NOON: 1, NOON + 1: 2}, "b": {NOON: 1}}
    assert kept.last_ms == {"a": NOON_MS + HOUR_MS, "b": NOON_MS + HOUR_MS - 1}


def test_reactions_count_once_and_are_late_in_the_last_tenth_of_the_attribution_window() -> None:
    machine, steps = machine_of(), [shown("v", NOON_MS, (("ranker", "b"),), ("i", "j")), clicked("v", NOON_MS)]
    for number, delays in enumerate(((450,), (451,), (500, 499), (451, 3), (501,), ())):
        steps += [shown(f"u{number}", NOON_MS, (("ranker", "a"),)), *(clicked(f"u{number}", NOON_MS + delay) for delay in delays)]
    steps += [Arrival("events", Feedback("v", NOON_MS + 480, "j", "click")), clock(NOON_MS + DAY_MS)]
    take(machine, *sorted(steps, key=lambda step: step.event.ts))
    assert stored(machine).reactions == {"a": (4, 4, 2), "b": (2, 4, 1)}
    assert machine.builder.experiments.stored(1)["ranker", NOON_MS // DAY_MS].reactions == {}


def test_with_exposures_users_arrive_with_the_first_of_them() -> None:
    under = replace(SETTINGS, validity_ms=DAY_MS)
    machine = Machine(engine_of(under, experiments=ExperimentRules()), under)
    take(machine, Arrival("events", Exposure("u", NOON_MS, "ranker", "a")), Arrival("events", Exposure("v", NOON_MS, "ranker", "b")))
    take(machine, shown("u", NOON_MS + 1), clock(NOON_MS + DAY_MS))
    assert stored(machine).arrivals.counts == {"a": {NOON: 1}, "b": {NOON: 1}}


def test_after_721_hours_the_blocks_are_two_hours_and_old_hours_of_lists_are_gone() -> None:
    machine = machine_of(idle_ms=DAY_MS)
    for hour in range(0, BLOCKS_MAX + 2, 40):
        hours = range(hour, min(hour + 40, BLOCKS_MAX + 1))
        take(machine, *(shown(f"u{each}", NOON_MS + each * HOUR_MS, (("ranker", "a"),)) for each in hours))
    take(machine, clock(NOON_MS + (BLOCKS_MAX + 3) * HOUR_MS))
    kept = stored(machine)
    blocks = Counter((NOON + hour) // 2 for hour in range(BLOCKS_MAX + 1))
    assert (kept.arrivals.block_ms, kept.arrivals.counts) == (2 * HOUR_MS, {"a": blocks})
    assert list(kept.recent_lists["a"]) == list(range(NOON + BLOCKS_MAX + 1 - HOURS_MAX, NOON + BLOCKS_MAX + 1))
