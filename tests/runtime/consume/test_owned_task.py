"""What a worker keeps for one task, part by part."""

from __future__ import annotations

import pytest

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.connectors.store import Claim
from streammetrics.runtime.consume.commit_room import CommitRoom
from streammetrics.runtime.consume.owned_task import Assignment, InputActivity, OwnedTask
from streammetrics.runtime.consume.rules import WorkerRules
from tests.support.machine import engine_of
from tests.support.worker_bench import SETTINGS

INPUTS = (Input("impressions", 3), Input("feedback", 3))


@pytest.fixture
def task() -> OwnedTask:
    task = OwnedTask(Assignment(3, INPUTS), CommitRoom(WorkerRules(commit_users_max=9)))
    task.claimed(Claim(2, 5, None), engine_of(SETTINGS).open(None), now_seconds=40.0)
    return task


def test_a_claim_starts_every_part_again(task: OwnedTask) -> None:
    assert (task.number, task.inputs, task.assignment.epoch, task.assignment.seq) == (3, INPUTS, 2, 5)
    assert (task.room.users_max, task.commits.written_seconds) == (9, 40.0)
    assert task.activity.last_event_seconds == [40.0, 40.0]
    assert not task.has_uncommitted


def test_dropping_uncommitted_work_keeps_the_assignment(task: OwnedTask) -> None:
    task.backlog.add(0, [InputRecord(0, -1, b"{}")], 1)
    task.letters.letters.append(DeadLetter("bad_json", "", INPUTS[0], 0, b"{"))
    assert task.has_uncommitted
    task.drop_uncommitted()
    assert task.state is None
    assert not task.backlog
    assert not task.has_uncommitted
    assert (task.assignment.epoch, task.assignment.seq) == (2, 5)


def test_a_task_is_behind_while_an_end_is_beyond_its_offset(task: OwnedTask) -> None:
    assert task.state is not None
    task.state.progress.offsets = [4, None]
    assert not task.is_behind({INPUTS[0]: 4})
    assert task.is_behind({INPUTS[0]: 4, INPUTS[1]: 1})


def test_each_claim_has_a_new_token() -> None:
    assignment = Assignment(3, INPUTS)
    assert assignment.new_token("g") != assignment.new_token("g")


def test_pausing_returns_only_what_changes() -> None:
    activity = InputActivity()
    one, two = INPUTS
    assert activity.pause(frozenset({one})) == ({one}, set())
    assert activity.pause(frozenset({two})) == ({two}, {one})
    assert activity.pause(frozenset({two})) == (set(), set())


def test_records_end_the_idle_time_and_only_timed_events_count_as_activity() -> None:
    activity = InputActivity()
    activity.restart(2, 10.0)
    activity.idle = frozenset({0, 1})
    activity.records_came(1)
    assert activity.idle == {0}
    activity.batch_processed(1, timed=0, now_seconds=20.0, last_refusal="not JSON")
    assert activity.last_refusals == {1: "not JSON"}
    assert (activity.last_event_seconds, activity.untimed) == ([10.0, 10.0], {1})
    activity.batch_processed(1, timed=2, now_seconds=30.0)
    assert activity.last_refusals == {}
    assert (activity.last_event_seconds, activity.untimed) == ([10.0, 30.0], set())
