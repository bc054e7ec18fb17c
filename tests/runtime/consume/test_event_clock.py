"""The time that events show, and where a worker without events of its own gets it from."""

from __future__ import annotations

from dataclasses import replace

from streammetrics.connectors.memory import MemoryStore
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.runtime.consume.event_clock import READ_SECONDS, EventClock
from tests.support.faults import HandClock
from tests.support.worker_bench import SETTINGS, START_MS, Bench

IDLE_MS = 30


def test_the_greatest_time_is_carried_on_by_the_monotonic_clock() -> None:
    clock = EventClock(MemoryStore())
    assert clock.at(5.0) == NEVER
    clock.note(10_000, 5.0)
    clock.note(10_500, 6.0)  # by now it is 11,000
    clock.note(FOREVER, 6.0)
    assert (clock.at(5.0), clock.at(7.5)) == (10_000, 12_500)
    clock.note(20_000, 8.0)
    assert clock.at(8.0) == 20_000


def test_a_worker_with_silent_inputs_only_reads_the_times_of_others() -> None:
    bench = Bench(tasks=2, idle_ms=IDLE_MS)
    bench.store.announce(2)
    bench.show(100)
    bench.click(100)
    bench.turn(5)
    clock = EventClock(bench.store)
    clock.read_others([0], 1.0)
    assert clock.at(1.0) == NEVER  # the other task has no event
    clock.read_others([1], 1.0 + READ_SECONDS / 2)
    assert clock.at(1.0) == NEVER  # too soon
    clock.read_others([1], 1.0 + READ_SECONDS)
    assert clock.at(1.0 + READ_SECONDS) == START_MS + 100


def test_clocks_that_are_a_day_ahead_make_no_event_late() -> None:
    bench = Bench(idle_ms=IDLE_MS, settings=replace(SETTINGS, idle_ms=IDLE_MS))
    bench.clock.step(86_400_000)
    bench.store.clock_of_servers = bench.clock.wall_ms
    bench.show(0)
    bench.click(0)
    bench.turn(60)
    right = HandClock(START_MS)
    right.advance(bench.clock.monotonic())
    assert 0 < bench.watermark <= right.wall_ms() - START_MS
    now = right.wall_ms() - START_MS
    bench.show(now)
    bench.click(now)
    bench.turn(3)
    assert bench.letters.kept == []


def test_without_any_event_the_clocks_move_no_watermark() -> None:
    bench = Bench(idle_ms=IDLE_MS)
    bench.turn(20)
    state = bench.worker.tasks[0].state
    assert state is not None
    assert state.progress.watermark == NEVER
