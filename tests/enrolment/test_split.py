"""The split of users by their first exposure: with or without a list, in the whole run, by day and by stage."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.enrolment.rules import ExperimentRules, StagePlan
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Exposure
from streammetrics.experiments import StoredStage
from tests.oracle import Arrival
from tests.support.enrolments import DAY_MS, NOON_MS, SETTINGS, clock, found, shown, take
from tests.support.machine import Machine, engine_of

UNDER = replace(SETTINGS, validity_ms=DAY_MS)


def machine_of(**rules: object) -> Machine:
    return Machine(engine_of(UNDER, experiments=ExperimentRules(**rules)), UNDER)  # type: ignore[arg-type]


def exposed(user: str, ts: int, variant: str = "a") -> Arrival:
    return Arrival("events", Exposure(user, ts, "ranker", variant))


def test_users_without_a_list_are_in_the_split_and_nowhere_else() -> None:
    machine = machine_of()
    take(machine, exposed("u", NOON_MS), exposed("v", NOON_MS, "b"), shown("u", NOON_MS + 1), clock(NOON_MS + 5_000))
    scope = found(machine)["ranker", None]
    assert (scope.exposed, scope.first_exposures) == ({"a": 1, "b": 1}, {"a": 1})
    assert {variant for variant, _ in scope.sums} == {"a"}


def test_only_the_first_exposure_of_a_user_counts_in_the_run_and_on_each_day() -> None:
    machine = machine_of()
    later = NOON_MS + DAY_MS
    take(
        machine,
        exposed("u", NOON_MS),
        exposed("u", NOON_MS + 9, "b"),
        exposed("u", later, "b"),
        exposed("u", later + 1),
        clock(later + 5_000),
    )
    scopes = found(machine)
    first_day = NOON_MS // DAY_MS
    assert [scopes["ranker", day].exposed for day in (None, first_day, first_day + 1)] == [{"a": 1}, {"a": 1}, {"b": 1}]


def test_of_exposures_at_one_time_the_least_variant_counts() -> None:
    machine = machine_of()
    take(machine, exposed("u", NOON_MS, "b"), exposed("u", NOON_MS, "a"), clock(NOON_MS + 5_000))
    assert found(machine)["ranker", None].exposed == {"a": 1}


def test_an_exposure_is_not_counted_before_an_earlier_one_can_no_longer_arrive() -> None:
    machine = Machine(engine_of(replace(UNDER, lateness_ms=100), experiments=ExperimentRules()), replace(UNDER, lateness_ms=100))
    take(machine, exposed("u", NOON_MS + 50, "b"), clock(NOON_MS + 100), exposed("u", NOON_MS + 10))
    assert found(machine) == {}
    take(machine, clock(NOON_MS + 5_000))
    assert found(machine)["ranker", None].exposed == {"a": 1}


def test_users_count_in_the_stage_of_their_exposure_and_in_no_stage_by_label() -> None:
    starts = (("", NEVER), ("half", NOON_MS + 1_000))
    machine = machine_of(plans={"ranker": StagePlan(starts)})
    take(machine, exposed("u", NOON_MS), exposed("u", NOON_MS + 2_000), exposed("v", NOON_MS + 2_000, "b"), clock(NOON_MS + 9_000))
    stages = {(each.entry, each.key): dict(each.exposed) for each in machine_stages(machine)}
    assert stages == {("", ""): {"a": 1}, ("", "half"): {"a": 1}, ("half", "half"): {"b": 1}}
    labelled = machine_of(plans={"ranker": StagePlan((), "rollout", ("half",))})
    take(labelled, exposed("u", NOON_MS), clock(NOON_MS + 9_000))
    assert found(labelled) == {}


def machine_stages(machine: Machine) -> tuple[StoredStage, ...]:
    machine.report()
    return machine.builder.experiments.stored(1)["ranker", WHOLE].stages
