"""What a worker keeps for one task, part by part."""

from __future__ import annotations

from random import Random

import pytest

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.connectors.store import Claim, Commit, CommitOutcome
from streammetrics.engine.task_state import decode_control
from streammetrics.events.model import Impression
from streammetrics.runtime.consume.limits import CommitRoom, WorkerRules
from streammetrics.runtime.consume.owned_task import Assignment, InputActivity, OwnedTask
from tests.support.machine import engine_of
from tests.support.native_json import native_json
from tests.support.worker_bench import NOTHING_READ, SETTINGS, START_MS, Bench, assert_exact, builder_of, decode, letter_places

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


class TestDeadLetters:
    BROKEN = b'{"type":"impression"'

    def test_letters_are_written_before_the_commit_that_counts_them(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.logs.append(Input(SETTINGS.inputs[0], 0), self.BROKEN)
        kept_at_commit = []
        commit = bench.store.commit

        def noted(offered: Commit) -> CommitOutcome:
            kept_at_commit.append(
                (decode_control(offered.changes.control).progress.offsets[0], [letter.offset for letter in bench.letters.kept])
            )
            return commit(offered)

        bench.store.commit = noted  # type: ignore[method-assign]
        bench.turn()
        assert kept_at_commit == [(2, [1])]

    def test_pending_letters_have_a_limit_in_bytes(self) -> None:
        bench = Bench(commit_ms=1_000_000, commit_bytes_max=1 << 30)
        waiting = []
        for _ in range(5):
            for _ in range(5):
                bench.logs.append(Input(SETTINGS.inputs[0], 0), bytes(2_000_000))
            bench.turn()
            waiting.append(sum(len(letter.value or b"") for letter in bench.worker.tasks[0].letters.letters))
        assert bench.offsets == NOTHING_READ
        assert waiting == [10_000_000, 0, 10_000_000, 0, 10_000_000]
        assert len(bench.letters.kept) == 20

    def test_the_rest_of_a_chunk_survives_a_failed_write_of_letters(self) -> None:
        bench = Bench(commit_ms=1_000_000, commit_users_max=100, commit_bytes_max=19_000_000)
        for _ in range(10):
            bench.logs.append(Input(SETTINGS.inputs[0], 0), bytes(2_000_000))
        bench.letters.chance, bench.letters.failures = Random(1), 1.0
        bench.turn()
        bench.letters.failures = 0.0
        bench.turn(5, seconds=10.0)
        bench.worker.finish()
        assert {letter.offset for letter in bench.letters.kept} == set(range(10))
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_record_with_many_bad_events_is_one_letter_per_reason(self) -> None:
        bench = Bench()
        lines = b"\n".join([b"{", b'{"type":"x"}', native_json(Impression("list", "u", START_MS, ("a",))), b"{", b'{"type":"y"}'])
        bench.logs.append(Input(SETTINGS.inputs[0], 0), lines)
        bench.worker.runner.decode = lambda value: [event for line in (value or b"").split(b"\n") for event in decode(line)]
        bench.turn(2)
        bench.worker.finish()
        assert [(letter.reason, letter.offset, letter.value) for letter in bench.letters.kept] == [
            ("bad_json", 0, lines),
            ("bad_type", 0, lines),
        ]
        counts = builder_of(bench.store, bench.engine, 1)[1].counts
        assert (counts["bad_json", SETTINGS.inputs[0]], counts["bad_type", SETTINGS.inputs[0]]) == (2, 2)

    def test_nothing_is_committed_while_letters_cannot_be_written(self) -> None:
        bench = Bench()
        bench.letters.chance, bench.letters.failures = Random(1), 1.0
        bench.logs.append(Input(SETTINGS.inputs[0], 0), self.BROKEN)
        bench.turn(5)
        assert bench.offsets == NOTHING_READ
        bench.letters.failures = 0.0
        bench.turn(2, seconds=10.0)
        assert bench.offsets == [1, 0]
        assert letter_places(bench.letters.kept) == {("bad_json", Input(SETTINGS.inputs[0], 0), 0, self.BROKEN)}


class TestCommitTimes:
    def test_commits_are_spaced(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=60_000, commit_bytes_max=1 << 20)
        for turn in range(100):
            bench.show(turn)
            bench.turn(seconds=0.1)
        assert 9 <= len(bench.store.written) <= 11

    def test_commits_are_fewer_while_records_wait(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=3_000, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(75))  # one is read every tenth of a second
        bench.turn(85, seconds=0.1)
        offsets = [decode_control(commit.changes.control).progress.offsets[0] for commit in bench.store.written]
        assert offsets == [0, pytest.approx(30, abs=2), pytest.approx(60, abs=4), 75]  # the last one does not wait: no record is left

    def test_a_task_that_has_caught_up_commits_at_once(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=3_000, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(65))
        bench.turn(66, seconds=0.1)
        assert bench.offsets[0] == 65  # half a second after the commit before
        bench.show(65)
        bench.turn(2, seconds=0.1)
        assert bench.offsets[0] == 65  # later commits are spaced again

    def test_a_new_owner_commits_soon_although_records_wait(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=60_000, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(100))
        bench.turn(5, seconds=0.1)
        bench.replace_worker()
        bench.turn(15, seconds=0.1)
        assert 8 <= (bench.offsets[0] or 0) <= 12
        bench.turn(30, seconds=0.1)
        assert 8 <= (bench.offsets[0] or 0) <= 12

    def test_the_time_between_commits_is_never_shorter_while_records_wait(self) -> None:
        bench = Bench(commit_ms=3_000, commit_behind_ms=0, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(100))
        bench.turn(100, seconds=0.1)
        assert 3 <= len(bench.store.written) <= 5

    def test_all_tasks_commit_at_the_same_times(self) -> None:
        bench = Bench(tasks=3, commit_ms=1_000, commit_bytes_max=1 << 20)
        written: dict[int, list[int]] = {task: [] for task in range(3)}
        for turn in range(50):
            for task in range(3):
                if turn > 7 * task:  # they begin at different times
                    bench.show(turn, task=task)
            before = len(bench.store.written)
            bench.turn(seconds=0.1)
            for commit in bench.store.written[before:]:
                written[commit.task].append(turn)
        assert written[0][-3:] == written[1][-3:] == written[2][-3:]
