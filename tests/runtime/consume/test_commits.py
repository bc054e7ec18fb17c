"""When the next commit of a task is due."""

from __future__ import annotations

import pytest

from streammetrics.engine.task_state import decode_control
from tests.support.worker_bench import Bench


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
