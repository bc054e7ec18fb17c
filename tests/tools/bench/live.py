"""Live traffic: the processor time of the worker and of Redis per event, and how old what is committed is, at a steady rate.

The worker is `streammetrics run` as users start it. Records are sent at the pace of their event times, so that lists become final one by
one. After each run the tallies in Redis are compared with brute force over all events.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaProducer

from streammetrics.config import Settings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.simulated import SimulatedRecord, Traffic, generate
from streammetrics.engine.task_state import decode_control
from tests.tools.bench.end_to_end import PARTITIONS, checkable, redis_seconds_of, settings_of, stored_rows, truth
from tests.tools.bench.parts import WrongAnswerError
from tests.tools.bench.truth import INPUTS, Rows, require_equal
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.product import Product, as_flags
from tests.tools.servers.redis import DeployedRedis

EVENTS_PER_LIST = 1.41
"""Events of the simulated traffic for each list: the list and its clicks."""
TICK_SECONDS = 0.02
AGE_SECONDS = 0.37
"""Time between two looks at what is committed, at another moment of a second each time."""
SETTLED_SECONDS = 60
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Pace:
    """Events per second, and the seconds before and during the measurement."""

    rate: int
    warm_seconds: int
    seconds: int
    users: int = 20_000

    @property
    def warm_events(self) -> int:
        return self.rate * self.warm_seconds

    @property
    def events(self) -> int:
        return self.warm_events + self.rate * self.seconds


class LiveRound(NamedTuple):
    """Microseconds of processor time per event; the mean age of what was committed; `rate` is what was reached."""

    worker_us: float
    redis_us: float
    age_seconds: float
    rate: float
    peak_mb: float
    checked: int


@dataclass(slots=True)
class Ages:
    """How old what is committed is, looked at now and then while records are sent."""

    store: RedisStore
    sent: list[tuple[int, float]] = field(default_factory=list)
    """How many records were sent, and when."""
    seconds: list[float] = field(default_factory=list)
    next_look: float = 0.0

    def note(self, events: int) -> None:
        """Note how many records are sent by now."""
        now = time.monotonic()
        self.sent.append((events, now))
        if now >= self.next_look:
            self.next_look = now + AGE_SECONDS
            first = bisect_left(self.sent, committed_events(self.store), key=lambda moment: moment[0])
            self.seconds.append(now - self.sent[first][1])


def measure(pace: Pace, rounds: int, say: Callable[[str], None]) -> list[LiveRound]:
    """Run the same traffic in each round."""
    say(f"{pace.rate:,} events/s: simulating {pace.events:,} events, and brute force")
    sent = list(islice(generate(_traffic(pace)), pace.events))
    expected = truth(sent)
    measured = []
    with KafkaBroker(for_rates=True, heap_mb=512) as broker, DeployedRedis() as redis:
        for number in range(rounds):
            say(f"{pace.rate:,} events/s: round {number + 1} of {rounds}")
            measured.append(_round(pace, sent, expected, broker, redis, f"live-{number}"))
    return measured


def _traffic(pace: Pace) -> Traffic:
    return Traffic(users=pace.users, seed=7, item_id_chars=35, impressions_per_second=pace.rate / EVENTS_PER_LIST)


def _round(
    pace: Pace,
    sent: Sequence[SimulatedRecord],
    expected: Rows,
    broker: KafkaBroker,
    redis: DeployedRedis,
    name: str,
) -> LiveRound:
    topics = {topic: f"{topic}-{name}" for topic in INPUTS}
    for topic in topics.values():
        broker.create_topic(topic, PARTITIONS, {"retention.ms": "-1"})  # event times are of a fixed day long ago
    given = settings_of(broker, redis.fresh_url(), name, list(topics.values()))
    settings = Settings.model_validate(given)
    with contextlib.closing(RedisStore(settings.redis)) as store, Product(*as_flags(flat(given))) as worker:
        worker.wait_ready()
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, linger_ms=20, acks="all", enable_idempotence=True)
        ages = Ages(store)
        _send(producer, sent[: pace.warm_events], topics, pace.rate, ages)
        ages.seconds.clear()
        worker_before, redis_before, began = cpu_seconds(worker.pid), redis_seconds_of(redis), time.monotonic()
        _send(producer, sent[pace.warm_events :], topics, pace.rate, ages)
        seconds, events = time.monotonic() - began, len(sent) - pace.warm_events
        worker_seconds, redis_seconds = cpu_seconds(worker.pid) - worker_before, redis_seconds_of(redis) - redis_before
        producer.close()
        _await_committed(store, len(sent))
        peak_mb = _peak_mb(worker.pid)
        worker.stop()
        checked = require_equal(f"live {pace.rate}/s", *checkable(stored_rows(settings, store), expected))
    age_seconds = statistics.fmean(ages.seconds)
    return LiveRound(worker_seconds * 1e6 / events, redis_seconds * 1e6 / events, age_seconds, events / seconds, peak_mb, checked)


def flat(given: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return settings by dotted key, as flags take them. The port is the process's own."""
    plain = {f"{section}.{key}": value for section, values in given.items() for key, value in values.items()}
    return {
        key: ",".join(value) if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in plain.items()
        if key != "http.port"
    }


def _send(producer: KafkaProducer, records: Sequence[SimulatedRecord], topics: Mapping[str, str], rate: int, ages: Ages) -> None:
    """Send the records at an even rate."""
    began, number = time.monotonic(), 0
    before = ages.sent[-1][0] if ages.sent else 0
    while number < len(records):
        due = min(len(records), int((time.monotonic() - began) * rate))
        for record in records[number:due]:
            producer.send(topics[record.topic], key=record.key, value=record.value, timestamp_ms=record.ts)
        number = due
        ages.note(before + number)
        time.sleep(TICK_SECONDS)


def committed_events(store: RedisStore) -> int:
    views = store.view(range(PARTITIONS), {}, tables=())
    return sum(offset or 0 for view in views.values() for offset in decode_control(view.control).progress.offsets)


def _await_committed(store: RedisStore, events: int) -> None:
    deadline = time.monotonic() + SETTLED_SECONDS
    while True:
        if committed_events(store) == events:
            return
        if time.monotonic() > deadline:
            raise WrongAnswerError(f"{SETTLED_SECONDS} s after the last record not all records are committed")
        time.sleep(TICK_SECONDS)


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process, of its children, and of children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return sum(map(int, fields[11:15])) / CLOCK_TICKS + sum(cpu_seconds(int(child)) for child in children)


def _peak_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1_024
