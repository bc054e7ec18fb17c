"""The split of users by their first exposure: with or without a list, in the whole run and by day."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from streammetrics.enrolment.rules import ExperimentRules
from streammetrics.events.model import Exposure
from tests.oracle import Arrival
from tests.support.enrolments import DAY_MS, NOON_MS, SETTINGS, clock, feed, found, shown
from tests.support.machine import Machine, engine_of

UNDER = replace(SETTINGS, validity_ms=DAY_MS)


def machine_of(**rules: object) -> Machine:
    return Machine(engine_of(UNDER, experiments=ExperimentRules(**rules)), UNDER)  # type: ignore[arg-type]


def exposed(user: str, ts: int, variant: str = "a") -> Arrival:
    return Arrival("events", Exposure(user, ts, "ranker", variant))


def test_users_without_a_list_are_in_the_split_and_nowhere_else() -> None:
    machine = machine_of()
    feed(machine, exposed("u", NOON_MS), exposed("v", NOON_MS, "b"), shown("u", NOON_MS + 1), clock(NOON_MS + 5_000))
    scope = found(machine)["ranker", None]
    assert (exposed_users(machine), scope.first_list_users) == ({"a": 1, "b": 1}, {"a": 1})
    assert {variant for variant, _ in scope.sums} == {"a"}


def test_only_the_first_exposure_of_a_user_counts_in_the_run_and_on_each_day() -> None:
    machine = machine_of()
    later = NOON_MS + DAY_MS
    feed(
        machine,
        exposed("u", NOON_MS),
        exposed("u", NOON_MS + 9, "b"),
        exposed("u", later, "b"),
        exposed("u", later + 1),
        clock(later + 5_000),
    )
    first_day = NOON_MS // DAY_MS
    assert [exposed_users(machine, day) for day in (None, first_day, first_day + 1)] == [{"a": 1}, {"a": 1}, {"b": 1}]


def test_of_exposures_at_one_time_the_least_variant_counts() -> None:
    machine = machine_of()
    feed(machine, exposed("u", NOON_MS, "b"), exposed("u", NOON_MS, "a"), clock(NOON_MS + 5_000))
    assert exposed_users(machine) == {"a": 1}


def test_an_exposure_is_not_counted_before_an_earlier_one_can_no_longer_arrive() -> None:
    machine = Machine(engine_of(replace(UNDER, lateness_ms=100), experiments=ExperimentRules()), replace(UNDER, lateness_ms=100))
    feed(machine, exposed("u", NOON_MS + 50, "b"), clock(NOON_MS + 100), exposed("u", NOON_MS + 10))
    assert found(machine) == {}
    feed(machine, clock(NOON_MS + 5_000))
    assert exposed_users(machine) == {"a": 1}


def exposed_users(machine: Machine, day: int | None = None) -> dict[str, int]:
    """Return all users by the variant of their first exposure."""
    users = Counter[str]()
    for (_, variant), count in found(machine)["ranker", day].exposed.items():
        users[variant] += count
    return dict(users)
