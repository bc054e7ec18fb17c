"""When an input is idle, and how far time passes on it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.source import Input
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Feedback, Impression
from streammetrics.runtime.consume.idle_inputs import READ_SECONDS, EventClock
from tests.oracle import Tick
from tests.support.faults import HandClock
from tests.support.native_json import native_json
from tests.support.worker_bench import (
    FAR_MS,
    SETTINGS,
    START_MS,
    Bench,
    CachedEnds,
    OneInputPerPoll,
    assert_exact,
    builder_of,
    decode,
    letter_places,
)

IDLE_MS = 30


class TestIdleInputs:
    IDLE_MS = 30

    def test_an_empty_input_holds_the_watermark_until_it_is_idle(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        bench.show(0, 100)
        bench.turn(2, seconds=0.004)
        assert bench.offsets == [2, 0]
        assert bench.watermark < 0
        bench.show(105)
        bench.turn(4)
        assert bench.watermark >= 100 - SETTINGS.out_of_orderness_ms

    def test_silence_on_every_input_makes_everything_final(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.show(0)
        bench.click(3)
        bench.turn()
        bench.clock.advance(1.0)
        bench.turn(3)
        settings, now = bench.settings, bench.clock.wall_ms()
        assert bench.watermark > now - START_MS - self.IDLE_MS - settings.out_of_orderness_ms - 20
        truth = assert_exact(bench.store, bench.logs, bench.engine, [Tick(now)], settings)
        assert truth.result.totals["matched"] == 1

    def test_inputs_of_an_unreachable_source_are_not_idle(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        bench.show(0)
        bench.turn()
        bench.source.health = replace(bench.source.health, reachable=False)
        bench.turn(100)
        assert bench.watermark < 0
        bench.source.health = replace(bench.source.health, reachable=True)
        bench.turn(2)
        assert bench.watermark >= 0

    def test_silence_counts_from_when_the_source_answers_again(self) -> None:
        """Senders could not reach it either. Their records come a little later, and one topic before the other."""
        bench = Bench(idle_ms=self.IDLE_MS, commit_bytes_max=1 << 20, commit_users_max=1_000)
        bench.show(0)
        bench.click(0)
        bench.turn(2)
        bench.source.health = replace(bench.source.health, reachable=False)
        bench.turn(100)
        bench.source.health = replace(bench.source.health, reachable=True, since=bench.clock.monotonic())
        bench.turn()
        assert bench.worker.tasks[0].activity.idle == frozenset()
        bench.click(*range(10, 1_000, 10))
        bench.turn()
        bench.show(*range(10, 1_000, 10))
        bench.turn(20)
        assert bench.letters.kept == []
        assert bench.watermark > 900

    @pytest.mark.parametrize("records", ["without an event", "malformed", "from the future"])
    def test_records_without_a_timed_event_count_as_silence(self, records: str) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        source = CachedEnds(bench)
        clicks = Input(SETTINGS.inputs[1], 0)
        ahead = native_json(Feedback("u", START_MS + FAR_MS, "a", "click"))
        value = {"without an event": b"", "malformed": b"{", "from the future": ahead}[records]
        bench.worker.runner.decode = lambda value: decode(value) if value else ()

        def run(first: int) -> None:
            for ts in range(first, first + 300, 10):
                bench.show(ts)
                bench.logs.append(clicks, value, START_MS)
                bench.turn()

        with capture_logs() as lines:
            run(0)
        assert source.ends_asked < 10
        assert bench.watermark >= 200
        [warning] = [line for line in lines if line["event"].startswith("an input has records but no valid event")]
        assert warning["topic"] == clicks.topic
        refusal = {"without an event": "", "malformed": "Input data was truncated", "from the future": "ts "}[records]
        assert warning["last_refused"].startswith(refusal)
        bench.click(300)
        run(300)
        assert bench.watermark >= 500

    def test_an_input_that_ends_with_a_broken_record_is_idle_without_a_warning(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        bench.show(0)
        bench.click(0)
        bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
        with capture_logs() as lines:
            bench.turn(10)
        assert bench.worker.tasks[0].activity.idle == {0, 1}
        assert not [line for line in lines if line["log_level"] == "warning"]

    def test_timestamps_in_seconds_are_warned_about_once(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        with capture_logs() as lines:
            bench.show(0)
            bench.click(START_MS // 1_000 - START_MS)
            bench.turn(3)
            bench.click(START_MS // 1_000 - START_MS + 20)
            bench.turn(3)
        assert [line["topic"] for line in lines if "not seconds" in line["event"]] == [SETTINGS.inputs[1]]

    @pytest.mark.parametrize("ahead_ms", [0, 5_000])
    def test_time_passes_only_as_far_as_inputs_are_known_to_be_silent(self, ahead_ms: int) -> None:
        """The store's clock decides how far that is if the clock of this machine is ahead."""
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.store.clock_of_servers = lambda: bench.clock.wall_ms() - ahead_ms
        bench.clock.step(ahead_ms)
        source = CachedEnds(bench)
        bench.show(0)
        bench.click(0)
        reached = set()
        for _ in range(60):
            bench.turn(seconds=0.007)
            unknown_ms = (bench.clock.monotonic() - (source.health.ends_asked or 0)) * 1_000
            known_ms = bench.clock.wall_ms() - ahead_ms - START_MS - unknown_ms
            assert bench.watermark <= max(0, known_ms - self.IDLE_MS) + 2  # each read of the clock advances it
            reached.add(bench.watermark)
        assert len(reached) > 5

    def test_after_the_machine_slept_time_waits_until_ends_are_known_again(self) -> None:
        """During the sleep only the wall clock and the senders go on."""
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        source = CachedEnds(bench)
        bench.show(0)
        bench.click(0)
        bench.turn(10)
        assert bench.worker.tasks[0].activity.idle == {0, 1}
        before = bench.watermark
        bench.clock.step(10_000)
        source.pause(source.inputs_of(0))  # the first records take a moment to arrive
        bench.show(*range(200, 10_000, 100))
        bench.click(*range(200, 10_000, 100))
        bench.turn(2)
        assert bench.watermark <= before + 20
        source.resume(source.inputs_of(0))
        bench.turn(20)
        assert bench.letters.kept == []
        assert bench.watermark > 9_000

    def test_an_idle_input_is_active_again_from_its_first_record_on(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, lateness_ms=0))
        for ts in range(0, 100, 10):
            bench.show(ts)
            bench.turn()
        assert bench.worker.tasks[0].activity.idle == {1}
        bench.show(200)  # processed before the click, and would make it late
        bench.click(100)
        bench.turn(2)
        assert bench.offsets == [11, 1]
        assert bench.letters.kept == []

    def test_an_input_with_events_among_other_records_is_not_idle(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        CachedEnds(bench)
        bench.click(0)
        for ts in range(0, 600, 10):
            bench.show(ts)
            for _ in range(5):
                bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
            if ts % 20 == 0:
                bench.click(ts // 10)
            bench.turn()
            assert not bench.offsets or bench.watermark <= ts // 10

    def test_an_input_with_events_beyond_a_limit_is_not_idle(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, items_max=1, gap_ms=100, attribution_ms=FAR_MS), skew_ms_max=FAR_MS)
        impressions, behind_ms = Input(SETTINGS.inputs[0], 0), 5_000
        for ts in range(0, 1_000, 10):
            fragment = Impression("r", "u", START_MS + ts, (f"i{ts}",), positions=(ts,))
            bench.logs.append(impressions, native_json(fragment))
            bench.click(ts + behind_ms)
            bench.turn()
            assert not bench.offsets or bench.watermark <= ts
        assert builder_of(bench.store, bench.engine, 1, bench.settings)[1].counts["too_many_items", impressions.topic] > 50

    def test_a_backlog_without_events_is_not_idle(self) -> None:
        bench = Bench(records_max=1, idle_ms=self.IDLE_MS, skew_ms_max=FAR_MS)
        bench.show(*range(0, 100, 10))
        for _ in range(100):
            bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
        for _ in bench.turns_until(lambda: bench.offsets == [10, 100]):
            assert not bench.offsets or bench.watermark < 0 or bench.offsets[1] == 100
        bench.turn(4)
        assert bench.watermark >= 90 - SETTINGS.out_of_orderness_ms

    def test_events_after_an_idle_time_are_judged_by_the_watermark_it_reached(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        bench.show(0, 100)
        bench.turn(5)
        reached = bench.watermark
        assert reached == 100 - SETTINGS.out_of_orderness_ms
        late, in_time = reached - SETTINGS.lateness_ms - 1, reached - SETTINGS.lateness_ms
        bench.click(late, in_time)
        bench.turn(2)
        clicks = Input(SETTINGS.inputs[1], 0)
        assert builder_of(bench.store, bench.engine, 1)[1].counts["late", clicks.topic] == 1
        assert letter_places(bench.letters.kept) == {("late", clicks, 0, bench.logs.of[clicks][0].value)}

    def test_an_idle_input_is_active_again_when_the_store_has_lost_its_last_commits(self) -> None:
        bench = Bench(idle_ms=30, commit_ms=1, skew_ms_max=1 << 40)
        bench.source = OneInputPerPoll(bench.logs)
        bench.source.give(0)
        bench.worker = bench.start_worker()
        for ts in range(6):
            bench.show(ts)
            bench.click(ts)
            bench.turn(3, seconds=0.003)
        in_step = len(bench.store.written)
        for ts in range(10, 400, 10):  # clicks are silent, impressions go on
            bench.show(ts)
            bench.turn(1, seconds=0.005)
        bench.turn(3)
        assert 1 in bench.worker.tasks[0].activity.idle
        bench.store.forget_last(0, len(bench.store.written) - in_step + 6)
        lost = bench.offsets[1]
        assert lost is not None
        assert lost < 6
        bench.show(400)
        bench.turn(60, seconds=0.001)
        counts = builder_of(bench.store, bench.engine, 1)[1].counts
        assert (counts["matched", "feedback"], counts.get(("late", "feedback"), 0)) == (6, 0)

    def test_the_events_of_one_user_count_as_silence_until_they_support_a_time(self) -> None:
        """Otherwise a task with a single user would show nothing until its row is long."""
        settings = replace(SETTINGS, idle_ms=self.IDLE_MS, support_users=5)
        bench = Bench(idle_ms=self.IDLE_MS, settings=settings)
        for _ in range(40):
            now = bench.clock.wall_ms() - START_MS
            bench.show(now)
            bench.click(now)
            bench.turn()
        assert bench.worker.tasks[0].state is not None
        assert bench.worker.tasks[0].state.progress.watermarks == [NEVER, NEVER]
        assert bench.watermark > 300
        assert bench.letters.kept == []


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
