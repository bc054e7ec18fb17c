"""Simulated traffic into Kafka, keyed by user id, so that the default partitioner brings a user's events together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

from streammetrics.connectors.kafka.client import KafkaConnection, client_log, connection_options, starting, words_of
from streammetrics.connectors.kafka.producer import close_producer
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import SourceError

WAITING_RECORDS_MAX = 5_000
"""Records that wait for their acknowledgement together; a bound on memory, for the client has none."""
WRITE_MS_MAX = 15_000


class KafkaSink:
    """A producer of simulated traffic. Raises ConfigError when a topic is missing, SourceError when Kafka fails."""

    def __init__(self, settings: KafkaConnection, topics: Sequence[str]) -> None:
        client_log()
        describe_topics(settings, topics).require_all("kafka.topics")
        self._failure: BaseException | None = None
        self._waiting = 0
        with starting("the Kafka producer", settings) as network:
            self._producer: Any = KafkaProducer(
                **connection_options(settings),
                kafka_client=network,
                acks="all",
                linger_ms=10,
                batch_size=1 << 17,
                max_block_ms=WRITE_MS_MAX,
                delivery_timeout_ms=WRITE_MS_MAX,
                allow_auto_create_topics=False,
                metrics_enabled=False,
            )

    def write(self, sent: SimulatedRecord, timestamp_ms: int | None) -> None:
        """Hand over a record; `timestamp_ms` (epoch) is its own time in the log, None for now."""
        with self._explained():
            future = self._producer.send(sent.topic, key=sent.key, value=sent.value, timestamp_ms=timestamp_ms)
        future.add_errback(self._fail)
        self._waiting += 1
        if self._waiting >= WAITING_RECORDS_MAX:
            self.flush()

    def flush(self) -> None:
        """Wait until all that was handed over is acknowledged."""
        with self._explained():
            self._producer.flush(timeout=WRITE_MS_MAX / 1_000)
        self._waiting = 0
        if self._failure is not None:
            raise _told(self._failure)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (KafkaError, AssertionError) as error:
            raise _told(self._failure or error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            close_producer(self._producer)


def _told(error: BaseException) -> SourceError:
    return SourceError(f"Kafka does not take the traffic: {words_of(error)}")
