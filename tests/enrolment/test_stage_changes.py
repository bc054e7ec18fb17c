"""Settings that change a stage which has begun: what is refused, what is only a warning, and what is no change at all."""

from __future__ import annotations

import pytest

from streammetrics.engine.task_state import decode_control
from streammetrics.enrolment.rules import ExperimentRules, StagePlan
from streammetrics.enrolment.stage_changes import StageChange, stage_changes
from streammetrics.errors import StateError
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Impression
from tests.oracle import Arrival
from tests.support.enrolments import DAY_MS, NOON_MS, RANKER, clock, machine_of, shown, take
from tests.support.machine import Machine

FIRST, SECOND, THIRD = NOON_MS + 1_000, NOON_MS + 10_000, NOON_MS + 20_000


def by_time(*starts: int, by_list: bool = False) -> StagePlan:
    return StagePlan(tuple(("" if start == NEVER else str(start), start) for start in starts), by_list=by_list)


def by_label(*values: str) -> StagePlan:
    return StagePlan(label="rollout", values=values)


def counted(plan: StagePlan | None, *times: int, until: int = NOON_MS + 40_000) -> Machine:
    """A task in which lists at these times are final under a plan."""
    machine = machine_of(plans={} if plan is None else {"ranker": plan})
    take(machine, *(shown(f"u{number}", ts, RANKER) for number, ts in enumerate(times)), clock(until), clock(until))
    return machine


def changes(machine: Machine, plan: StagePlan | None) -> list[StageChange]:
    control = machine.store.view([0], {})[0].control
    return stage_changes([decode_control(control).counted_stages()], ExperimentRules(plans={} if plan is None else {"ranker": plan}))


def restarted(machine: Machine, plan: StagePlan | None, *, may_change: bool = False) -> Machine:
    return machine_of(plans={} if plan is None else {"ranker": plan}, store=machine.store, stages_may_change=may_change)


PLAN = by_time(NEVER, FIRST, SECOND)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN,
        by_time(NEVER, FIRST, SECOND, THIRD),
        by_time(NEVER, FIRST),
        by_time(NEVER, FIRST, SECOND + 5_000),
        by_time(NEVER, FIRST, FIRST + 4_001),
    ],
    ids=[
        "the same",
        "a later stage",
        "without a stage that has no list",
        "a stage that moved",
        "just after the last list",
    ],
)
def test_stages_without_counted_lists_may_change(plan: StagePlan) -> None:
    machine = counted(PLAN, NOON_MS, FIRST + 4_000)
    assert changes(machine, plan) == []
    restarted(machine, plan)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            by_time(NEVER, FIRST + 1_000, SECOND),
            "experiment 'ranker': lists up to 2024-10-04 12:00:05 UTC count in the stage that begins at 2024-10-04 12:00:01 UTC, and the "
            "settings no longer have it; they have the stage that begins with the experiment, the stage that begins at 2024-10-04 12:00:02 "
            "UTC, the stage that begins at 2024-10-04 12:00:10 UTC",
        ),
        (
            by_time(NEVER, SECOND),
            "they have the stage that begins with the experiment, the stage that begins at",
        ),
        (
            by_time(NOON_MS - 5_000, FIRST, SECOND),
            "lists up to 2024-10-04 12:00:00 UTC count in the stage that begins with the experiment",
        ),
        (by_label("half"), "the settings no longer have it; they have the stage with label 'half'"),
        (by_time(NEVER, FIRST, SECOND, by_list=True), 'with unit = "user", and the settings now have unit = "list"'),
        (None, "the settings no longer have it; they have no stages for it"),
    ],
    ids=["moved", "removed", "the first one got a start", "labels", "unit", "no stages"],
)
def test_a_stage_with_counted_lists_must_stay(plan: StagePlan | None, message: str) -> None:
    machine = counted(PLAN, NOON_MS, FIRST + 4_000)
    with pytest.raises(StateError) as refused:
        restarted(machine, plan)
    assert message in str(refused.value)
    assert "experiments.stages_may_change" in str(refused.value)
    assert all(change.is_refused for change in changes(machine, plan))
    restarted(machine, plan, may_change=True)
    restarted(machine, PLAN)  # nothing was written


def test_labels_that_have_lists_must_stay() -> None:
    machine = machine_of(plans={"ranker": by_label("5", "50")})
    take(machine, shown("u", NOON_MS, RANKER), clock(NOON_MS + 40_000), clock(NOON_MS + 40_000))
    assert changes(machine, by_label("50")) == []  # the list had no label, so it counts in no stage
    event = Impression("v", "v", NOON_MS, ("i",), RANKER, (("rollout", "5"),))
    labelled = machine_of(plans={"ranker": by_label("5", "50")})
    take(labelled, Arrival("events", event), clock(NOON_MS + 40_000), clock(NOON_MS + 40_000))
    assert [(each.kind, each.stage) for each in changes(labelled, by_label("50", "100"))] == [("gone", "5")]
    assert changes(labelled, by_label("5")) == []


def test_a_stage_that_was_added_too_late_is_a_warning() -> None:
    """Lists that count in the stage before cannot move, whatever the settings are, so the worker starts."""
    machine = counted(None, NOON_MS, FIRST + 4_000)
    assert changes(machine, by_time(NEVER, SECOND)) == []
    (change,) = changes(machine, by_time(NEVER, FIRST))
    assert not change.is_refused
    assert change.message == (
        "experiment 'ranker': lists up to 2024-10-04 12:00:05 UTC count in the stage that begins with the experiment, although "
        "the stage that begins at 2024-10-04 12:00:01 UTC begins before them in the settings: it was added or moved too late"
    )
    later = restarted(machine, by_time(NEVER, FIRST))
    assert changes(later, by_time(NEVER, FIRST)) == [change]


def test_the_stages_of_a_rollout_that_is_over_may_be_removed_but_not_changed() -> None:
    over = counted(PLAN, FIRST, until=NOON_MS + 10_000 + DAY_MS)
    assert [change.is_refused for change in changes(over, None)] == [False]
    assert [change.is_refused for change in changes(over, by_time(NOON_MS))] == [True]
    restarted(over, None)


def test_changes_of_several_tasks_are_one_with_the_latest_list() -> None:
    controls = [decode_control(counted(PLAN, NOON_MS + at).store.view([0], {})[0].control) for at in (3_000, 5_000, 4_000)]
    (change,) = stage_changes([each.counted_stages() for each in controls], ExperimentRules(plans={"ranker": by_time(NEVER, SECOND)}))
    assert (change.kind, change.last_ms) == ("gone", NOON_MS + 5_000)
