"""The worker's loop: shutdown, rebalances, outages. `tests.tools.simulation` has everything together, in an order that a seed decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from structlog.testing import capture_logs

from streammetrics.connectors.source import Input
from streammetrics.engine.task_state import decode_control
from streammetrics.errors import GaveUp, MalformedEvent, SourceError, StoreError
from streammetrics.events import Event
from streammetrics.events.model import Impression
from streammetrics.events.record import Later
from streammetrics.runtime.consume.consumer import REPLY_SECONDS
from streammetrics.runtime.consume.limits import FETCH_LEAD_SECONDS
from tests.support.faults import FaultyStore, HandClock, KeptLetters, Logs, LogSource, SlowNetwork
from tests.support.machine import engine_of
from tests.support.native_json import native_json
from tests.support.worker_bench import (
    NEVER_AHEAD,
    NOTHING_READ,
    RULES,
    SETTINGS,
    START_MS,
    Bench,
    CachedEnds,
    NothingArrives,
    assert_exact,
    decode,
    worker_over,
)

TASKS = 3


class TestShutdown:
    def test_a_poll_is_short_while_a_commit_is_in_flight(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bench = Bench()
        network = SlowNetwork(NothingArrives())
        bench.replace_worker(commits=network)
        network.let_all_arrive()
        bench.turn()
        polls: list[float] = []
        poll = bench.source.poll
        monkeypatch.setattr(bench.source, "poll", lambda *seconds: polls.append(seconds[0]) or poll(*seconds))
        bench.turn()
        bench.show(0)
        bench.turn(2)
        network.let_all_arrive()
        bench.turn(2)
        assert bench.offsets == [1, 0]
        assert polls == [0.2, 0.2, REPLY_SECONDS, REPLY_SECONDS, 0.2]

    def test_shutdown_commits_processed_records_and_closes_everything(self) -> None:
        bench = Bench(commit_ms=1_000_000)
        bench.show(0, 1, 2)
        bench.turn()
        assert bench.offsets == NOTHING_READ
        bench.worker.finish()
        assert bench.offsets == [3, 0]
        assert bench.source.acknowledged == {Input(SETTINGS.inputs[0], 0): 3, Input(SETTINGS.inputs[1], 0): 0}
        assert bench.source.closed
        assert bench.letters.closed

    def test_shutdown_gives_up_on_a_store_that_stays_unreachable(self) -> None:
        bench = Bench(commit_ms=1_000_000)
        bench.show(0)
        bench.turn()
        bench.store.failures = 1.0
        bench.clock.look_seconds = 0.5
        before = bench.clock.monotonic()
        bench.worker.finish(patience_seconds=3.0)
        assert 3.0 <= bench.clock.monotonic() - before < 10.0
        bench.clock.look_seconds = 0.0
        assert bench.source.closed
        bench.store.calm()
        bench.replace_worker()
        bench.turn()
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)


class TestCollectedRecords:
    """How long the log may hold back records. The poll's second number is that."""

    def bench(self) -> Bench:
        bench = Bench(commit_ms=1_000, commit_bytes_max=1 << 20)
        bench.turn(12, seconds=0.1)
        for number in range(2):  # the first one is committed at once, and the second one waits
            bench.show(number)
            bench.turn(seconds=0.1)
        return bench

    def test_records_wait_for_the_next_commit(self) -> None:
        bench = self.bench()
        bench.turn(seconds=0.1)
        timeout_s, collect_s = bench.source.last_poll
        next_in = bench.worker.runner.schedule.next_in(bench.clock.monotonic())
        assert timeout_s <= 0.2
        assert collect_s == pytest.approx(next_in - FETCH_LEAD_SECONDS, abs=0.01)

    def test_a_poll_ends_when_a_commit_is_due(self) -> None:
        bench = self.bench()
        schedule = bench.worker.runner.schedule
        bench.clock.advance(schedule.next_in(bench.clock.monotonic()) - 0.03)
        bench.worker.turn()
        assert bench.source.last_poll[0] == pytest.approx(0.03, abs=0.01)

    def test_nothing_waits_while_there_is_nothing_to_commit(self) -> None:
        """The first record after silence is committed at once."""
        bench = self.bench()
        bench.turn(20, seconds=0.1)
        assert bench.offsets[0] == 2
        assert bench.source.last_poll[1] == 0.0

    def test_nothing_waits_while_records_wait_to_be_read(self) -> None:
        bench = Bench(commit_ms=1_000, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(50))
        bench.turn(25, seconds=0.1)
        assert bench.source.last_poll[1] == 0.0

    def test_records_that_came_since_the_check_before_do_not_count_as_a_backlog(self) -> None:
        """In live traffic each check of the ends finds records that wait for the next fetch."""
        bench = Bench(commit_ms=1_000, commit_behind_ms=60_000, commit_bytes_max=1 << 20)
        source = CachedEnds(bench)
        for turn in range(40):
            bench.turn(seconds=0.1)
            bench.show(turn)  # after the poll, so that each check sees a record that is not read yet
        assert source.ends_asked > 5
        assert 3 <= len(bench.store.written) <= 6


