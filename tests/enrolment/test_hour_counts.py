"""Rows of hours and reactions against brute force: equal in any batches, commits and crashes, within bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.enrolment.scopes import EXPERIMENTS, WHOLE, Scope
from streammetrics.events.model import Exposure, Feedback, Labels
from streammetrics.experiments import StoredSums
from streammetrics.experiments.hours import BLOCKS_MAX, OTHER_VALUES, SEGMENT_VALUES_MAX, STRATA_MAX, Entry, Hours, entry_of, merge_hours
from streammetrics.reports.merged_runs import sum_scopes
from streammetrics.words.times import HOUR_MS
from tests.oracle import Arrival, Step
from tests.support.enrolments import (
    DAY_MS,
    DUE_MAX,
    NOON_MS,
    SETTINGS,
    clicked,
    clock,
    expected,
    feed,
    found,
    machine_for,
    machine_of,
    shown,
)
from tests.support.machine import Machine, engine_of
from tests.support.strategies import Case

NOON = NOON_MS // HOUR_MS
DELAYS = st.lists(st.sampled_from((0, 450, 451, 500, 501)), max_size=2)
"""Delays of clicks (ms). With `SETTINGS` the last tenth of the attribution window begins after 450."""
COUNTRIES = st.sampled_from(((), (("country", "DE"),), (("app", "ios"), ("country", "US"))))
TURN = st.tuples(st.sampled_from("uvwx"), st.sampled_from((1, 0, 3, 13)), st.sampled_from("aab"), DELAYS, COUNTRIES)
STRATA = st.sampled_from(({}, {"ranker": "country"}))
TURNS = st.lists(TURN, min_size=1, max_size=14)


def stored(machine: Machine) -> StoredSums:
    machine.report()
    return machine.builder.experiments.stored(1)["ranker", WHOLE]


@given(st.data(), TURNS, DUE_MAX, STRATA, st.booleans())
def test_hours_equal_brute_force_in_any_batches_commits_and_crashes(
    data: st.DataObject, turns: list[tuple[str, int, str, list[int], Labels]], due_max: int, strata: dict[str, str], flush: bool
) -> None:
    now, steps = NOON_MS, list[Step]()
    for user, hours, variant, delays, segments in turns:
        now += hours * HOUR_MS + 1
        steps.append(shown(user, now, (("ranker", variant),), segments=segments))
        steps += [clicked(user, now + delay) for delay in delays]
    steps.append(clock(now + 9_000))
    case, rules = Case(replace(SETTINGS, segments=("app",)), tuple(steps)), ExperimentRules(strata=strata)
    machine = machine_for(case, rules, due_max)
    machine.feed_all(case.steps, data)
    machine.finish(flush)
    assert found(machine) == expected(case, machine, rules, flush=flush)


def test_a_user_is_new_in_the_hour_of_their_first_list_and_keeps_that_entry() -> None:
    machine = machine_of()
    ranker, other = (("ranker", "a"),), (("ranker", "b"),)
    feed(machine, shown("u", NOON_MS, ranker), shown("v", NOON_MS + HOUR_MS - 1, other), shown("u", NOON_MS + 9 * HOUR_MS, other))
    feed(machine, shown("w", NOON_MS + 9 * HOUR_MS, ranker), clock(NOON_MS + DAY_MS))
    rows = stored(machine).hours.rows
    assert {block: row.new_users for block, row in rows.items()} == {NOON: {"a": 1, "b": 1}, NOON + 9: {"a": 1}}
    assert {block: row.moves for block, row in rows.items()} == {NOON: {}, NOON + 9: {("a", "b"): 1}}
    young, old = Entry(1, NOON), Entry(8, NOON // 8)
    assert {key: totals[0] for key, totals in rows[NOON].totals.items()} == {("a", young): 1, ("b", young): 1}
    assert {key: totals[0] for key, totals in rows[NOON + 9].totals.items()} == {("b", old): 1, ("a", Entry(1, NOON + 9)): 1}
    assert stored(machine).last_ms == {"a": NOON_MS + 9 * HOUR_MS, "b": NOON_MS + 9 * HOUR_MS}


def test_reactions_count_once_and_are_late_in_the_last_tenth_of_the_attribution_window() -> None:
    machine, steps = machine_of(), [shown("v", NOON_MS, (("ranker", "b"),), ("i", "j")), clicked("v", NOON_MS)]
    for number, delays in enumerate(((450,), (451,), (500, 499), (451, 3), (501,), ())):
        steps += [shown(f"u{number}", NOON_MS, (("ranker", "a"),)), *(clicked(f"u{number}", NOON_MS + delay) for delay in delays)]
    steps += [Arrival("events", Feedback("v", NOON_MS + 480, "j", "click")), clock(NOON_MS + DAY_MS)]
    feed(machine, *sorted(steps, key=lambda step: step.event.ts))
    assert stored(machine).reactions == {"a": (4, 4, 2), "b": (2, 4, 1)}
    assert machine.builder.experiments.stored(1)["ranker", NOON_MS // DAY_MS].reactions == {}


def test_exposures_count_in_the_hour_of_the_first_one() -> None:
    under = replace(SETTINGS, validity_ms=DAY_MS)
    machine = Machine(engine_of(under, experiments=ExperimentRules()), under)
    feed(machine, Arrival("events", Exposure("u", NOON_MS, "ranker", "a")), Arrival("events", Exposure("v", NOON_MS, "ranker", "b")))
    feed(machine, shown("u", NOON_MS + HOUR_MS), clock(NOON_MS + DAY_MS))
    assert {block: row.exposed for block, row in stored(machine).hours.rows.items()} == {NOON: {"a": 1, "b": 1}, NOON + 1: {}}
    assert (stored(machine).exposed, stored(machine).first_list_users) == ({"a": 1, "b": 1}, {"a": 1})


def test_a_user_reacted_once_in_each_variant_that_they_saw() -> None:
    machine = machine_of()
    lists = shown("u", NOON_MS, (("ranker", "a"),)), shown("v", NOON_MS, (("ranker", "a"),)), clicked("u", NOON_MS + 1)
    orphan = Arrival("events", Feedback("v", NOON_MS + 2, "another", "click"))
    feed(machine, *lists, orphan, clock(NOON_MS + 10_000))
    assert stored(machine).reacting == {"a": (2, 1)}
    feed(machine, shown("u", NOON_MS + 20_000, (("ranker", "b"),)), clicked("u", NOON_MS + 20_001), clock(NOON_MS + 40_000))
    assert stored(machine).reacting == {"a": (2, 1), "b": (1, 0)}


def test_after_96_hours_the_blocks_are_two_hours_and_former_rows_are_gone() -> None:
    machine = machine_of(idle_ms=DAY_MS)
    feed(machine, *(shown(f"u{hour}", NOON_MS + hour * HOUR_MS, (("ranker", "a"),)) for hour in range(BLOCKS_MAX)))
    feed(machine, shown("clock", NOON_MS + BLOCKS_MAX * HOUR_MS - 1))
    assert stored(machine).hours.length == 1
    feed(machine, shown("v", NOON_MS + BLOCKS_MAX * HOUR_MS, (("ranker", "a"),)), clock(NOON_MS + (BLOCKS_MAX + 3) * HOUR_MS))
    kept = stored(machine)
    blocks = Counter((NOON + hour) // 2 for hour in range(BLOCKS_MAX + 1))
    assert (kept.hours.length, {block: row.new_users["a"] for block, row in kept.hours.rows.items()}) == (2, blocks)
    assert kept.hours.lists("a") == blocks
    assert kept.entry_users.hours == 2
    rows = {name for name in machine.store.view([0], {})[0].table(EXPERIMENTS) if name.startswith("1/h")}
    assert rows == {f"1/h{block}" for block in blocks}
    machine.open()
    assert stored(machine).hours.lists("a") == blocks


def hours_of(numbers: Iterable[int], users: Sequence[str]) -> Hours:
    """Rows in which users come with a list in each of these hours, and with their name as the value of a segment."""
    hours = Hours()
    for number in numbers:
        for user in users:
            row = hours.row(number)
            row.add_totals("a", hours.entry_of(NOON, number), [1, number])
            row.add_value(("surface", user, ""), "a", 1)
        hours.bound()
        hours.bound_values()
    return hours


@given(st.lists(st.sets(st.integers(NOON, NOON + 400), max_size=150), min_size=2, max_size=4), st.integers(1, 60), st.randoms())
def test_the_rows_of_parts_merge_in_any_order(parts: list[set[int]], users: int, random: Random) -> None:
    names = [f"v{number}" for number in range(users)]
    made = [hours_of(sorted(numbers), names[number:]) for number, numbers in enumerate(parts)]
    random.shuffle(made)
    one = merge_hours(made)
    other = merge_hours([merge_hours(made[1:]), made[0]])
    assert flat(one) == flat(other)
    blocks = {hour // one.length for numbers in parts for hour in numbers}
    assert set(one.rows) <= blocks
    assert len(one.rows) <= BLOCKS_MAX
    assert sum(one.lists("a").values()) == sum(sum(hours.lists("a").values()) for hours in made)
    values = {value for row in one.rows.values() for _, value, _ in row.values} - {OTHER_VALUES}
    assert len(values) <= SEGMENT_VALUES_MAX


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=60), min_size=2, max_size=4), st.randoms())
def test_strata_beyond_the_limit_are_one_whatever_the_order_and_the_parts(parts: list[list[int]], random: Random) -> None:
    """All parts together, each bounded after every user, equal one scope that sees all users in another order."""
    whole, made = Scope(), [Scope() for _ in parts]
    users = [(part, number) for part, numbers in enumerate(parts) for number in numbers]
    random.shuffle(users)
    for part, number in users:
        came = NOON + number % 5, f"country={number}"
        for scope in (whole, made[part]):
            scope.row_of(NOON + 9).add_totals("a", scope.hours.entry_of(came, NOON + 9), [1, number])
            scope.row_of(NOON).add_value(("", "", came[1]), "a", 1)
            scope.add_moments("a", entry_of(came), [1, number])
            scope.users.add("a", entry_of(came), [1])
            scope.bound()
    merged = sum_scopes(made, None)
    assert flat(merged.hours) == flat(whole.hours)
    assert (merged.moments.sums, merged.users.sums) == (whole.moments.sums, whole.users.sums)
    assert len(whole.moments.strata) <= STRATA_MAX + 1
    assert {entry.stratum for row in whole.hours.rows.values() for _, entry in row.totals} == whole.moments.strata


def flat(hours: Hours) -> tuple[int, dict[int, object]]:
    rows = {block: (dict(sorted(row.totals.items())), dict(sorted(row.values.items()))) for block, row in hours.rows.items()}
    return hours.length, dict(sorted(rows.items()))
