"""Writes simulated traffic to Kafka. The key is the user id, so one partition gets all of a user's events."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from kafka.errors import KafkaError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import describe_error
from streammetrics.connectors.kafka.patches import stuck_producer
from streammetrics.connectors.kafka.producer import new_producer
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import SourceError

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
