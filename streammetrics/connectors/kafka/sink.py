"""Writes to Kafka: a producer that waits for all replicas, simulated traffic, and results.

The key of an event is the user id, so one partition gets all of a user's events. Results are keyed records of which the newest counts, so
their topic should be compacted. `patches.stuck_producer` closes a producer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import structlog
from kafka import KafkaProducer
from kafka.errors import KafkaError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import connection_options, describe_error, starting
from streammetrics.connectors.kafka.patches import stuck_producer
from streammetrics.connectors.kafka.topics import describe_topics, topic_settings
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import SourceError


def new_producer(settings: KafkaSettings, what: str, **options: Any) -> Any:
    """Build a producer. `what` names it in errors. Raises SourceError. A failed start leaves nothing behind."""
    fixed = {"acks": "all", "allow_auto_create_topics": False, "metrics_enabled": False}
    with starting(what, settings) as network:
        return KafkaProducer(**connection_options(settings) | fixed | options, kafka_client=network)


WAITING_RECORDS_MAX = 5_000
"""The most records that wait for an acknowledgement. It bounds memory; the client has no such bound."""
WRITE_MS_MAX = 15_000


class KafkaSink:
    """Writes simulated traffic. Raises ConfigError when a topic is missing, and SourceError when Kafka fails."""

    def __init__(self, settings: KafkaSettings, topics: Sequence[str]) -> None:
        describe_topics(settings, topics).require_all("kafka.topics")
        self._failure: BaseException | None = None
        self._waiting = 0
        limits = {"linger_ms": 10, "batch_size": 1 << 17, "max_block_ms": WRITE_MS_MAX, "delivery_timeout_ms": WRITE_MS_MAX}
        self._producer = new_producer(settings, "the Kafka producer", **limits)

    def write(self, record: SimulatedRecord, timestamp_ms: int | None) -> None:
        """Send a record. `timestamp_ms` (epoch) is its timestamp in the log; None means now."""
        with self._explained():
            future = self._producer.send(record.topic, key=record.key, value=record.value, timestamp_ms=timestamp_ms)
        future.add_errback(self._fail)
        self._waiting += 1
        if self._waiting >= WAITING_RECORDS_MAX:
            self.flush()

    def flush(self) -> None:
        """Wait until all records sent so far are acknowledged."""
        with self._explained():
            self._producer.flush(timeout=WRITE_MS_MAX / 1_000)
        self._waiting = 0
        if self._failure is not None:
            raise _write_error(self._failure)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (KafkaError, AssertionError) as error:
            raise _write_error(self._failure or error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            stuck_producer.close(self._producer)


def _write_error(error: BaseException) -> SourceError:
    return SourceError(f"Kafka does not accept the traffic: {describe_error(error)}")


WRITE_MS_MAX = 15_000

log = structlog.get_logger("streammetrics.kafka")


class KafkaResults:
    """A sink for results. The constructor raises ConfigError when the topic is missing, and SourceError when Kafka fails."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        describe_topics(settings, [topic]).require_all("kafka.results_topic", ", or leave the setting empty")
        policy = topic_settings(settings, [topic]).get(topic)
        if policy is not None and "compact" not in policy.cleanup_policy:
            log.warning("the topic of results keeps every repeated record: set its cleanup.policy to compact", topic=topic)
        limits = {"linger_ms": 10, "max_block_ms": WRITE_MS_MAX, "delivery_timeout_ms": WRITE_MS_MAX}
        self._producer = new_producer(settings, "the Kafka producer for results", **limits)

    def write(self, records: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Write records (key, value, timestamp in ms) and wait until all replicas have them. Raises SourceError; some may be written."""
        try:
            futures = [self._producer.send(self._topic, key=key, value=value, timestamp_ms=at_ms) for key, value, at_ms in records]
            for future in futures:
                future.get(timeout=WRITE_MS_MAX / 1_000)
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"topic {self._topic!r} does not take results: {describe_error(error)}") from error

    def close(self) -> None:
        """Close the producer without waiting."""
        stuck_producer.close(self._producer)