class TestRebalances:
    def test_a_rebalance_is_logged_in_one_line(self) -> None:
        source = LogSource(Logs(SETTINGS.inputs, TASKS))
        worker = worker_over(engine_of(SETTINGS), source, FaultyStore(), KeptLetters(), RULES, HandClock(START_MS))
        source.give(0, 1)
        worker.turn()
        source.take_away(0, 1)
        source.give(1, 2)
        with capture_logs() as lines:
            worker.turn()
        assert [line for line in lines if line["event"] != "task claimed"] == [
            {"event": "tasks reassigned", "lost": [0], "kept": [1], "gained": [2], "log_level": "info"}
        ]

    def test_a_rebalance_that_takes_two_polls_counts_once(self) -> None:
        """A member first loses all its tasks, and gets its new share in a later poll."""
        source = LogSource(Logs(SETTINGS.inputs, TASKS))
        worker = worker_over(engine_of(SETTINGS), source, FaultyStore(), KeptLetters(), RULES, HandClock(START_MS))

        def counted(lost: Sequence[int] = (), gained: Sequence[int] = ()) -> int:
            source.take_away(*lost)
            source.give(*gained)
            worker.turn()
            return worker.status.rebalances

        assert counted(gained=[0, 1]) == 1
        assert counted(lost=[0, 1]) == 2
        assert counted() == 2
        assert counted(gained=[0]) == 2
        assert counted(lost=[0], gained=[0, 1]) == 3
        assert counted(gained=[2]) == 4

    def test_a_revoked_task_is_not_committed(self) -> None:
        bench = Bench(commit_ms=50)
        bench.show(0)
        bench.turn(2)
        bench.source.take_away(0)
        bench.turn(20)
        assert bench.offsets == NOTHING_READ
        assert not bench.worker.tasks


