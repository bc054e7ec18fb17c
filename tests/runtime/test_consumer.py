"""The worker against brute force: whatever fails, moves or crashes, the stored integers are those of the logs alone."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from structlog.testing import capture_logs

from streammetrics.connectors.base import READ_SLICE, Commit, CommitOutcome, Input
from streammetrics.engine.codec import decode_control
from streammetrics.engine.engine import Needs
from streammetrics.engine.experiment_runs import ExperimentRules
from streammetrics.errors import SourceError, StateError, StoreError
from streammetrics.events.model import Event, Feedback, Impression
from streammetrics.runtime import consumer, task_runner
from streammetrics.runtime.chunk import Chunk
from streammetrics.runtime.consumer import REPLY_SECONDS, Worker
from streammetrics.runtime.owned_task import OwnedTask
from streammetrics.runtime.prefetch import Prefetch
from streammetrics.runtime.rules import WorkerRules
from tests.oracle import Step, Tick
from tests.support.brute_force import FOR_EVER_MS
from tests.support.faults import FaultyStore, HandClock, KeptLetters, Logs, LogSource, Underway
from tests.support.machine import engine_of
from tests.support.native_json import native_json
from tests.support.strategies import ACTIONS, EXPERIMENTS, SEGMENTS, VALUES, seeds
from tests.support.worker_bench import (
    FAR_MS,
    NEVER_AHEAD,
    NOTHING_READ,
    REACH,
    RULES,
    SETTINGS,
    START_MS,
    TURNS_MAX,
    Bench,
    Glancing,
    OneAtATime,
    Slow,
    assert_exact,
    builder_of,
    decode,
    letter_places,
    settled,
    worker_over,
)

SEEDS = seeds()
TASKS = 3


def written_by(chance: Random, task: int, now: int) -> tuple[str, bytes, int]:
    """One record for a task: its topic, its bytes and its own time. Some are late, some again, some from the future, some broken."""
    topic = chance.choice(SETTINGS.inputs)
    user = f"u{task}-{chance.randrange(4)}"
    ts = now - chance.choice((0, 0, 0, 1, 2, 3, 7, 12))
    identity = chance.choice("wxyz")
    items = tuple(chance.choices("abc", k=chance.randint(0, 4)))
    if chance.random() < 0.05:
        return topic, chance.choice((b"", b"{", b'{"type":"feedback"}', b"\xff")), -1
    event: Event
    if topic == SETTINGS.inputs[0]:
        positions = tuple(sorted(chance.sample(range(6), len(items)))) if chance.random() < 0.3 else None
        event = Impression(identity, user, ts, items, chance.choice(EXPERIMENTS), chance.choice(SEGMENTS), positions)
    else:
        known = identity if chance.random() < 0.7 else None
        event = Feedback(user, ts, chance.choice("abc"), chance.choice(ACTIONS), chance.choice(VALUES), known)
    record_ms = chance.choice((-1, -1, -1, ts, ts - SETTINGS.future_ms, ts - SETTINGS.future_ms - 1))
    return topic, native_json(event), record_ms


class Simulation:
    """Two workers over the same logs and the same store, and a seed that decides what happens to them."""

    def __init__(self, seed: int) -> None:
        random.seed(seed)  # the worker's own jitter
        self.chance = Random(seed)
        self.engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=FOR_EVER_MS), reach=REACH)
        self.clock = HandClock(START_MS)
        self.logs = Logs(SETTINGS.inputs, TASKS)
        self.store = FaultyStore(self.chance, failures=0.08, thefts=0.03)
        self.letters = KeptLetters(chance=self.chance, failures=0.05)
        self.underway = Underway(self.chance)
        self.owner = dict.fromkeys(range(TASKS), 0)
        self.message: dict[int, set[int]] = {0: set(), 1: set()}
        self.workers = [self.hire(number) for number in (0, 1)]
        self.now = START_MS
        self.crashes = self.rollbacks = self.losses = 0

    def hire(self, number: int, rules: WorkerRules = RULES) -> Worker:
        """A new worker, who is given what is his."""
        source = LogSource(self.logs, records_max=5, chance=self.chance, failures=0.03)
        self.message[number] = {task for task, owner in self.owner.items() if owner == number}
        source.give(*self.message[number])
        return worker_over(self.engine, source, self.store, self.letters, rules, self.clock, commits=self.underway)

    def happen(self) -> None:
        """One thing that the seed chooses."""
        number = self.chance.randrange(2)
        fate = self.chance.random()
        if fate < 0.55:
            self.turn(number)
        elif fate < 0.60:
            self.underway.let_one_arrive()
        elif fate < 0.80:
            self.write(self.chance.randint(1, 6))
        elif fate < 0.88:
            self.clock.advance(self.chance.choice((0.001, 0.004, 0.05)))
        elif fate < 0.92:
            self.owner[self.chance.randrange(TASKS)] = number
        elif fate < 0.96:
            self.tell(number)
        elif fate < 0.985:
            self.crashes += 1
            self.workers[number] = self.hire(number)
        else:
            self.rollbacks += 1
            self.store.forget_last(self.chance.randrange(TASKS), self.chance.choice((1, 2, 3, 6, 6, 1_000)))

    def turn(self, number: int) -> None:
        """One turn of a worker. He stops where the store has lost everything, and is started again."""
        try:
            self.workers[number].turn()
        except StateError as error:
            if "lost all state" not in str(error):
                raise
            self.losses += 1
            self.workers[number] = self.hire(number)

    def tell(self, number: int) -> None:
        """Let a worker learn what is his. Until then he works on what is no longer his, and not on what has become his."""
        mine = {task for task, owner in self.owner.items() if owner == number}
        source = self.workers[number].source
        assert isinstance(source, LogSource)
        source.take_away(*self.message[number] - mine)
        source.give(*mine - self.message[number])
        self.message[number] = mine

    def write(self, count: int) -> None:
        for _ in range(count):
            self.now += self.chance.choice((0, 0, 0, 1, 1, 2, 3, 7, 8))
            task = self.chance.randrange(TASKS)
            topic, value, record_ms = written_by(self.chance, task, self.now)
            self.logs.append(Input(topic, task), value, record_ms)

    def write_ends(self) -> None:
        """A last event on every input, so far ahead that all that was before is over."""
        for place in self.logs.of:
            user, ts = f"end-{place.partition}", self.now + FAR_MS
            shown = Impression("end", user, ts, ("a",))
            self.logs.append(place, native_json(shown if place.topic == SETTINGS.inputs[0] else Feedback(user, ts, "a", "click")))

    def compare_and_set(self, rules: WorkerRules = RULES, sessions_open: int = 0) -> None:
        """All is well again, and one worker takes all that is left, until each task has come down to this many sessions."""
        self.store.calm()
        self.letters.failures = 0.0
        self.owner = dict.fromkeys(range(TASKS), 0)
        self.workers = [self.hire(0, rules)]
        assert isinstance(self.workers[0].source, LogSource)
        self.workers[0].source.failures = 0.0
        for _ in range(TURNS_MAX):
            self.workers[0].turn()
            self.clock.advance(0.004)
            if settled(self.store, self.logs, sessions_open):
                break
        self.workers[0].finish()
        self.underway.let_all_arrive()


class TestSimulation:
    @pytest.fixture(autouse=True)
    def small_chunks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """So that most chunks have one after them, whose users are asked for ahead."""
        monkeypatch.setattr(consumer, "CHUNK_RECORDS_MAX", 2)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_what_fails_moves_and_crashes_changes_no_integer(self, seed: int) -> None:
        world = Simulation(seed)
        for _ in range(300):
            world.happen()
        if seed % 2:
            world.write_ends()
            world.compare_and_set(sessions_open=1)
            after: list[Step] = []
        else:
            world.clock.advance(FAR_MS)
            world.compare_and_set(replace(RULES, idle_ms=SETTINGS.idle_ms))
            after = [Tick(world.clock.wall_ms())]
        truth = assert_exact(world.store, world.logs, world.engine, after)
        assert letter_places(world.letters.kept) == truth.refused

    def test_ten_seeds_together_see_every_fault(self) -> None:
        seen: Counter[str] = Counter()
        names = ("written", "already", "fenced", "conflict", "crashes", "rollbacks", "losses")
        for seed in SEEDS[:10]:
            if all(seen[name] for name in names):
                break
            world = Simulation(seed)
            for _ in range(300):
                world.happen()
            seen.update(outcome.value for outcome in world.store.outcomes)
            seen += Counter(crashes=world.crashes, rollbacks=world.rollbacks, losses=world.losses)
        assert [name for name in names if not seen[name]] == []


class TestPacing:
    SKEW_MS = 40
    IDLE_MS = 30
    RECORDS = 5

    @pytest.fixture
    def bench(self) -> Bench:
        """Impressions ten milliseconds apart and clicks one: read record by record, impressions run away."""
        bench = Bench(records_max=self.RECORDS, skew_ms_max=self.SKEW_MS)
        bench.show(*range(0, 600, 10))
        bench.click(*range(600))
        return bench

    def test_an_input_far_ahead_waits_for_the_slow_one(self, bench: Bench) -> None:
        paused = []
        for _ in bench.turns_until(lambda: bench.offsets == [60, 600]):
            paused.append(bench.worker.status.paused_inputs)
            if bench.offsets and bench.offsets[1] != 600:
                assert bench.ahead_ms() <= self.SKEW_MS + 10 * self.RECORDS
        assert max(paused) == 1
        assert not bench.source.paused
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_it_waits_as_well_after_the_task_was_claimed_anew(self, bench: Bench) -> None:
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

    def test_an_input_that_is_read_to_its_end_is_waited_for_until_it_is_idle(self) -> None:
        """It holds back the watermark as long: a session would stay open for every user that the other one runs through."""
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

    def test_an_input_that_comes_back_behind_the_watermark_holds_back_nobody(self) -> None:
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

    def test_an_input_waits_for_a_backlog_that_has_held_no_event_yet(self) -> None:
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

    def test_inputs_that_have_held_no_event_yet_wait_for_nobody(self) -> None:
        bench = Bench(records_max=1, skew_ms_max=self.SKEW_MS, idle_ms=self.IDLE_MS)
        for place in bench.logs.of:
            for _ in range(10):
                bench.logs.append(place, b"{")
        for _ in bench.turns_until(lambda: bench.offsets == [10, 10]):
            assert not bench.source.paused
        bench.show(*range(0, 1_000, 100))
        for _ in bench.turns_until(lambda: bench.offsets == [20, 10]):
            assert not bench.source.paused


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

    def test_a_source_that_cannot_be_reached_is_not_idle(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        bench.show(0)
        bench.turn()
        bench.source.health = replace(bench.source.health, reachable=False)
        bench.turn(100)
        assert bench.watermark < 0
        bench.source.health = replace(bench.source.health, reachable=True)
        bench.turn(2)
        assert bench.watermark >= 0

    def test_silence_is_counted_from_when_the_source_answers_again(self) -> None:
        """Who sends was without it, too: what it could not send comes a little later, and from one topic before the other."""
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
    def test_records_in_which_no_event_counts_are_silence(self, records: str) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        source = Glancing(bench)
        clicks = Input(SETTINGS.inputs[1], 0)
        ahead = native_json(Feedback("u", START_MS + FAR_MS, "a", "click"))
        value = {"without an event": b"", "malformed": b"{", "from the future": ahead}[records]
        bench.worker.runner.decode = lambda value: decode(value) if value else ()

        def go_on(first: int) -> None:
            for ts in range(first, first + 300, 10):
                bench.show(ts)
                bench.logs.append(clicks, value, START_MS)
                bench.turn()

        with capture_logs() as lines:
            go_on(0)
        assert source.glances < 10
        assert bench.watermark >= 200
        assert [line["topic"] for line in lines if line["event"].startswith("an input has records but no valid event")] == [clicks.topic]
        bench.click(300)
        go_on(300)
        assert bench.watermark >= 500

    def test_an_input_that_ends_with_a_broken_record_is_silent_and_not_told_of(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        bench.show(0)
        bench.click(0)
        bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
        with capture_logs() as lines:
            bench.turn(10)
        assert bench.worker.tasks[0].activity.idle == {0, 1}
        assert not [line for line in lines if line["log_level"] == "warning"]

    def test_an_input_whose_times_seem_to_be_seconds_is_told_of_once(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        with capture_logs() as lines:
            bench.show(0)
            bench.click(START_MS // 1_000 - START_MS)
            bench.turn(3)
            bench.click(START_MS // 1_000 - START_MS + 20)
            bench.turn(3)
        assert [line["topic"] for line in lines if "not seconds" in line["event"]] == [SETTINGS.inputs[1]]

    @pytest.mark.parametrize("ahead_ms", [0, 5_000])
    def test_time_passes_only_as_far_as_inputs_were_seen_to_be_silent(self, ahead_ms: int) -> None:
        """By the clock of the store as well, which alone says how far that is when this machine's is ahead."""
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.store.clock_of_servers = lambda: bench.clock.wall_ms() - ahead_ms
        bench.clock.step(ahead_ms)
        source = Glancing(bench)
        bench.show(0)
        bench.click(0)
        reached = set()
        for _ in range(60):
            bench.turn(seconds=0.007)
            unseen_ms = (bench.clock.monotonic() - (source.health.ends_asked or 0)) * 1_000
            seen_ms = bench.clock.wall_ms() - ahead_ms - START_MS - unseen_ms
            assert bench.watermark <= max(0, seen_ms - self.IDLE_MS) + 2  # each look at the clock takes a moment
            reached.add(bench.watermark)
        assert len(reached) > 5

    def test_after_a_sleep_of_the_machine_time_waits_for_the_next_look(self) -> None:
        """Of its two clocks only the one on the wall goes on in it, and so do those who send."""
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        source = Glancing(bench)
        bench.show(0)
        bench.click(0)
        bench.turn(10)
        assert bench.worker.tasks[0].activity.idle == {0, 1}
        before = bench.watermark
        bench.clock.step(10_000)
        source.pause(source.inputs_of(0))  # the first records take a moment
        bench.show(*range(200, 10_000, 100))
        bench.click(*range(200, 10_000, 100))
        bench.turn(2)
        assert bench.watermark <= before + 20
        source.resume(source.inputs_of(0))
        bench.turn(20)
        assert bench.letters.kept == []
        assert bench.watermark > 9_000

    @pytest.mark.parametrize("both", [False, True])
    def test_a_clock_that_is_ahead_for_a_moment_makes_nothing_late(self, both: bool) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        right = HandClock(START_MS)
        bench.store.clock_of_servers = lambda: right.wall_ms() if not both else bench.clock.wall_ms()
        bench.show(0)
        bench.click(0)
        bench.turn(10)
        assert bench.worker.tasks[0].activity.idle == {0, 1}
        right.advance(bench.clock.monotonic())
        with capture_logs() as lines:
            bench.clock.step(7_200_000)
            bench.turn(10)
            bench.clock.step(-7_200_000)
            bench.turn(3)
        told = [line for line in lines if "clocks of this machine" in line["event"]]
        assert [round(line["ahead_seconds"]) for line in told] == ([] if both else [7_200])
        right.advance(bench.clock.monotonic() - right.monotonic())
        now = right.wall_ms() - START_MS
        bench.show(now)
        bench.click(now)
        bench.turn(3)
        assert [letter.reason for letter in bench.letters.kept] == ["late", "late"] * both

    def test_however_many_clocks_of_servers_differ_and_others_do_not_it_is_told_once(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, tasks=3, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.store.clock_ms = lambda task: bench.clock.wall_ms() - 15_000 * task  # type: ignore[method-assign]
        with capture_logs() as lines:
            bench.turn(200)
        told = [(line["task"], line["ahead_seconds"]) for line in lines if "clocks of this machine" in line["event"]]
        assert told == [(1, 15.0)]

    def test_of_two_clocks_the_one_that_is_behind_says_how_far_silent_inputs_have_come(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, idle_ms=self.IDLE_MS))
        bench.store.clock_of_servers = lambda: START_MS + 500
        bench.show(0)
        bench.click(0)
        bench.turn(100)
        assert bench.watermark == 500 - self.IDLE_MS - SETTINGS.out_of_orderness_ms

    def test_an_input_that_speaks_again_is_waited_for_from_its_first_record_on(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, lateness_ms=0))
        for ts in range(0, 100, 10):
            bench.show(ts)
            bench.turn()
        assert bench.worker.tasks[0].activity.idle == {1}
        bench.show(200)  # taken before the click, which it would make late
        bench.click(100)
        bench.turn(2)
        assert bench.offsets == [11, 1]
        assert bench.letters.kept == []

    def test_an_input_whose_events_come_among_other_records_is_not_silent(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS)
        Glancing(bench)
        bench.click(0)
        for ts in range(0, 600, 10):
            bench.show(ts)
            for _ in range(5):
                bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
            if ts % 20 == 0:
                bench.click(ts // 10)
            bench.turn()
            assert not bench.offsets or bench.watermark <= ts // 10

    def test_an_input_whose_events_are_refused_by_a_limit_is_not_silent(self) -> None:
        bench = Bench(idle_ms=self.IDLE_MS, settings=replace(SETTINGS, items_max=1, gap_ms=100, attribution_ms=FAR_MS), skew_ms_max=FAR_MS)
        impressions, behind_ms = Input(SETTINGS.inputs[0], 0), 5_000
        for ts in range(0, 1_000, 10):
            fragment = Impression("r", "u", START_MS + ts, (f"i{ts}",), positions=(ts,))
            bench.logs.append(impressions, native_json(fragment))
            bench.click(ts + behind_ms)
            bench.turn()
            assert not bench.offsets or bench.watermark <= ts
        assert builder_of(bench.store, bench.engine, 1, bench.settings)[1].counts["too_many_items", impressions.topic] > 50

    def test_a_backlog_in_which_no_event_counts_is_not_silence(self) -> None:
        bench = Bench(records_max=1, idle_ms=self.IDLE_MS, skew_ms_max=FAR_MS)
        bench.show(*range(0, 100, 10))
        for _ in range(100):
            bench.logs.append(Input(SETTINGS.inputs[1], 0), b"{")
        for _ in bench.turns_until(lambda: bench.offsets == [10, 100]):
            assert not bench.offsets or bench.watermark < 0 or bench.offsets[1] == 100
        bench.turn(4)
        assert bench.watermark >= 90 - SETTINGS.out_of_orderness_ms

    def test_what_comes_after_an_idle_time_is_judged_by_where_time_stood(self) -> None:
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

    def test_an_input_that_was_idle_is_waited_for_when_the_store_has_lost_what_was_read_of_it(self) -> None:
        bench = Bench(idle_ms=30, commit_ms=1, skew_ms_max=1 << 40)
        bench.source = OneAtATime(bench.logs)
        bench.source.give(0)
        bench.worker = bench.hire()
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


class TestCommits:
    @pytest.mark.parametrize(("users_max", "users"), [(1, 30), (10, 300), (1_100, 2_500)])
    def test_no_commit_writes_more_users_than_its_bound(self, users_max: int, users: int) -> None:
        bench = Bench(commit_users_max=users_max, commit_bytes_max=1 << 20, commit_ms=1_000, records_max=5_000)
        for number in range(users):
            bench.show(0, user=f"u{number}")
        bench.turn(2, seconds=2.0)
        assert users_max / 2 < max(len(commit.changes.users) for commit in bench.store.written) <= users_max
        bench.show(FAR_MS, user="end")
        bench.click(FAR_MS, user="end")
        for _ in bench.turns_until(lambda: settled(bench.store, bench.logs, sessions_open=1), seconds=2.0):
            pass
        sizes = [len(commit.changes.users) + len(commit.changes.users_gone) for commit in bench.store.written]
        assert max(sizes) <= 2 * users_max  # as many again were looked at because their sessions may have ended
        assert sum(len(commit.changes.users_gone) for commit in bench.store.written) == users
        assert_exact(bench.store, bench.logs, bench.engine)

    @pytest.mark.parametrize(("users_max", "largest"), [(10, 9), (3, 3), (2, 3)])
    def test_no_commit_writes_more_users_than_its_bound_where_a_record_holds_many(self, users_max: int, largest: int) -> None:
        bench = Bench(commit_users_max=users_max, commit_bytes_max=1 << 20, commit_ms=1_000)
        bench.worker.runner.decode = lambda value: [event for line in (value or b"").splitlines() for event in decode(line)]
        each = 3
        for first in range(0, 60, each):
            shown = [Impression(f"r{number}", f"u{number}", START_MS, ("a",)) for number in range(first, first + each)]
            bench.logs.append(Input(SETTINGS.inputs[0], 0), b"\n".join(map(native_json, shown)))
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [20, 0]
        sizes = [len(commit.changes.users) for commit in bench.store.written if commit.changes.users]
        assert (sum(sizes), max(sizes)) == (60, largest)  # a record is never cut

    def test_no_commit_writes_more_bytes_of_large_users_than_its_bound(self) -> None:
        bytes_max, users = 30_000, 40
        bench = Bench(commit_users_max=1_000, commit_bytes_max=bytes_max, commit_ms=1_000, records_max=5_000)
        items = tuple(f"{number:0100}" for number in range(60))

        def largest() -> int:
            sizes = [sum(map(len, commit.changes.users.values())) for commit in bench.store.written]
            bench.store.written.clear()
            return max(sizes)

        for number in range(users):
            shown = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(shown))
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [users, 0]
        assert 4 * 6_000 < largest() <= bytes_max
        for _ in range(2):  # a click is small, and the user whom it concerns is written anew
            for number in range(users):
                bench.click(0, user=f"u{number}")
            bench.turn(2, seconds=2.0)
            assert 4 * 6_000 < largest() <= bytes_max
            bench.replace_worker()  # who does not know them yet
        assert bench.offsets == [users, 2 * users]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_large_users_whom_the_stream_names_together_are_read_a_few_at_a_time(self) -> None:
        bytes_max, users = 30_000, 10 * READ_SLICE
        bench = Bench(commit_users_max=1_000, commit_bytes_max=bytes_max, commit_ms=1_000, records_max=5_000)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(users):
            shown = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(shown))
        bench.turn(2, seconds=2.0)
        bench.replace_worker()
        for number in range(users):
            bench.click(0, user=f"u{number}")
        bench.store.loaded_bytes.clear()
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [users, users]
        assert 6_000 * READ_SLICE <= max(bench.store.loaded_bytes) < bytes_max + 7_000 * READ_SLICE
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_large_users_whose_sessions_end_together_are_looked_at_a_few_with_each_commit(self) -> None:
        users = 5 * READ_SLICE
        bench = Bench(commit_users_max=1_000, commit_bytes_max=5_000 * READ_SLICE, commit_ms=1_000, records_max=5_000)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(users):
            shown = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(shown))
        bench.turn(5, seconds=2.0)
        bench.show(FAR_MS, user="end")
        bench.click(FAR_MS, user="end")
        for _ in bench.turns_until(lambda: settled(bench.store, bench.logs, sessions_open=1), seconds=2.0):
            pass
        gone = [len(commit.changes.users_gone) for commit in bench.store.written if commit.changes.users_gone]
        assert gone == [READ_SLICE] * 5
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_commits_take_fewer_users_where_their_totals_are_large(self) -> None:
        """A list of many experiments is small, and what is kept of its user for each of them is not."""
        bytes_max, users, visits = 10_000, 100, 3
        bench = Bench(commit_users_max=1_000, commit_bytes_max=bytes_max, commit_ms=1_000, records_max=10)
        bench.engine = engine_of(SETTINGS, experiments=ExperimentRules(idle_ms=FOR_EVER_MS))
        bench.replace_worker()
        for visit in range(visits):
            experiments = tuple((f"e{visit}-{number}", "a") for number in range(16))
            for number in range(users):
                shown = Impression(f"{visit}-{number}", f"u{number}", START_MS + visit * 1_000, ("a",), experiments)
                bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(shown))
            bench.click(visit * 1_000, user="end")
        for _ in bench.turns_until(lambda: bench.offsets == [visits * users, visits], seconds=2.0):
            pass
        totals = [commit.changes.totals for commit in bench.store.written if commit.changes.totals]
        sizes = [sum(map(len, each.values())) for each in totals]
        assert sum(map(len, totals)) > users
        assert max(sizes[1:]) < 3 * bytes_max, "what is due comes on top, and each visit adds experiments"
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_user_whose_session_ends_while_the_next_chunk_is_read_ahead_begins_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(consumer, "CHUNK_RECORDS_MAX", 3)
        bench = Bench(commit_users_max=1, cached_users_max=10)
        bench.show(0)
        bench.click(0)
        bench.click(FAR_MS, user="v")
        bench.turn(3)
        bench.replace_worker()  # who has to read u
        for user in ("v", "w", "y", "u", "x"):  # the first one ends the session of u, whom the second chunk names
            bench.show(FAR_MS, user=user)
        bench.turn(20)
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    @pytest.mark.parametrize(("chunks_max", "bytes_in_records", "most"), [(3, 99, 3), (8, 2.5, 3), (8, 0, 1)])
    def test_no_more_is_decoded_ahead_than_the_bounds_allow(
        self, chunks_max: int, bytes_in_records: float, most: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The bytes are looked at before each further chunk."""
        size = len(native_json(Feedback("u10", START_MS + 10, "a", "click")))
        monkeypatch.setattr(consumer, "CHUNK_RECORDS_MAX", 1)
        monkeypatch.setattr(task_runner, "PREFETCH_CHUNKS_MAX", chunks_max)
        monkeypatch.setattr(task_runner, "PREFETCH_BYTES_MAX", int(bytes_in_records * size))
        bench, seen = Bench(), []
        for number in range(10, 22):
            bench.click(number, user=f"u{number}")
        prefetch = Prefetch.prefetch

        def counted(users: Prefetch, task: OwnedTask, chunk: Chunk, needs: Needs) -> None:
            prefetch(users, task, chunk, needs)
            seen.append(len(task.backlog.prefetched))

        monkeypatch.setattr(Prefetch, "prefetch", counted)
        bench.turn(2)
        bench.worker.finish()
        assert max(seen) == most
        assert len(seen) == 11, "each chunk but the first, once"
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_record_that_is_larger_than_the_bound_is_committed_alone(self) -> None:
        bench = Bench(commit_users_max=1_000, commit_bytes_max=100, commit_ms=1_000_000)
        bench.show(0, 1, 2)
        bench.turn(2)
        bench.worker.finish()
        assert [len(commit.changes.users) for commit in bench.store.written if commit.changes.users] == [1, 1, 1]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_large_users_leave_the_memory_beyond_its_bound_in_bytes(self) -> None:
        bench = Bench(commit_users_max=1_000, cached_users_max=1_000, cached_bytes_max=30_000, commit_bytes_max=1 << 20)
        items = tuple(f"{number:0100}" for number in range(60))
        for number in range(20):
            shown = Impression(f"list-{number}", f"u{number}", START_MS, items)
            bench.logs.append(Input(SETTINGS.inputs[0], 0), native_json(shown))
        bench.show(0, user="small")
        bench.turn(3)
        state = bench.worker.tasks[0].state
        assert state is not None
        assert len(state.sessions.users) == 5
        assert "small" in state.sessions.users
        for number in range(20):
            bench.click(0, user=f"u{number}")
        bench.turn(3)
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_commits_are_spaced(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=60_000, commit_bytes_max=1 << 20)
        for turn in range(100):
            bench.show(turn)
            bench.turn(seconds=0.1)
        assert 9 <= len(bench.store.written) <= 11

    def test_commits_are_fewer_while_records_wait(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=3_000, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(75))  # read one each tenth of a second
        bench.turn(85, seconds=0.1)
        stands = [decode_control(commit.changes.control).offsets[0] for commit in bench.store.written]
        assert stands == [0, pytest.approx(30, abs=2), pytest.approx(60, abs=4), 75]  # what came last did not wait: none was left

    def test_who_has_caught_up_commits_at_once(self) -> None:
        bench = Bench(commit_ms=1_000, commit_behind_ms=3_000, commit_bytes_max=1 << 20, records_max=1)
        bench.show(*range(65))
        bench.turn(66, seconds=0.1)
        assert bench.offsets[0] == 65  # the commit before was made half a second ago
        bench.show(65)
        bench.turn(2, seconds=0.1)
        assert bench.offsets[0] == 65  # what comes then is spaced as ever

    def test_who_takes_over_commits_soon_though_records_wait(self) -> None:
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

    def test_the_next_events_are_taken_while_a_commit_is_on_its_way(self) -> None:
        bench = Bench()
        underway = Underway(Slow())
        bench.replace_worker(commits=underway)
        underway.let_all_arrive()
        bench.turn()
        bench.show(0)
        bench.turn()
        bench.show(1, 2)
        bench.turn(3)
        state = bench.worker.tasks[0].state
        assert state is not None
        assert state.progress.offsets == [3, 0]
        assert bench.offsets == NOTHING_READ
        assert len(underway.sent) == 1
        underway.let_all_arrive()
        assert bench.offsets == [1, 0]
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_poll_is_short_while_a_commit_is_on_its_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bench = Bench()
        underway = Underway(Slow())
        bench.replace_worker(commits=underway)
        underway.let_all_arrive()
        bench.turn()
        polls: list[float] = []
        poll = bench.source.poll
        monkeypatch.setattr(bench.source, "poll", lambda timeout_s: polls.append(timeout_s) or poll(timeout_s))
        bench.turn()
        bench.show(0)
        bench.turn(2)
        underway.let_all_arrive()
        bench.turn(2)
        assert bench.offsets == [1, 0]
        assert polls == [0.2, 0.2, REPLY_SECONDS, REPLY_SECONDS, 0.2]

    def test_shutdown_commits_what_was_taken_and_closes_what_was_opened(self) -> None:
        bench = Bench(commit_ms=1_000_000)
        bench.show(0, 1, 2)
        bench.turn()
        assert bench.offsets == NOTHING_READ
        bench.worker.finish()
        assert bench.offsets == [3, 0]
        assert bench.source.acknowledged == {Input(SETTINGS.inputs[0], 0): 3, Input(SETTINGS.inputs[1], 0): 0}
        assert bench.source.closed
        assert bench.letters.closed

    def test_shutdown_gives_up_on_a_store_that_stays_away(self) -> None:
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

    def test_a_crash_between_two_commits_counts_nothing_twice(self) -> None:
        bench = Bench(commit_ms=1_000_000)
        bench.show(0, 1)
        bench.turn()
        bench.replace_worker()
        bench.turn()
        bench.worker.finish()
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_a_lost_reply_is_sent_again_and_known(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn()
        bench.show(1)
        commit = bench.store.commit

        def reply_lost(offered: Commit) -> CommitOutcome:
            bench.store.commit = commit  # type: ignore[method-assign]
            commit(offered)
            raise StoreError("the reply was lost")

        bench.store.commit = reply_lost  # type: ignore[method-assign]
        bench.turn()
        assert bench.worker.status.commits["failed"] == 1
        bench.clock.advance(5)
        bench.turn()
        assert bench.store.outcomes[-2:] == [CommitOutcome.WRITTEN, CommitOutcome.ALREADY]
        assert_exact(bench.store, bench.logs, bench.engine)


class TestDeadLetters:
    BROKEN = b'{"type":"impression"'

    def test_letters_are_kept_before_the_commit_that_counts_them(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.logs.append(Input(SETTINGS.inputs[0], 0), self.BROKEN)
        kept_at_commit = []
        commit = bench.store.commit

        def noted(offered: Commit) -> CommitOutcome:
            kept_at_commit.append((decode_control(offered.changes.control).offsets[0], [letter.offset for letter in bench.letters.kept]))
            return commit(offered)

        bench.store.commit = noted  # type: ignore[method-assign]
        bench.turn()
        assert kept_at_commit == [(2, [1])]

    def test_letters_that_wait_for_a_commit_are_bounded_in_bytes(self) -> None:
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

    def test_what_a_commit_had_no_room_for_is_not_lost_when_letters_fail(self) -> None:
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

    def test_a_record_with_many_bad_events_is_one_letter_for_each_reason(self) -> None:
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

    def test_no_commit_passes_letters_that_could_not_be_kept(self) -> None:
        bench = Bench()
        bench.letters.chance, bench.letters.failures = Random(1), 1.0
        bench.logs.append(Input(SETTINGS.inputs[0], 0), self.BROKEN)
        bench.turn(5)
        assert bench.offsets == NOTHING_READ
        bench.letters.failures = 0.0
        bench.turn(2, seconds=10.0)
        assert bench.offsets == [1, 0]
        assert letter_places(bench.letters.kept) == {("bad_json", Input(SETTINGS.inputs[0], 0), 0, self.BROKEN)}


class TestOwnership:
    def test_a_fenced_task_is_given_up_and_claimed_again_after_a_while(self) -> None:
        bench = Bench(fenced_wait_seconds=5.0)
        bench.show(0)
        bench.turn()
        bench.store.steal(0, "somebody else")
        bench.show(1)
        with capture_logs() as lines:
            bench.turn()
        assert bench.worker.status.commits["fenced"] == 1
        assert bench.worker.tasks[0].state is None
        assert not bench.worker.status.lag_records, "what somebody else reads is no lag of this worker"
        assert not bench.worker.status.lag_seconds
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
            "commit refused: another worker has claimed the task and reads it now; nothing is lost"
        ]
        bench.turn(20, seconds=0.2)
        assert bench.worker.tasks[0].state is None
        assert bench.source.paused == set(bench.source.inputs_of(0))
        bench.turn(2, seconds=2.0)
        assert bench.offsets == [2, 0]
        assert_exact(bench.store, bench.logs, bench.engine)

    def test_who_hears_no_broker_leaves_a_task_to_whom_the_group_has_given_it(self) -> None:
        """He cannot be told that it is no longer his. Were he to claim it again and again, its owner would be fenced each time."""
        bench = Bench(fenced_wait_seconds=5.0)
        cut_off, his_source = bench.worker, bench.source
        his_source.health = replace(his_source.health, reachable=False)
        bench.replace_worker()

        def go_on(seconds: int) -> None:
            for _ in range(seconds):
                bench.show(int(bench.clock.monotonic() * 1_000))
                bench.turn(seconds=1.0)
                cut_off.turn()

        go_on(60)
        assert (cut_off.status.commits["fenced"], bench.worker.status.commits["fenced"]) == (1, 0)
        his_source.health = replace(his_source.health, reachable=True, since=bench.clock.monotonic())
        go_on(4)  # the group tells him in a moment
        assert bench.worker.status.commits["fenced"] == 0
        assert bench.worker.status.commits["written"] > 60

    def test_a_task_whose_store_has_gone_back_says_so_and_is_read_again(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn(2)
        bench.store.forget_last(0, 1)
        bench.show(1)
        with capture_logs() as lines:
            for _ in bench.turns_until(lambda: bench.offsets == [2, 0]):
                pass
        assert [line["event"] for line in lines if line["log_level"] == "warning"] == [
            "commit refused: the store has lost commits of the task; its records are read again from the last commit that is left"
        ]

    def test_a_rebalance_is_told_in_one_line(self) -> None:
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
        """A member loses all that it has before the group has decided, and gets the new share with a later poll."""
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

    def test_a_topic_that_was_created_anew_is_refused(self) -> None:
        bench = Bench()
        bench.replace_worker(topic_ids=["one", "two"])
        bench.show(0)
        bench.turn()
        bench.replace_worker(topic_ids=["", ""])  # a broker that tells no ids leaves what is known
        bench.show(100)
        bench.turn()
        with pytest.raises(StateError, match=r"'feedback' was deleted and created again \(its id was two, now other\)"):
            bench.replace_worker(topic_ids=["one", "other"])

    def test_a_store_that_lost_everything_is_not_taken_for_a_new_one(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.turn()
        bench.store.forget_last(0, 100)
        bench.show(1)
        with pytest.raises(StateError, match="lost all state of task 0"):
            bench.turn(3)

    def test_a_user_on_the_wrong_partition_is_counted(self) -> None:
        bench = Bench()
        bench.replace_worker(wrong_partition=lambda task, user_id: user_id == "astray")
        bench.show(0)
        bench.show(0, 1, user="astray")
        bench.turn()
        assert builder_of(bench.store, bench.engine, 1)[1].counts["key_mismatch", SETTINGS.inputs[0]] == 2


class TestPartOfTheStoreAway:
    """Tasks whose state lies where nobody answers wait; the others go on."""

    @pytest.mark.parametrize("later", [False, True], ids=["from the start", "later"])
    def test_the_tasks_of_the_rest_are_committed(self, later: bool) -> None:
        engine, clock, store, letters = engine_of(SETTINGS), HandClock(START_MS), FaultyStore(), KeptLetters()
        logs = Logs(SETTINGS.inputs, 3)
        source = LogSource(logs, records_max=5)
        source.give(0, 1, 2)
        worker = worker_over(engine, source, store, letters, replace(RULES, skew_ms_max=NEVER_AHEAD), clock)

        def carry_on(first: int) -> None:
            for number in range(first, first + 20):
                for task in range(3):
                    shown = Impression(f"list-{number}", f"u{task}-{number}", START_MS + number, ("a",))
                    logs.append(Input(SETTINGS.inputs[0], task), native_json(shown))
                clock.advance(0.1)
                worker.turn()

        def read() -> dict[int, int | None]:
            return {task: decode_control(view.control).offsets[0] for task, view in store.view(range(3), {}, {}).items()}

        if later:
            carry_on(0)
        store.away = {1}
        before = read()
        carry_on(20)
        assert {task: read().get(task) for task in (0, 2)} == dict.fromkeys((0, 2), 40 if later else 20)
        assert read().get(1) == before.get(1)
        assert worker.status.store_trouble is not None
        assert {place.partition for place in source.paused} == ({1} if later else set())
        store.away = set()
        clock.advance(10.0)
        carry_on(40)
        worker.finish()
        assert worker.status.store_trouble is None
        assert_exact(store, logs, engine)

    def test_what_a_task_suffered_that_went_elsewhere_is_forgotten(self) -> None:
        bench = Bench()
        bench.show(0)
        bench.store.away = {0}
        bench.turn(2)
        assert bench.worker.status.store_trouble is not None
        bench.source.take_away(0)
        bench.turn(2)
        assert bench.worker.tasks == {}
        assert bench.worker.status.store_trouble is None


class TestTheWorldAway:
    def test_a_source_or_store_that_stays_away_is_waited_for_and_told(self) -> None:
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

    def test_a_source_that_fails_at_once_is_not_asked_all_the_time(self) -> None:
        bench = Bench()
        bench.turn()
        bench.source.chance, bench.source.failures = Random(1), 1.0
        before = bench.clock.monotonic()
        for _ in range(50):
            bench.worker.turn(timeout_s=0.2)
        assert bench.clock.monotonic() - before >= 50 * 0.2

    def test_a_source_that_fails_now_and_then_is_told_of_once_until_it_has_been_well_for_a_while(self) -> None:
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

    def test_lag_grows_while_records_wait_that_cannot_be_used(self) -> None:
        """It is no less because nothing is read: a worker whose store is away must not look as if it kept up."""
        bench = Bench()
        shown = Input(SETTINGS.inputs[0], 0)
        lag = bench.worker.status.lag_seconds
        value = native_json(Impression("x", "u", START_MS, ("a", "b")))
        bench.turn(seconds=50.0)
        bench.logs.append(shown, value, bench.clock.wall_ms() - 7_000)
        bench.store.failures = 1.0
        bench.turn(5)
        assert bench.source.ends()[shown] == 1
        assert lag[shown] == pytest.approx(7.0, abs=0.2)
        for _ in range(6):
            bench.turn(seconds=10.0)
        assert lag[shown] == pytest.approx(67.0, abs=0.5)
        bench.store.failures = 0.0
        bench.turn(3, seconds=10.0)
        assert (bench.offsets, lag[shown]) == ([1, 0], 0.0)
        bench.turn(seconds=600.0)
        bench.logs.append(shown, value, bench.clock.wall_ms())
        bench.turn()
        assert lag[shown] < 1.0, "a record that has just come has not waited since the one before it"

    def test_brokers_that_are_away_are_told_of_before_what_fails_because_of_them(self) -> None:
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
    def test_patience_ends_where_the_operator_says(self, fault: type[Exception]) -> None:
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
