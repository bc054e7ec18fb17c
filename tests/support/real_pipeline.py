"""`streammetrics run` as users run it: a process with a TOML file, between a real broker and a real Redis.

A `Pipeline` is one set of topics and one namespace. What must come out is computed by brute force from the records as they
lie in the partitions, and what did come out is read from Redis, from /api/report and from /metrics.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from streammetrics.config import Settings
from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.source import Input
from streammetrics.engine.task_state import ControlRecord, decode_control
from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Exposure, Feedback, Impression
from streammetrics.state.tables import TaskView
from streammetrics.windows.unique_users import UNIQUE_USERS, UniqueUserWindows
from streammetrics.windows.user_counts import UserCountLayout
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.reports import build_report_builder
from tests.oracle import Arrival, Group, Result, Step, expected_result, parse_rules
from tests.oracle import Settings as OracleSettings
from tests.oracle.users import users_of_tasks
from tests.support.brute_force import row_of, users_shown
from tests.support.machine import oracle_group
from tests.support.native_json import native_json
from tests.tools.servers.kafka import KafkaBroker, KafkaCluster, places_of
from tests.tools.servers.process import LOOPBACK, Host, wait_until
from tests.tools.servers.product import Product

PARTITIONS = 4
HOUR_MS = 3_600_000
PATIENCE_SECONDS = 120.0


class Service(Product):
    """One `streammetrics run` process with a TOML file."""

    def __init__(self, settings: Mapping[str, Mapping[str, object]], host: Host = LOOPBACK) -> None:
        super().__init__(host=host)
        self.settings = settings
        self.flags = ("--config", self.config)

    @property
    def config(self) -> Path:
        return self.directory / "streammetrics.toml"

    def prepare(self) -> None:
        self.config.write_text(as_toml(self.settings), encoding="utf-8")

    def samples(self, begin: str = "") -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
        """Return the samples of /metrics whose names begin so, by name and sorted labels. To parse them all takes long."""
        series_values: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
        lines = [line for line in self.get("/metrics").text.splitlines(keepends=True) if line.startswith(begin)]
        for family in text_string_to_metric_families("".join(lines)):
            for sample in family.samples:
                series_values.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
        return series_values

    def series(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the samples of one name by sorted labels."""
        return self.samples(name).get(name, {})

    def sample(self, name: str, **labels: str) -> float:
        """Return one sample; 0 if there is none yet."""
        return self.series(name).get(tuple(sorted(labels.items())), 0.0)

    def wait_for_exit(self, seconds: float = 30) -> int:
        """Wait for the process to end and return its exit code."""
        code = self._require_process().wait(seconds)
        self._forget()
        return code

    def signal(self, number: int) -> None:
        self._require_process().send_signal(number)

    @property
    def log(self) -> str:
        return self.log_path.read_text(encoding="utf-8")


