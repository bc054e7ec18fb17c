"""Idle inputs follow the slower of two clocks, and a difference is logged once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.support.faults import HandClock
from tests.support.worker_bench import SETTINGS, START_MS, Bench


class TestStoreClock:
    IDLE_MS = 30

    @pytest.mark.parametrize("both", [False, True])
    def test_a_clock_that_is_ahead_for_a_moment_makes_no_event_late(self, both: bool) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        correct = HandClock(START_MS)
        bench.store.clock_of_servers = lambda: correct.wall_ms() if not both else bench.clock.wall_ms()
        bench.show(0)
        bench.click(0)
        bench.turn(10)
        assert bench.worker.tasks[0].activity.idle == {0, 1}
        correct.advance(bench.clock.monotonic())
        with capture_logs() as lines:
            bench.clock.step(7_200_000)
            bench.turn(10)
            bench.clock.step(-7_200_000)
            bench.turn(3)
        logged = [line for line in lines if "clocks of this machine" in line["event"]]
        assert [round(line["ahead_seconds"]) for line in logged] == ([] if both else [7_200])
        correct.advance(bench.clock.monotonic() - correct.monotonic())
        now = correct.wall_ms() - START_MS
        bench.show(now)
        bench.click(now)
        bench.turn(3)
        assert bench.letters.kept == []

    def test_clocks_that_differ_are_logged_once_for_all_servers(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, tasks=3, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.store.clock_ms = lambda task: bench.clock.wall_ms() - 15_000 * task  # type: ignore[method-assign]
        with capture_logs() as lines:
            bench.turn(200)
        logged = [(line["task"], line["ahead_seconds"]) for line in lines if "clocks of this machine" in line["event"]]
        assert logged == [(1, 15.0)]

    def test_idle_inputs_follow_the_clock_that_is_behind(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.store.clock_of_servers = lambda: START_MS + 500
        bench.show(0)
        bench.click(0)
        bench.turn(100)
        assert bench.watermark == 500 - self.IDLE_MS - SETTINGS.out_of_orderness_ms
