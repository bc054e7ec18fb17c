"""A worker over logs in memory, a clock that the test moves, and comparison of all it stored with brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.source import Input, PollResult
from streammetrics.connectors.store import Store
from streammetrics.engine.engine import Engine
from streammetrics.engine.task_state import decode_control
from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, native_decoder
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.events.model import Feedback, Impression
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.limits import WorkerRules
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import WindowRules
from streammetrics.windows.unique_users import UNIQUE_USERS as USER_COUNTS
from streammetrics.windows.unique_users import UniqueUserRules, UniqueUserWindows
from streammetrics.windows.user_counts import UserCountLayout
from tests.oracle import Arrival, Group, Idle, Result, Settings, Step, Tick, expected_result
from tests.oracle.experiments import Scope, experiments, merge
from tests.oracle.users import users_of_tasks
from tests.support.brute_force import row_of, scopes_of, users_shown
from tests.support.faults import FaultyStore, HandClock, KeptLetters, Logs, LogSource
from tests.support.machine import engine_of, oracle_group
from tests.support.native_json import native_json
from tests.support.strategies import MIDNIGHT_MS

START_MS = MIDNIGHT_MS - 200
FAR_MS = 10_000
NOTHING_READ = [0, 0]
TURNS_MAX = 2_000
SETTINGS = Settings(segments=("surface",), out_of_orderness_ms=1)
RULES = WorkerRules(
    commit_ms=3, commit_behind_ms=9, commit_users_max=3, commit_bytes_max=700, cached_users_max=6, idle_ms=None,
    out_of_orderness_ms=SETTINGS.out_of_orderness_ms, skew_ms_max=40, fenced_wait_seconds=0.02,
)  # fmt: skip
NEVER_AHEAD = FOREVER - NEVER
"""A skew that no input exceeds, even if another input has had no event yet."""
UNIQUE_USERS = UniqueUserRules(panes=max(SETTINGS.windows_ms) // SETTINGS.pane_ms)
decode = native_decoder(EventLimits())
Order: TypeAlias = Sequence[tuple[Input, int] | Idle | Tick]
"""The records of a task by input and offset, and what else happened, in order."""


def worker_over(
    engine: Engine,
    source: LogSource,
    store: Store,
    letters: KeptLetters,
    rules: WorkerRules = RULES,
    clock: HandClock | None = None,
    **options: Any,
) -> Worker:
    clock = clock or HandClock(START_MS)
    return Worker(
        TaskRunner(
            engine=engine,
            decode=decode,
            source=source,
            store=store,
            letters=letters,
            rules=rules,
            clock=clock,
            status=ProcessStatus(),
            **options,
        )
    )


def settled(store: Store, logs: Logs, sessions_open: int | None = 0) -> bool:
    """Return whether all records are committed and each task has this many open sessions; None: any number."""
    views = store.view(range(logs.partitions), {})
    if len(views) < logs.partitions:
        return False
    at_end = all(
        decode_control(view.control).progress.offsets == [logs.end(Input(topic, task)) for topic in logs.topics]
        for task, view in views.items()
    )
    return at_end and all(sessions_open in (None, decode_control(view.control).sessions.open) for view in views.values())


@dataclass(frozen=True, slots=True)
class Truth:
    """What brute force computes from the logs."""

    result: Result
    malformed: Counter[tuple[str, str]]
    refused: frozenset[tuple[str, Input, int, bytes | None]]
    experiments: dict[tuple[str, int | None], Scope]


def in_log_order(logs: Logs, after: Sequence[Step] = ()) -> dict[int, Order]:
    """Return the records of each task, one input after the other. `after` comes last in every task."""
    order: dict[int, list[tuple[Input, int]]] = {task: [] for task in range(logs.partitions)}
    for place in logs.of:
        order[place.partition].extend((place, offset) for offset in range(logs.end(place)))
    return {task: [*of_task, *after] for task, of_task in order.items()}


def truth_of(logs: Logs, orders: Mapping[int, Order], settings: Settings = SETTINGS) -> Truth:
    """Compute the expected result of records, ticks and idle inputs in a given order."""
    steps: dict[int, list[Step]] = {task: [] for task in orders}
    places: dict[int, list[tuple[Input, int, bytes | None]]] = {task: [] for task in orders}
    malformed: Counter[tuple[str, str]] = Counter()
    refused: set[tuple[str, Input, int, bytes | None]] = set()
    for task, order in orders.items():
        for step in order:
            if isinstance(step, Idle | Tick):
                steps[task].append(step)
                continue
            place, offset = step
            _, record_ms, value = logs.of[place][offset]
            (event,) = decode(value)
            if isinstance(event, MalformedEvent):
                malformed[event.reason, place.topic] += 1
                refused.add((event.reason, place, offset, value))
            else:
                steps[task].append(Arrival(place.topic, event, None if record_ms < 0 else record_ms))
                places[task].append((place, offset, value))
    result = expected_result(steps, settings)
    for task, result_of_task in result.tasks.items():
        refused |= {
            (outcome, *where) for outcome, where in zip(result_of_task.outcomes, places[task], strict=True) if outcome in ("late", "future")
        }
    scopes = merge([experiments(steps[task], result_of_task, settings) for task, result_of_task in result.tasks.items()])
    return Truth(result, malformed, frozenset(refused), scopes)


def builder_of(store: Store, engine: Engine, tasks: int, settings: Settings = SETTINGS) -> tuple[ReportBuilder, Report]:
    rules = WindowRules(
        pane_ms=settings.pane_ms,
        windows_ms=settings.windows_ms,
        lateness_ms=settings.lateness_ms,
        attribution_ms=settings.attribution_ms,
    )
    builder = ReportBuilder(engine.layout, rules, {}, engine.signature)
    for task, view in store.view(range(tasks), {}).items():
        builder.update(task, view)
    return builder, builder.report(tasks)


def tallies_of(builder: ReportBuilder) -> dict[tuple[int, Group], list[int]]:
    aggregator = builder.aggregator
    return {
        (start, oracle_group(group)): tally for start in aggregator.starts() for group, tally in aggregator.pane(start).items() if tally[0]
    }


def assert_exact(store: Store, logs: Logs, engine: Engine, after: Sequence[Step] = (), settings: Settings = SETTINGS) -> Truth:
    """Compare everything that is stored with brute force over the logs. `after` comes last in every task."""
    truth = truth_of(logs, in_log_order(logs, after), settings)
    assert_stored(store, logs, engine, truth, settings)
    return truth


def assert_stored(store: Store, logs: Logs, engine: Engine, truth: Truth, settings: Settings = SETTINGS) -> None:
    """Compare everything that is stored with the truth."""
    builder, report = builder_of(store, engine, logs.partitions, settings)
    counters = Counter(truth.result.counters) + truth.malformed
    for (_, topic), count in truth.malformed.items():
        counters["events", topic] += count
    assert {key: count for key, count in report.counts.items() if count} == dict(counters)
    rows = {key: row_of(tally, SimpleNamespace(engine=engine)) for key, tally in truth.result.panes.items()}
    assert tallies_of(builder) == rows
    if engine.user_totals is not None:
        assert scopes_of(builder, engine, logs.partitions) == truth.experiments
    if engine.rules.unique_users is not None:
        # Without patience all final lists are counted, so the windows of the report end together. By now they are empty.
        assert {window.end_ms for window in report.user_windows} == {report.windows[0].end_ms}
        assert_users(store, logs, engine, truth, settings)


def assert_users(store: Store, logs: Logs, engine: Engine, truth: Truth, settings: Settings) -> None:
    """Compare the unique users of every seventh window that has ended."""
    aggregator = UniqueUserWindows(UserCountLayout(engine.layout.scorer), settings.pane_ms)
    for task, view in store.view(range(logs.partitions), {}).items():
        aggregator.update(
            task, {int(start): row for start, row in view.table(USER_COUNTS).items()}, decode_control(view.control).panes.oldest_kept
        )
    lists = [task.lists for task in truth.result.tasks.values()]
    ends = {impression.ts // settings.pane_ms * settings.pane_ms for of_task in lists for impression in of_task}
    for end in sorted(end for end in ends if end <= truth.result.f_ms)[::7]:
        for window_ms in settings.windows_ms:
            window = aggregator.window(window_ms, end, UNIQUE_USERS.panes)
            assert users_shown([window]) == {(window_ms, end): users_of_tasks(lists, settings, end, window_ms)}


def letter_places(letters: Iterable[DeadLetter]) -> set[tuple[str, Input, int, bytes | None]]:
    return {(letter.reason, letter.input, letter.offset, letter.value) for letter in letters}


class NothingArrives(Random):
    """A source of chance with which no commit arrives by itself."""

    def random(self) -> float:
        return 0.999


class OneInputPerPoll(LogSource):
    """A source with records of only one input per poll, as Kafka does when one input fills it."""

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        polled = super().poll(timeout_s, collect_s)
        for place in [*polled.records][1:]:
            self.positions[place] -= len(polled.records[place])
        return replace(polled, records=dict([*polled.records.items()][:1]))


class Bench:
    """One worker with one or a few tasks, and no faults by itself. The test moves the clock and writes the logs."""

    def __init__(self, *, tasks: int = 1, records_max: int = 1_000, settings: Settings = SETTINGS, **rules: Any) -> None:
        self.settings = settings
        self.engine = engine_of(settings)
        self.rules = replace(RULES, **{"skew_ms_max": NEVER_AHEAD, **rules})
        self.clock = HandClock(START_MS)
        self.logs = Logs(settings.inputs, tasks)
        self.store = FaultyStore()
        self.letters = KeptLetters()
        self.source = self._read(records_max)
        self.worker = self.start_worker()

    def _read(self, records_max: int) -> LogSource:
        source = LogSource(self.logs, records_max=records_max)
        for task in range(self.logs.partitions):
            source.give(task)
        return source

    def start_worker(self, **options: Any) -> Worker:
        """Start a worker and let it claim its tasks. Records come with its next turn."""
        worker = worker_over(self.engine, self.source, self.store, self.letters, self.rules, self.clock, **options)
        worker.turn()
        return worker

    def replace_worker(self, **options: Any) -> None:
        """Kill the worker and start another one."""
        self.source = self._read(self.source.records_max)
        self.worker = self.start_worker(**options)

    def show(self, *times: int, user: str = "u", task: int = 0) -> None:
        for ts in times:
            impression = Impression(f"{user}-{ts}", user, START_MS + ts, ("a", "b"))
            self.logs.append(Input(self.settings.inputs[0], task), native_json(impression))

    def click(self, *times: int, user: str = "u") -> None:
        for ts in times:
            self.logs.append(Input(self.settings.inputs[1], 0), native_json(Feedback(user, START_MS + ts, "a", "click")))

    def turn(self, turns: int = 1, seconds: float = 0.01) -> None:
        for _ in range(turns):
            self.clock.advance(seconds)
            self.worker.turn()

    def turns_until(self, condition: Callable[[], bool], seconds: float = 0.01) -> Iterator[None]:
        """Run turns until a condition holds; the test may check after each."""
        for _ in range(TURNS_MAX):
            if condition():
                return
            self.turn(seconds=seconds)
            yield
        pytest.fail(f"the condition does not hold after {TURNS_MAX} turns; committed: {self.offsets}")

    @property
    def offsets(self) -> list[int | None]:
        """The committed offsets of the two inputs."""
        views = self.store.view([0], {})
        return decode_control(views[0].control).progress.offsets if views else []

    @property
    def watermark(self) -> int:
        return decode_control(self.store.view([0], {})[0].control).progress.watermark - START_MS

    def ahead_ms(self) -> int:
        """Return how far the first input is ahead of the second in event time."""
        state = self.worker.tasks[0].state
        assert state is not None
        return state.progress.watermarks[0] - state.progress.watermarks[1]


class CachedEnds(LogSource):
    """A source that asks for the ends of its logs only now and then, as a Kafka client does. Replaces the source of a bench."""

    EVERY_SECONDS = 0.04

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench.logs)
        self.clock, self.ends_asked, self._ends = bench.clock, 0, dict[Input, int]()
        self.health = replace(self.health, ends_asked=self.clock.monotonic())
        self.give(0)
        bench.source = self
        bench.worker = bench.start_worker()

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        assert self.health.ends_asked is not None
        if self.clock.monotonic() - self.health.ends_asked >= self.EVERY_SECONDS:
            self._ends, self.ends_asked = dict(super().ends()), self.ends_asked + 1
            self.health = replace(self.health, ends_asked=self.clock.monotonic())
        return super().poll(timeout_s, collect_s)

    def ends(self) -> Mapping[Input, int]:
        return self._ends