def as_toml(settings: Mapping[str, Mapping[str, object]]) -> str:
    """Write tables of texts, numbers, booleans and lists as TOML: their values look the same in JSON."""
    tables = {section: "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items()) for section, values in settings.items()}
    return "\n".join(f"[{section}]\n{table}" for section, table in tables.items())


class Kept(NamedTuple):
    """A record of a partition."""

    place: Input
    offset: int
    timestamp_ms: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Truth:
    """The expected result, computed by brute force: the oracle's result, all counters, and the rejected records with reasons."""

    result: Result
    counters: Mapping[tuple[str, str], int]
    refused: Mapping[tuple[str, int, int], tuple[str, bytes | None]]

    @property
    def users_open(self) -> int:
        return sum(len({one.user_id for one in task.sessions if not one.closed}) for task in self.result.tasks.values())


class Pipeline:
    """Topics, a namespace, and settings for any number of processes. `sections` overrides the settings given here."""

    def __init__(
        self, broker: KafkaBroker | KafkaCluster, redis_url: str, name: str, topics: Sequence[str], **sections: Mapping[str, object]
    ) -> None:
        self.broker = broker
        self.topics = tuple(f"{name}-{topic}" for topic in topics)
        self.dead_letters = f"{name}-refused"
        self.name = name
        usual: dict[str, dict[str, object]] = {
            "kafka": {
                "bootstrap_servers": broker.bootstrap.split(","),
                "topics": list(self.topics),
                "group_id": name,
                "dead_letter_topic": self.dead_letters,
                "session_timeout_ms": 3_000,
            },
            "redis": {"url": redis_url, "namespace": name},
            "join": {"support_users": 1},  # short logs: a single event sets the time
            "metrics": {"cutoffs": [3, 10]},
            "windows": {"windows": ["5m", "1h", "12h"]},
            "worker": {"commit_ms": 200, "commit_behind_ms": 600},
            "exporter": {"publish_ms": 100},
            "log": {"format": "json"},
        }
        self.sections = {key: {**usual.get(key, {}), **sections.get(key, {})} for key in [*usual, *sections]}
        self.settings = Settings.model_validate(self.sections)
        self.engine = build_engine(self.settings, self.topics)
        self.decode = build_decoder(self.settings)
        for topic in self.topics:
            broker.create_topic(topic, partitions=PARTITIONS)
        broker.create_topic(self.dead_letters)

    def service(self, host: Host = LOOPBACK, **sections: Mapping[str, object]) -> Service:
        """Return a process of this pipeline, not started yet. `sections` overrides the settings of the pipeline."""
        sections = {"http": {"host": host.address}, **sections}
        return Service({key: {**self.sections.get(key, {}), **sections.get(key, {})} for key in [*self.sections, *sections]}, host)

    @contextmanager
    def store(self) -> Iterator[RedisStore]:
        store = RedisStore(self.settings.redis)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def producer(self) -> Iterator[KafkaProducer]:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap, acks="all", linger_ms=5)
        try:
            yield producer
            producer.flush(timeout=30)
        finally:
            producer.close()

    def write_ends(self, ts: int) -> None:
        """Write a last event at `ts` to every input, so that all earlier sessions end."""
        with self.producer() as producer:
            for task in range(PARTITIONS):
                user = next(f"end-{number}" for number in range(10_000) if partition_of(f"end-{number}", PARTITIONS) == task)
                ends = (Impression("end", user, ts, ()), Feedback(user, ts, "none", "click"), Exposure(user, ts, "none", "none"))
                for topic, event in zip(self.topics, ends[: 3 if self.settings.exposures.enabled else 2], strict=False):
                    producer.send(topic, native_json(event), key=user.encode(), timestamp_ms=ts)

    def records(self, topics: Sequence[str] | None = None) -> list[Kept]:
        """Return every record, partition by partition."""
        return [Kept(Input(*place), *rest) for place, *rest, _ in self._read(topics or self.topics)]

    def letters(self) -> list[tuple[dict[str, str], bytes | None]]:
        """Return headers and bytes of every dead letter."""
        return [({name: text.decode() for name, text in headers}, value) for _, _, _, value, headers in self._read([self.dead_letters])]

    def _read(self, topics: Sequence[str]) -> list[tuple[Any, int, int, bytes | None, Any]]:
        consumer = KafkaConsumer(bootstrap_servers=self.broker.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False)
        try:
            places = places_of(consumer, *topics)
            consumer.assign(places)
            ends = consumer.end_offsets(places)
            records_by_place: dict[TopicPartition, list[Any]] = {place: [] for place in places}
            deadline = time.monotonic() + PATIENCE_SECONDS
            while any(consumer.position(place) < ends[place] for place in places):
                assert time.monotonic() < deadline, f"the records of {topics} could not be read back"
                for place, records in consumer.poll(timeout_ms=200).items():
                    records_by_place[place] += records
        finally:
            consumer.close()
        return [
            (place, record.offset, record.timestamp, record.value, record.headers) for place in places for record in records_by_place[place]
        ]

    # --- expected results

    def truth(self, records: Iterable[Kept] | None = None, after: Sequence[Step] = ()) -> Truth:
        """Compute the expected result from the records in the partitions. `after` comes last in every task."""
        steps: dict[int, list[Step]] = {task: [] for task in range(PARTITIONS)}
        places: dict[int, list[Kept]] = {task: [] for task in range(PARTITIONS)}
        malformed: Counter[tuple[str, str]] = Counter()
        refused: dict[tuple[str, int, int], tuple[str, bytes | None]] = {}
        for kept in self.records() if records is None else records:
            for event in self.decode(kept.value):
                if isinstance(event, MalformedEvent):
                    malformed[event.reason, kept.place.topic] += 1
                    malformed["events", kept.place.topic] += 1
                    refused[*kept.place, kept.offset] = (event.reason, kept.value)
                else:
                    steps[kept.place.partition].append(Arrival(kept.place.topic, event, kept.timestamp_ms))
                    places[kept.place.partition].append(kept)
        for of_task in steps.values():
            of_task.extend(after)
        result = expected_result(steps, self.oracle_settings())
        for task, result_of_task in result.tasks.items():
            for outcome, kept in zip(result_of_task.outcomes, places[task], strict=True):
                if outcome in ("late", "future"):
                    refused[*kept.place, kept.offset] = (outcome, kept.value)
        return Truth(result, dict(Counter(result.counters) + malformed), refused)

    def oracle_settings(self) -> OracleSettings:
        join, windows, metrics = self.settings.join, self.settings.windows, self.settings.metrics
        return OracleSettings(
            inputs=self.topics,
            gap_ms=join.gap_ms,
            lateness_ms=join.lateness_ms,
            attribution_ms=join.attribution_ms,
            out_of_orderness_ms=join.out_of_orderness_ms,
            idle_ms=join.idle_ms,
            future_ms=math.inf if join.future_ms is None else join.future_ms,
            support_jump_ms=join.support_jump_ms,
            support_users=join.support_users,
            support_far_ms=join.support_far_ms,
            pane_ms=windows.pane_ms,
            windows_ms=tuple(window.ms for window in windows.windows),
            session_events_max=join.session_events_max,
            items_max=self.settings.events.limits.items_max,
            rules=parse_rules(self.engine.rules.grades.text),
            segments=tuple(windows.segments),
            cutoffs=tuple(metrics.cutoffs),
            relevance_min=metrics.relevant_grade,
            validity_ms=self.settings.exposures.validity_ms if self.settings.exposures.enabled else None,
        )

    # --- actual results

    def views(self) -> dict[int, TaskView]:
        with self.store() as store:
            return dict(store.view(range(PARTITIONS), {}))

    def controls(self) -> dict[int, ControlRecord]:
        return {task: decode_control(view.control) for task, view in self.views().items()}

    def committed(self) -> int:
        """Return how many records are committed."""
        return sum(offset or 0 for control in self.controls().values() for offset in control.progress.offsets)

    def wait_until_read(self, users_open: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until every record is committed and this many users have open sessions."""
        ends: Counter[Input] = Counter()
        for kept in self.records():
            ends[kept.place] = kept.offset + 1

        def read() -> bool:
            views = self.views()
            offsets = {
                Input(topic, task): offset
                for task, view in views.items()
                for topic, offset in zip(self.topics, decode_control(view.control).progress.offsets, strict=True)
            }
            users = sum(view.users - decode_control(view.control).sessions.without_sessions for view in views.values())
            return users == users_open and all(offsets.get(place) == end for place, end in ends.items())

        wait_until(read, what=f"everything is committed and {users_open} users are left", deadline_seconds=seconds)

    def stored(self) -> tuple[dict[tuple[str, str], int], dict[tuple[int, Group], list[int]]]:
        """Return the counters and every tally in Redis."""
        builder = build_report_builder(self.settings, self.engine)
        for task, view in self.views().items():
            builder.update(task, view)
        counts = {key: count for key, count in builder.report(PARTITIONS).counts.items() if count}
        aggregator = builder.aggregator
        tallies = {(start, oracle_group(group)): tally for start in aggregator.starts() for group, tally in aggregator.pane(start).items()}
        return counts, {key: tally for key, tally in tallies.items() if tally[0]}

    def expected(self, truth: Truth) -> tuple[dict[tuple[str, str], int], dict[tuple[int, Group], list[int]]]:
        return dict(truth.counters), {key: row_of(tally, self) for key, tally in truth.result.panes.items()}

    def assert_exact(self, records: Iterable[Kept] | None = None) -> Truth:
        """Wait until everything is committed, and compare every stored integer with brute force."""
        truth = self.truth(records)
        self.wait_until_read(truth.users_open)
        (counts, tallies), (wanted_counts, wanted_tallies) = self.stored(), self.expected(truth)
        assert counts == wanted_counts
        assert tallies == wanted_tallies
        self.assert_users(truth)
        return truth

    def assert_users(self, truth: Truth) -> None:
        """Compare the unique users of earlier windows with brute force."""
        assert self.engine.rules.unique_users is not None
        settings, aggregator = (
            self.oracle_settings(),
            UniqueUserWindows(UserCountLayout(self.engine.layout.scorer), self.settings.windows.pane_ms),
        )
        complete = []
        for task, view in self.views().items():
            aggregator.update(
                task, {int(start): row for start, row in view.table(UNIQUE_USERS).items()}, decode_control(view.control).panes.oldest_kept
            )
            complete.append(decode_control(view.control).enrolment.enrolled_before)
        lists = [task.lists for task in truth.result.tasks.values()]
        starts = {impression.ts // settings.pane_ms * settings.pane_ms for of_task in lists for impression in of_task}
        for end in sorted(start for start in starts if start <= min(complete))[::5]:
            for window_ms in settings.windows_ms:
                window = aggregator.window(window_ms, end, self.engine.rules.unique_users.panes)
                assert users_shown([window]) == {(window_ms, end): users_of_tasks(lists, settings, end, window_ms)}

    def window_values(self, truth: Truth, window_ms: int, view: str, metric: str) -> dict[Group, float]:
        """Return a metric's mean per group, by one division of integers: the exact double."""
        columns = {str(column.metric): column.scale_bits for column in self.engine.layout.scorer.columns}
        groups = truth.result.windows[window_ms, view].groups
        return {group: tally.sums[metric] / (tally.lists << columns[metric]) for group, tally in groups.items()}


def start_ms(hours_ago: int = 10) -> int:
    """Return a whole hour in the recent past, because the broker does not keep records dated far from now."""
    return (time.time_ns() // 1_000_000 // HOUR_MS - hours_ago) * HOUR_MS
