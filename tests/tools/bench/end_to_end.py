"""End to end: from bytes on a real broker to tallies in a real Redis, by the real worker, beside the floor of the same records.

Floor and worker take turns over the same topics. The worker has a new namespace and database each time. After each round the tallies in
Redis are compared with brute force over all events.
"""

from __future__ import annotations

import signal
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaProducer

from streammetrics.config import Settings
from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.simulated import SimulatedRecord, Traffic, generate
from streammetrics.engine.task_state import decode_control
from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Event
from streammetrics.metrics.names import ENGAGEMENT_NAMES
from streammetrics.reports.report import counts_by_reason, refused_counts
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.reports import build_report_builder
from tests.support.catalogue import assessment
from tests.tools.bench import parts
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.bench.truth import INPUTS, Rows, brute_force, require_equal, require_nothing_late
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.redis import DeployedRedis

PARTITIONS = 4
RETURN_SECONDS = 3_600
"""A user comes back after an hour of event time on average, or later, so that sessions close."""
RATE_MAX = 20.0
LOOK_SECONDS = 0.25
SECONDS_MAX = 600
JOINING_MS = 5_000
"""How long a new group waits for members. So two workers share the tasks from the start."""


@dataclass(frozen=True)
class Size:
    """The numbers of users and events, and the number of partitions with events. Users of other partitions send nothing."""

    users: int
    events: int
    partitions: int = PARTITIONS


@dataclass(frozen=True)
class Round:
    """One run of the worker and the floors before it."""

    worker: dict[str, Any]
    redis_seconds: float
    redis_peak_mb: float
    floor: dict[str, Any]
    own_floor: dict[str, Any]


@dataclass(frozen=True)
class CommitOutcome:
    size: Size
    bytes_mean: float
    integers_checked: int
    rounds: list[Round]

    def median(self, value: Callable[[Round], float]) -> float:
        return statistics.median(map(value, self.rounds))

    def rate(self) -> float:
        return self.median(lambda run: self.size.events / run.worker["seconds"])

    def floor_rate(self) -> float:
        return self.median(lambda run: self.size.events / run.floor["seconds"])

    def own_floor_rate(self) -> float:
        return self.median(lambda run: self.size.events / run.own_floor["seconds"])

    def ratio(self) -> float:
        """The worker's time as a multiple of the floor of the same round, which ran on an equally busy machine."""
        return self.median(lambda run: run.floor["seconds"] / run.worker["seconds"])

    def own_ratio(self) -> float:
        return self.median(lambda run: run.own_floor["seconds"] / run.worker["seconds"])

    def per_million(self, value: Callable[[Round], float]) -> float:
        """Seconds per million events, which is microseconds per event."""
        return self.median(value) * 1e6 / self.size.events

    def total_seconds(self) -> float:
        """Processor seconds of the worker, its start included, and of Redis."""
        return self.median(lambda run: run.worker["start_seconds"] + run.worker["processor_seconds"] + run.redis_seconds)

    def stages(self) -> dict[str, float]:
        """Processor microseconds per event."""
        names = dict.fromkeys(name for run in self.rounds for name in run.worker["stages"])
        return {name: self.per_million(lambda run: run.worker["stages"].get(name, 0.0)) for name in names}  # noqa: B023 (used at once)


class Way(NamedTuple):
    """How the stream is run: with or without experiments, by how many workers of one group, and with which more metrics.

    `more` is empty, engagement, assessment or both; all metrics of these kinds are computed then.
    """

    experiments: bool = True
    workers: int = 1
    more: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turns:
    """The rounds of several ways over the same records, in turns. Each turn has its own floor."""

    size: Size
    integers_checked: int
    turns: list[dict[Way, Round]]

    def median(self, way: Way, value: Callable[[Round], float]) -> float:
        return statistics.median(value(turn[way]) for turn in self.turns)

    def ratio(self, one: Way, other: Way) -> float:
        """The time of one way as a multiple of the other's in the same turn: the median."""
        return statistics.median(float(turn[one].worker["seconds"] / turn[other].worker["seconds"]) for turn in self.turns)

    def cpu_ratio(self, one: Way, other: Way) -> float:
        """The processor time of one way, with that of Redis, as a multiple of the other's in the same turn: the median."""
        spent = [{way: turn[way].worker["processor_seconds"] + turn[way].redis_seconds for way in (one, other)} for turn in self.turns]
        return statistics.median(float(run[one] / run[other]) for run in spent)

    def to_floor(self, way: Way) -> float:
        return self.median(way, lambda run: run.floor["seconds"] / run.worker["seconds"])


def traffic_of(users: int) -> Traffic:
    """Return traffic with records of 353 bytes. Users come back after their session has closed, as far as so few events allow."""
    rate = min(RATE_MAX, users * Traffic().lists_per_visit / RETURN_SECONDS)
    return Traffic(users=users, seed=7, item_id_chars=35, impressions_per_second=rate)