class TestPartOfTheStoreUnreachable:
    @pytest.mark.parametrize("later", [False, True], ids=["from the start", "later"])
    def test_tasks_on_the_other_servers_are_committed(self, later: bool) -> None:
        engine, clock, store, letters = engine_of(SETTINGS), HandClock(START_MS), FaultyStore(), KeptLetters()
        logs = Logs(SETTINGS.inputs, 3)
        source = LogSource(logs, records_max=5)
        source.give(0, 1, 2)
        worker = worker_over(engine, source, store, letters, replace(RULES, skew_ms_max=NEVER_AHEAD), clock)

        def run(first: int) -> None:
            for number in range(first, first + 20):
                for task in range(3):
                    impression = Impression(f"list-{number}", f"u{task}-{number}", START_MS + number, ("a",))
                    logs.append(Input(SETTINGS.inputs[0], task), native_json(impression))
                clock.advance(0.1)
                worker.turn()

        def read() -> dict[int, int | None]:
            return {task: decode_control(view.control).progress.offsets[0] for task, view in store.view(range(3), {}).items()}

        if later:
            run(0)
        store.unreachable = {1}
        before = read()
        run(20)
        assert {task: read().get(task) for task in (0, 2)} == dict.fromkeys((0, 2), 40 if later else 20)
        assert read().get(1) == before.get(1)
        assert worker.status.store_trouble is not None
        assert {place.partition for place in source.paused} == ({1} if later else set())
        store.unreachable = set()
        clock.advance(10.0)
        run(40)
        worker.finish()
        assert worker.status.store_trouble is None
        assert_exact(store, logs, engine)

    def test_the_trouble_of_a_revoked_task_is_cleared(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.store.unreachable = {0}
        bench.turn(2)
        assert bench.worker.status.store_trouble is not None
        bench.source.take_away(0)
        bench.turn(2)
        assert bench.worker.tasks == {}
        assert bench.worker.status.store_trouble is None


class TestOutages:
    def test_an_unreachable_store_is_waited_for_and_shown_in_the_status(self) -> None:
        bench = Bench()
        bench.turn()
        bench.store.failures = 1.0
        bench.show(0)
        bench.turn(10)
        assert bench.worker.status.store_trouble is not None
        assert not bench.worker.status.ready
        assert bench.source.paused == set(bench.source.inputs_of(0))
        bench.store.calm()
        bench.turn(2, seconds=10.0)
        assert bench.worker.status.store_trouble is None
        assert bench.worker.status.ready
        assert not bench.source.paused
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_source_that_fails_at_once_is_not_polled_in_a_busy_loop(self) -> None:
        bench = Bench()
        bench.turn()
        bench.source.chance, bench.source.failures = Random(1), 1.0
        before = bench.clock.monotonic()
        for _ in range(50):
            bench.worker.turn(timeout_s=0.2)
        assert bench.clock.monotonic() - before >= 50 * 0.2

    def test_a_source_that_fails_now_and_then_is_logged_once_until_it_recovers(self) -> None:
        bench = Bench()
        bench.turn()
        bench.source.chance, bench.source.failures = Random(1), 0.5
        with capture_logs() as logs:
            bench.turn(200, seconds=0.05)
            assert bench.worker.status.source_trouble is not None
            bench.source.failures = 0.0
            bench.show(0)
            bench.turn(2, seconds=6.0)
        assert [entry["event"] for entry in logs if entry["log_level"] == "warning"] == ["source unavailable, trying again"]
        assert bench.worker.status.source_trouble is None
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_unreachable_brokers_are_shown_before_the_failures_that_follow(self) -> None:
        bench = Bench()
        bench.turn()
        bench.letters.chance, bench.letters.failures = Random(1), 1.0
        bench.logs.append(Input(SETTINGS.inputs[0], 0), b"{")
        bench.turn(2)
        trouble = bench.worker.status.source_trouble
        assert trouble is not None
        assert trouble.message == "the dead letters' log does not answer"
        bench.source.health = replace(bench.source.health, reachable=False, last_error="connection refused")
        bench.turn()
        assert bench.worker.status.source_trouble == replace(trouble, message="connection refused")

    @pytest.mark.parametrize("fault", [StoreError, SourceError])
    def test_the_worker_gives_up_after_retry_seconds_max(self, fault: type[Exception]) -> None:
        bench = Bench(retry_seconds_max=30.0)
        bench.turn()
        bench.show(0)
        if fault is StoreError:
            bench.store.failures = 1.0
        else:
            bench.source.chance, bench.source.failures = Random(1), 1.0
        before = bench.clock.monotonic()
        with pytest.raises(fault):
            bench.turn(100, seconds=1.0)
        assert bench.clock.monotonic() - before > 30


class TestRecordsThatCannotBeReadYet:
    """A reader raises `Later` for some records: their inputs wait there, in order, and others go on."""

    def setup_method(self) -> None:
        self.blocked: set[bytes] = set()
        self.bench = Bench()
        self.bench.replace_worker(topic_decoders=dict.fromkeys(SETTINGS.inputs, self.decode))

    def decode(self, value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value in self.blocked:
            raise Later("the registry is away")
        return decode(value)

    def block(self, topic: int, offset: int) -> None:
        self.blocked = {self.bench.logs.of[Input(SETTINGS.inputs[topic], 0)][offset].value or b""}

    def test_the_input_waits_and_says_why(self) -> None:
        bench = self.bench
        bench.show(0, 1, 2, 3)
        bench.click(4, 5)
        self.block(0, 2)
        bench.turn(20)
        assert bench.offsets == [2, 2]
        trouble = bench.worker.status.reader_trouble
        assert trouble is not None
        assert trouble.message == f"{SETTINGS.inputs[0]} [0] waits: the registry is away"
        assert trouble.failures > 1
        assert not bench.worker.status.ready
        assert bench.source.paused == {Input(SETTINGS.inputs[0], 0)}

    def test_when_the_record_can_be_read_the_results_are_those_without_the_wait(self) -> None:
        bench = self.bench
        for turn in range(6):
            bench.show(*range(10 * turn, 10 * turn + 5))
            bench.click(*range(10 * turn + 5, 10 * turn + 8))
            self.block(0, 5 * turn + 3)
            bench.turn(2, seconds=1.0)
        assert bench.offsets[0] == 28
        self.blocked = set()
        bench.turn(20)
        assert bench.worker.status.reader_trouble is None
        assert bench.worker.status.ready
        assert not bench.source.paused
        assert bench.offsets == [30, 18]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_waiting_input_is_not_idle(self) -> None:
        bench = self.bench
        bench.show(0, 1)
        bench.turn()
        self.block(0, 1)
        bench.turn(100, seconds=1.0)
        assert bench.worker.tasks[0].activity.idle <= {1}

    def test_shutdown_commits_what_was_read_before(self) -> None:
        bench = self.bench
        bench.show(0, 1, 2)
        self.block(0, 1)
        bench.turn()
        bench.worker.finish()
        assert bench.offsets[0] == 1

    def test_a_store_that_fails_meanwhile_loses_no_record(self) -> None:
        bench = self.bench
        bench.show(0, 1, 2, 3)
        self.block(0, 2)
        bench.store.failures = 1.0
        bench.turn(5)
        bench.store.calm()
        self.blocked = set()
        bench.turn(10, seconds=5.0)
        assert bench.offsets[0] == 4
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_the_worker_gives_up_after_retry_seconds_max(self) -> None:
        bench = Bench(retry_seconds_max=60.0)
        bench.replace_worker(topic_decoders=dict.fromkeys(SETTINGS.inputs, self.decode))
        bench.show(0)
        self.blocked = {bench.logs.of[Input(SETTINGS.inputs[0], 0)][0].value or b""}
        bench.turn(10)
        with pytest.raises(GaveUp, match=r"waited for more than worker.retry_seconds_max = 60.0 s: .* the registry is away"):
            bench.turn(10, seconds=10.0)


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
