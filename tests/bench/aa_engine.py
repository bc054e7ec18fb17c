"""The A/A harness through the whole product without servers: JSON events, decoder, worker, store, publisher, history.

Many experiments share one traffic. Each list carries several of them, each with its own assignment by a hash of experiment and user.
Settings are the defaults, except that lists do not wait for their session to close. So a look (a commit and a report) has the lists of
whole panes, as a look of `tests.bench.aa` does, and both must agree.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from zlib import crc32

import msgspec
import numpy as np

from streammetrics.cli.demo.demo import DiscardedDeadLetters
from streammetrics.config import Settings
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.connectors.simulated.source import SimulatedSource
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.experiments import SINCE_START, ExperimentReport, MeasureReport, Stored
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.publish.history_store import HistoryStore
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_engine, build_worker_rules
from streammetrics.wiring.reports import build_report_builder
from tests.bench.aa_traffic import UNIT, Ints, Traffic

TOPIC = "events"
START_MS = 1_732_219_200_000
"""20:00 UTC, so that the day changes during the traffic; a multiple of a pane."""
CLICK_MS = 1_000
"""Time from a list to its click."""
FIXED = 1.959963984540054
ARMS = ("control", "treatment")
MEAN, BY_USER = ("mrr", 10), ("user_hit_rate", 10)
ITEMS = [f"i{place}" for place in range(1, 9)]
SETTINGS = Settings.model_validate(
    {
        "metrics": {"names": ("mrr", "hit_rate"), "cutoffs": (10,)},
        "join": {"support_users": 1},  # one list per look and task moves the watermark
        "windows": {"windows": ("5m",)},
        "experiments": {"patience_ms": 0, "margin": 0.0},
    }
)
encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Findings:
    """The decisions in the reports of one experiment: the looks at which each rule found a difference, and whether it was ever invalid."""

    certain: dict[str, set[int]] = field(default_factory=lambda: {"interval": set(), "alarm": set(), "user hits": set(), "fixed": set()})
    invalid: bool = False

    def take(self, look: int, report: ExperimentReport) -> None:
        """Add one look at the experiment since its start."""
        self.invalid = self.invalid or report.verdict.word == "invalid"
        found = {arm.role: {(each.metric, each.k): each for each in arm.measures} for arm in report.variants}
        control, treatment = (found.get(role, {}) for role in ARMS)
        if MEAN not in control or MEAN not in treatment:
            return
        mean = treatment[MEAN]
        decisions = {
            "interval": _excludes_zero(mean),
            "alarm": mean.verdict is not None and mean.verdict.word == "regressed",
            "user hits": _excludes_zero(treatment[BY_USER]),
            "fixed": mean.tau is not None and abs(mean.mean - control[MEAN].mean) > FIXED * _error(control[MEAN], mean),
        }
        for rule, certain in decisions.items():
            if certain:
                self.certain[rule].add(look)


def _excludes_zero(measure: MeasureReport) -> bool:
    lower, upper = measure.difference_lower, measure.difference_upper
    return (lower is not None and lower > 0) or (upper is not None and upper < 0)


def _error(*measures: MeasureReport) -> float:
    return math.hypot(*(each.error or math.inf for each in measures))


class Now:
    """A clock that shows the time of the traffic."""

    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic(self) -> float:
        return self.now_ms / 1_000

    def wall_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        """Do not wait: nothing fails here."""


def arms_of(experiment: str, users: int) -> Ints:
    """Return the arm of each user, by a hash of experiment and user."""
    return np.array([blake2b(f"{experiment}/{user}".encode(), digest_size=1).digest()[0] & 1 for user in range(users)])


def look_times(looks: int) -> list[int]:
    """Return the time (ms) per look at which a list moves the watermark so far that the lists of the pane are final."""
    join, pane_ms = SETTINGS.join, SETTINGS.windows.pane_ms
    after = join.attribution_ms + join.lateness_ms + join.out_of_orderness_ms
    return [START_MS + (look + 1) * pane_ms + after for look in range(looks)]


def events(traffic: Traffic, arms: Mapping[str, Ints], looks: int, tasks: int) -> Iterator[SimulatedRecord]:
    """Yield the events in order of time: each list, a click if it has a worth, and per look one list per task that moves the watermark.

    A list of worth 840 / rank has one click at that rank, so its mrr@10 is its worth / 840.
    """
    assigned = [{name: ARMS[of_user[user]] for name, of_user in arms.items()} for user in range(len(traffic.arms))]
    pane_ms = SETTINGS.windows.pane_ms
    cells = np.minimum((traffic.times * looks).astype(np.int64), looks - 1)
    within = np.minimum(((traffic.times * looks - cells) * pane_ms).astype(np.int64), pane_ms - 1)
    times = (START_MS + cells * pane_ms + within).tolist()

    def lists() -> Iterator[SimulatedRecord]:
        for number, (ts, user) in enumerate(zip(times, traffic.users.tolist(), strict=True)):
            yield _sent("impression", f"u{user}", ts, impression_id=f"r{number}", items=ITEMS, experiments=assigned[user])

    def clicks() -> Iterator[SimulatedRecord]:
        for number, (ts, user, worth) in enumerate(zip(times, traffic.users.tolist(), traffic.worth.tolist(), strict=True)):
            if worth:
                item = ITEMS[UNIT // int(worth) - 1]
                yield _sent("feedback", f"u{user}", ts + CLICK_MS, impression_id=f"r{number}", item_id=item, action="click")

    def clocks() -> Iterator[SimulatedRecord]:
        keys = [next(key for key in map("clock-{}".format, range(1_000)) if crc32(key.encode()) % tasks == task) for task in range(tasks)]
        for ts in look_times(looks):
            for key in keys:
                yield _sent("impression", key, ts, impression_id=f"{key}-{ts}", items=[])

    # Traffic is in order of time, but two lists of one millisecond may not be: merging needs what it merges sorted.
    yield from heapq.merge(*(sorted(each, key=lambda sent: sent.ts) for each in (lists(), clicks(), clocks())), key=lambda sent: sent.ts)


def _sent(kind: str, user: str, ts: int, **rest: object) -> SimulatedRecord:
    return SimulatedRecord(TOPIC, user.encode(), ts, encode({"type": kind, "user_id": user, "ts": ts, **rest}))


def run(
    traffic: Traffic,
    arms: Mapping[str, Ints],
    looks: int,
    *,
    tasks: int = 1,
    on_look: Callable[[int, Mapping[str, Stored]], None] | None = None,
) -> dict[str, Findings]:
    """Run one traffic with the experiments of `arms` (the arm of each user by experiment) and return the decisions of all looks.

    `on_look` receives the number of the look and the stored state of each experiment since its start.
    """
    engine = build_engine(SETTINGS, (TOPIC,))
    builder, store, clock, status = build_report_builder(SETTINGS, engine), MemoryStore(), Now(), ProcessStatus()
    found = {name: Findings() for name in arms}
    store.announce(tasks)

    def show(report: Report, history: History) -> None:
        assert report.entered_ms is None or all(history.of(each.experiment, each.scope).snapshots.kept for each in report.experiments)
        for each in report.experiments:
            if each.scope == SINCE_START:
                found[each.experiment].take(look, each)

    publisher = Publisher(builder=builder, store=store, publish_ms=1_000, clock=clock, status=status, on_report=HistoryStore(show).take)
    worker = Worker(
        TaskRunner(
            engine=engine,
            decode=build_decoder(SETTINGS),
            source=SimulatedSource(events(traffic, arms, looks, tasks), (TOPIC,), tasks, clock),
            store=store,
            letters=DiscardedDeadLetters(),
            rules=replace(build_worker_rules(SETTINGS), idle_ms=None),
            clock=clock,
            status=status,
        )
    )
    for _ in range(2):  # the tasks are assigned, then claimed
        worker.turn(timeout_s=0)
    for look, time_ms in enumerate(look_times(looks)):
        clock.now_ms = time_ms
        worker.turn(timeout_s=0)
        worker.drain(flush=False)
        publisher.publish()
        if on_look is not None:
            on_look(look, {name: stored for (name, day), stored in builder.experiments.stored(tasks).items() if day == WHOLE})
    assert not {reason for reason, _ in builder.report(tasks).counts} - {"events", "matched"}, "the engine left something out"
    return found