def events_of(size: Size) -> list[SimulatedRecord]:
    """Yield the events to send: all of the traffic, or those of users on some of the partitions."""
    placed = (record for record in generate(traffic_of(size.users)) if partition_of(record.key.decode(), PARTITIONS) < size.partitions)
    return list(islice(placed, size.events))


ENGAGEMENT = {"names": list(ENGAGEMENT_NAMES)}


def settings_of(broker: KafkaBroker, url: str, namespace: str, topics: list[str], way: Way = Way()) -> dict[str, Any]:  # noqa: B008 (a value)
    """Return the defaults with these addresses. Idle inputs do not advance, so that the result depends on the records alone."""
    return {
        "kafka": {"bootstrap_servers": [broker.bootstrap], "topics": topics, "group_id": namespace, "dead_letter_topic": ""},
        "redis": {"url": url, "namespace": namespace},
        "join": {"idle_ms": 86_400_000},
        "experiments": {"enabled": way.experiments},
        "engagement": ENGAGEMENT if "engagement" in way.more else {},
        "assessment": assessment() if "assessment" in way.more else {},
        "http": {"port": 0},
        "log": {"level": "warning"},
    }


def produce(broker: KafkaBroker, sent: list[SimulatedRecord], topics: dict[str, str]) -> None:
    # With fewer acks a batch that is sent again may come after its successor, or twice, and then events are late.
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=50, batch_size=256 << 10, acks="all", enable_idempotence=True)
    for record in sent:
        producer.send(topics[record.topic], key=record.key, value=record.value, timestamp_ms=record.ts)
    producer.flush()
    producer.close()


def truth(sent: list[SimulatedRecord]) -> Rows:
    """Compute the tallies by brute force, engagement metrics last, and check that all events are admitted with any partitions."""
    settings = Settings.model_validate({"engagement": ENGAGEMENT})
    decode = build_decoder(settings)
    by_user: dict[str, list[tuple[str, Event]]] = defaultdict(list)
    times: dict[str, list[int]] = {name: [] for name in INPUTS}
    for record in sent:
        (event,) = decode(record.value)
        assert not isinstance(event, MalformedEvent)
        by_user[event.user_id].append((record.topic, event))
        times[record.topic].append(event.ts)
    require_nothing_late(times.values(), settings)
    return brute_force(by_user, settings)


class Scene(NamedTuple):
    """Servers with the records of a size on the broker, and the tallies that they must come to."""

    broker: KafkaBroker
    redis: DeployedRedis
    log: Path
    sent: list[SimulatedRecord]
    expected: Rows
    topics: list[str]

    def settings(self, namespace: str) -> dict[str, Any]:
        """Return the settings of a run with its own namespace and database."""
        return settings_of(self.broker, self.redis.fresh_url(), namespace, self.topics)

    def floor(self, client: str) -> dict[str, Any]:
        """Only poll and decode all records."""
        reading = {"bootstrap": self.broker.bootstrap, "topics": self.topics, "records": len(self.sent)}
        return parts.measure("floor", {**reading, "client": client}, self.log)


@contextmanager
def scene_of(size: Size, say: Callable[[str], None], properties: Mapping[str, str] | None = None) -> Iterator[Scene]:
    """Start new servers for each size, because a broker that has run for a while serves later sizes faster."""
    say(f"{size.users:,} users: simulating {size.events:,} events")
    sent = events_of(size)
    say(f"{size.users:,} users: brute force")
    expected = truth(sent)
    with (
        KafkaBroker(for_rates=True, heap_mb=512, properties=properties) as broker,
        DeployedRedis() as redis,
        _log() as log,
    ):
        topics = {name: f"{name}-{size.users}" for name in INPUTS}
        for topic in topics.values():
            broker.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})  # event times are of a fixed day long ago
        say(f"{size.users:,} users: producing")
        produce(broker, sent, topics)
        scene = Scene(broker, redis, log, sent, expected, list(topics.values()))
        scene.floor("ours")  # the broker's warm-up
        yield scene


def measure(size: Size, rounds: int, say: Callable[[str], None]) -> CommitOutcome:
    with scene_of(size, say) as scene:
        runs, checked = [], 0
        for number in range(rounds):
            say(f"{size.users:,} users: round {number + 1} of {rounds}, floor")
            floor, own_floor = scene.floor("kafka-python"), scene.floor("ours")
            say(f"{size.users:,} users: round {number + 1} of {rounds}, worker")
            given = settings_of(scene.broker, scene.redis.fresh_url(), f"bench{number}", scene.topics)
            worker, redis_seconds, redis_peak_mb, rows = run_workers(given, len(scene.sent), scene.redis, scene.log)
            checked += require_equal(f"{size.users} users", *checkable(rows, scene.expected))
            runs.append(Round(worker, redis_seconds, redis_peak_mb, floor, own_floor))
    return CommitOutcome(size, statistics.fmean(len(record.value) for record in scene.sent), checked, runs)


