"""The client that a source reads with: how it is made, what it is asked about offsets, how it is let go. No record is read here."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import IllegalStateError, KafkaError, LogTruncationError
from kafka.structs import TopicPartition

from streammetrics.connectors.base import Input
from streammetrics.connectors.kafka.client import KafkaConnection, connection_options, starting

ASK_MS = 2_000
CLOSE_MS = 1_000
FETCH_WAIT_MS = 100
"""How long a broker keeps a question for records that it does not have yet. The client asks a broker one thing at a time: while it waits
for inputs at their end, no other of that broker is read."""


def new_consumer(settings: KafkaConnection) -> tuple[KafkaConsumer, Any]:
    """A consumer that has not subscribed, and what it knows of topics and brokers, kept up to date by it.

    It commits nothing of itself, and never chooses where to begin. Raises SourceError, with nothing left behind of one that failed
    to start.
    """
    with starting("the Kafka consumer", settings) as network:
        consumer = KafkaConsumer(
            **connection_options(settings),
            kafka_client=network,
            group_id=settings.group_id,
            group_instance_id=settings.group_instance_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=settings.isolation_level,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=max(100, min(2_000, settings.session_timeout_ms // 5)),
            max_partition_fetch_bytes=settings.partition_fetch_bytes_max,
            max_poll_records=settings.poll_records_max,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
    return consumer, network.cluster


def await_metadata(cluster: Any) -> None:
    """Let the client learn its topics before it joins: one that leads the group would else hand out nothing, or all twice."""
    fresh = threading.Event()

    def heard(_: Any) -> None:
        fresh.set()

    cluster.add_listener(heard)
    cluster.request_update()
    fresh.wait(ASK_MS / 1_000)
    cluster.remove_listener(heard)


def ends_of(consumer: Any, inputs: Iterable[Input]) -> dict[Input, int]:
    """Where the logs of these inputs end. Raises the client's KafkaError when the broker does not answer."""
    return _ask(consumer.end_offsets, inputs)


def bounds_of(consumer: Any, inputs: Collection[Input]) -> dict[Input, tuple[int, int]]:
    """(beginning, end) of the logs of these inputs. Raises the client's KafkaError when the broker does not answer."""
    beginnings, ends = _ask(consumer.beginning_offsets, inputs), ends_of(consumer, inputs)
    return {place: (beginnings[place], ends[place]) for place in inputs}


def _ask(question: Callable[..., Any], inputs: Iterable[Input]) -> dict[Input, int]:
    answer = question([TopicPartition(*place) for place in inputs], timeout_ms=ASK_MS)
    return {Input(*place): offset for place, offset in answer.items()}


def position_of(consumer: Any, place: Input) -> int | None:
    """Where the client reads next; None if the input has just been taken away."""
    try:
        position: int | None = consumer.position(TopicPartition(*place), timeout_ms=ASK_MS)
    except (KeyError, IllegalStateError, LogTruncationError):  # the last one comes again from poll, where it is explained
        return None
    return position


def written_of(consumer: Any, place: Input) -> int:
    """The end of the log as the client's last fetch told it, with the records of transactions that are still open; 0 where unknown."""
    try:
        written: int | None = consumer.highwater(TopicPartition(*place))
    except (KeyError, IllegalStateError):  # the input has just been taken away
        return 0
    return written or 0


def await_done(future: Any, seconds: float) -> None:
    """Wait for what the client was asked to do meanwhile, whatever comes of it, but no longer than this."""
    done = threading.Event()
    future.add_both(lambda _: done.set())
    done.wait(seconds)


def close_consumer(consumer: Any) -> None:
    """Leave the group at once, whether or not a broker hears of it."""
    with contextlib.suppress(KafkaError, RuntimeError):
        consumer.close(autocommit=False, timeout_ms=CLOSE_MS)
