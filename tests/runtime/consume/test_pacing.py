"""Which inputs are paused because they are too far ahead of a slower one."""

from __future__ import annotations

import pytest

from streammetrics.connectors.source import Input
from tests.support.worker_bench import SETTINGS, Bench, assert_exact


class TestPacing:
    SKEW_MS = 40
    IDLE_MS = 30
    RECORDS = 5

    @pytest.fixture
    def bench(self) -> Bench:
        """Impressions are ten milliseconds apart and clicks one. Read record by record, impressions get ahead."""
        bench = Bench(records_max=self.RECORDS, skew_ms_max=self.SKEW_MS)
        bench.show(*range(0, 600, 10))
        bench.click(*range(600))
        return bench

    def test_an_input_far_ahead_is_paused_until_the_slow_one_catches_up(self, bench: Bench) -> None:
        paused = []
        for _ in bench.turns_until(lambda: bench.offsets == [60, 600]):
            paused.append(bench.worker.status.paused_inputs)
            if bench.offsets and bench.offsets[1] != 600:
                assert bench.ahead_ms() <= self.SKEW_MS + 10 * self.RECORDS
        assert max(paused) == 1
        assert not bench.source.paused
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_it_is_paused_again_after_the_task_was_claimed_again(self, bench: Bench) -> None:
        for _ in bench.turns_until(lambda: bench.worker.status.paused_inputs > 0):
            pass
        bench.turn(2)
        bench.store.forget_last(0, 1)
        for _ in bench.turns_until(lambda: bench.worker.status.commits["conflict"] > 0):
            pass
        for _ in bench.turns_until(lambda: bench.offsets == [60, 600]):
            if bench.worker.tasks[0].state is not None and bench.offsets[1] != 600:
                assert bench.ahead_ms() <= self.SKEW_MS + 10 * self.RECORDS
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_an_input_at_its_end_holds_others_back_until_it_is_idle(self) -> None:
        """It also holds back the watermark, so sessions of all users of the other input would stay open."""
        bench = Bench(records_max=1, skew_ms_max=self.SKEW_MS, idle_ms=self.IDLE_MS)
        bench.show(0, 1_000, 2_000, 3_000)
        bench.click(0)
        bench.turn(10, seconds=self.IDLE_MS / 30_000)
        assert bench.offsets == [2, 1]
        assert bench.source.paused == {Input(SETTINGS.inputs[0], 0)}
        bench.turn(10, seconds=self.IDLE_MS / 2_000)
        assert bench.offsets == [4, 1]
        assert not bench.source.paused
        assert bench.watermark == 3_000 - SETTINGS.out_of_orderness_ms

    def test_an_input_that_returns_behind_the_watermark_holds_back_no_other(self) -> None:
        bench = Bench(records_max=1, skew_ms_max=self.SKEW_MS, idle_ms=self.IDLE_MS)
        bench.show(0, 1_000)
        bench.click(0)
        bench.turn(10)
        assert bench.offsets == [2, 1]
        bench.click(5)
        bench.turn()
        assert bench.worker.tasks[0].activity.idle == {0}
        bench.show(1_000 + self.SKEW_MS)
        bench.turn(2, seconds=self.IDLE_MS / 30_000)
        assert bench.offsets == [3, 2]
        assert not bench.source.paused

    def test_an_input_waits_for_one_whose_backlog_has_held_no_event_yet(self) -> None:
        bench = Bench(records_max=self.RECORDS, skew_ms_max=self.SKEW_MS)
        bench.show(*range(0, 600, 10))
        for _ in range(600):
            bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
        bench.click(600)
        for _ in bench.turns_until(lambda: bench.offsets == [60, 601]):
            if bench.offsets and bench.offsets[1] != 601:
                assert bench.offsets[0] == self.RECORDS
                assert bench.source.paused == {Input(SETTINGS.inputs[0], 0)}
        assert not bench.source.paused
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_inputs_without_any_event_yet_are_not_paused(self) -> None:
        bench = Bench(records_max=1, skew_ms_max=self.SKEW_MS, idle_ms=self.IDLE_MS)
        for place in bench.logs.of:
            for _ in range(10):
                bench.logs.append(place, b"{")
        for _ in bench.turns_until(lambda: bench.offsets == [10, 10]):
            assert not bench.source.paused
        bench.show(*range(0, 1_000, 100))
        for _ in bench.turns_until(lambda: bench.offsets == [20, 10]):
            assert not bench.source.paused