def measure_ways(size: Size, rounds: int, ways: Sequence[Way], say: Callable[[str], None]) -> Turns:
    """Run the same events in several ways, in turns. Each way is first equally often, as far as the rounds allow."""
    with scene_of(size, say, {"group.initial.rebalance.delay.ms": str(JOINING_MS)}) as scene:
        turns, checked = [], 0
        for number in range(rounds):
            floor = scene.floor("kafka-python")
            first, turn = number % len(ways), {}
            for place, way in enumerate([*ways[first:], *ways[:first]]):
                say(f"{way}, round {number + 1} of {rounds}")
                given = settings_of(scene.broker, scene.redis.fresh_url(), f"bench{number}-{place}", scene.topics, way)
                worker, redis_seconds, redis_peak_mb, rows = run_workers(given, len(scene.sent), scene.redis, scene.log, way.workers)
                checked += require_equal(f"{size.users} users, {way}", *checkable(rows, scene.expected, way))
                turn[way] = Round(worker, redis_seconds, redis_peak_mb, floor, {})
            turns.append(turn)
    return Turns(size, checked, turns)


def checkable(rows_read: Rows, expected: Rows, way: Way = Way()) -> tuple[Rows, Rows]:  # noqa: B008 (a value)
    """Return the columns that both have: those of engagement metrics only if they are computed, and none of assessment metrics.

    The tests' oracle has another catalogue. Engagement columns follow all others, and those of assessment metrics follow them.
    """
    plain = build_engine(Settings(), INPUTS).layout.width
    width = len(next(iter(expected.values()))) if "engagement" in way.more else plain
    return tuple({key: row[:width] for key, row in rows.items()} for rows in (rows_read, expected))  # type: ignore[return-value]


def run_workers(
    given: dict[str, Any], events: int, redis: DeployedRedis, log: Path, workers: int = 1
) -> tuple[dict[str, Any], float, float, Rows]:
    """Let workers of one group commit all events. Returns their figures, those of Redis, and what is stored."""
    settings = Settings.model_validate(given)
    store = RedisStore(settings.redis)
    before = redis_seconds_of(redis)
    children = [parts.start("worker", {"settings": given}, log) for _ in range(workers)]

    def all_committed() -> bool:
        for child in children:
            if child.poll() is not None:
                raise RuntimeError(f"a worker exited with {child.returncode}\n{log.read_text(errors='replace')[-4_000:]}")
        views = store.view(range(PARTITIONS), {}, tables=())
        return sum(offset or 0 for view in views.values() for offset in decode_control(view.control).progress.offsets) == events

    try:
        # Looked at so rarely that it costs the machine nothing; the time is the worker's own, up to its last commit of records.
        deadline = time.monotonic() + SECONDS_MAX
        while not all_committed():
            if time.monotonic() > deadline:
                raise WrongAnswerError(f"{SECONDS_MAX} s after the start not all records are committed")
            time.sleep(LOOK_SECONDS)
        seconds = redis_seconds_of(redis) - before
        for child in children:
            child.send_signal(signal.SIGTERM)
        answers = [parts.answer(child, "worker", log) for child in children]
    finally:
        for child in children:
            child.kill()
    with redis.client() as client:
        peak_mb = int(client.info("memory")["used_memory_peak"]) / (1 << 20)
    rows = stored_rows(settings, store)
    store.close()
    return _together(answers), seconds, peak_mb, rows


def _together(workers: list[dict[str, Any]]) -> dict[str, Any]:
    """Combine the figures of workers, from the first record to the last commit. Raises WrongAnswerError if one of them did nothing."""
    if not all(worker["commits"] for worker in workers):
        raise WrongAnswerError("a worker took no part: the group had formed before it came")
    return {
        "seconds": max(worker["ended"] for worker in workers) - min(worker["began"] for worker in workers),
        "start_seconds": sum(worker["start_seconds"] for worker in workers),
        "processor_seconds": sum(worker["processor_seconds"] for worker in workers),
        "other_seconds": sum(worker["other_seconds"] for worker in workers),
        "stages": {stage: sum(worker["stages"].get(stage, 0.0) for worker in workers) for stage in workers[0]["stages"]},
        "peak_mb": max(worker["peak_mb"] for worker in workers),
    }


def stored_rows(settings: Settings, store: RedisStore) -> Rows:
    """Return every stored tally, merged over tasks. Raises WrongAnswerError if events were refused."""
    builder = build_report_builder(settings, build_engine(settings, settings.kafka.topics))
    for task, view in store.view(range(PARTITIONS), {}).items():
        builder.update(task, view)
    if refused := refused_counts(counts_by_reason(builder.report(PARTITIONS).counts)):
        raise WrongAnswerError(f"events were refused: {refused}")
    aggregator = builder.aggregator
    return {
        (start, group.experiment, group.variant): tally for start in aggregator.starts() for group, tally in aggregator.pane(start).items()
    }


def redis_seconds_of(redis: DeployedRedis) -> float:
    with redis.client() as client:
        usage = client.info("cpu")
    return sum(float(usage[f"used_cpu_{mode}{whose}"]) for mode in ("sys", "user") for whose in ("", "_children"))


@contextmanager
def _log() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="streammetrics-bench-") as directory:
        yield Path(directory) / "children.log"
