"""The client that a source reads with: building it, asking it for offsets, closing it, and which tasks its group gives it. Reads no record.

The group decides about tasks on the client's I/O thread; the consumer loop learns it in `poll`. On the I/O thread the listener only seeks,
pauses and sets flags, because nothing else is safe there. All of it happens under one lock. A task that has just changed hands therefore
cannot be started or resumed with outdated offsets.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import IllegalStateError, KafkaError, LogTruncationError, UnknownTopicOrPartitionError
from kafka.structs import TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import Network, connection_options, starting
from streammetrics.connectors.kafka.patches import join_fix, overdue_heartbeat
from streammetrics.connectors.source import Input

REQUEST_MS = 2_000
CLOSE_MS = 1_000
FETCH_WAIT_MS = 100
"""How long a broker may hold a fetch, unless the reader can wait longer. The client sends a broker one fetch at a time. While a fetch waits
at the end of some inputs, no other input of that broker is read."""
FETCH_WAIT_MS_MAX = 1_000
"""Other requests on the same connection wait as long. It is less than they may take."""
FETCH_BYTES_MIN = 1 << 20
"""A broker that has this much answers a fetch at once. A worker with a backlog therefore never waits."""
log = structlog.get_logger("streammetrics.kafka")


def new_consumer(settings: KafkaSettings, in_group: bool = True) -> tuple[KafkaConsumer, Network]:
    """Build a consumer that has not subscribed. Returns it and its network, which has the metadata of topics and brokers.

    The consumer never commits by itself and never chooses a start offset. Without `in_group` it needs no rights for the group. Raises
    SourceError. A failed start leaves nothing behind.
    """
    with starting("the Kafka consumer", settings) as network:
        consumer = KafkaConsumer(
            **connection_options(settings),
            kafka_client=network,
            group_id=settings.group_id if in_group else None,
            group_instance_id=settings.group_instance_id,
            partition_assignment_strategy=[RangePartitionAssignor],
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=settings.isolation_level,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=max(100, min(2_000, settings.session_timeout_ms // 5)),
            max_partition_fetch_bytes=settings.partition_fetch_bytes_max,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            fetch_min_bytes=fetch_bytes_min(settings),
            allow_auto_create_topics=False,
            metrics_enabled=False,
        )
    join_fix.install(consumer)
    overdue_heartbeat.install(consumer)
    return consumer, network


def fetch_bytes_min(settings: KafkaSettings) -> int:
    """Return for how many bytes a broker holds a fetch.

    The broker waits, not the client, so a poll returns as before when partitions are reassigned or its timeout ends. No fetch can have
    more bytes than a partition may send: without that bound a worker with one small partition would wait in a backlog.
    """
    return min(FETCH_BYTES_MIN, settings.partition_fetch_bytes_max // 2)


def await_metadata(cluster: Any) -> None:
    """Wait until the client knows its topics. A group leader without metadata assigns no partition, or assigns them twice."""
    updated = threading.Event()

    def on_update(_: Any) -> None:
        updated.set()

    cluster.add_listener(on_update)
    cluster.request_update()
    updated.wait(REQUEST_MS / 1_000)
    cluster.remove_listener(on_update)


def ends_of(consumer: Any, inputs: Iterable[Input]) -> dict[Input, int]:
    """Return the end offsets of inputs. Raises the client's KafkaError when the broker does not answer."""
    return _request(consumer.end_offsets, inputs)


def bounds_of(consumer: Any, inputs: Collection[Input]) -> dict[Input, tuple[int, int]]:
    """Return the (beginning, end) offsets of inputs. Raises the client's KafkaError when the broker does not answer."""
    beginnings, ends = _request(consumer.beginning_offsets, inputs), ends_of(consumer, inputs)
    return {place: (beginnings[place], ends[place]) for place in inputs}


def _request(method: Callable[..., Any], inputs: Iterable[Input]) -> dict[Input, int]:
    try:
        response = method([TopicPartition(*place) for place in inputs], timeout_ms=REQUEST_MS)
    except KeyError as error:  # the client expects an answer for each input, and has none for a topic that was just deleted
        raise UnknownTopicOrPartitionError(f"no offset of {error}") from error
    return {Input(*place): offset for place, offset in response.items()}


def position_of(consumer: Any, place: Input) -> int | None:
    """Return the offset that the client reads next, or None if the input was just revoked."""
    try:
        position: int | None = consumer.position(TopicPartition(*place), timeout_ms=REQUEST_MS)
    except (KeyError, IllegalStateError, LogTruncationError):  # `poll` raises a truncation again, where it is explained
        return None
    return position


def high_watermark_of(consumer: Any, place: Input) -> int:
    """Return the log's end as of the last fetch, including records of open transactions. Returns 0 where it is unknown."""
    try:
        offset: int | None = consumer.highwater(TopicPartition(*place))
    except (KeyError, IllegalStateError):  # the input was just revoked
        return 0
    return offset or 0


def await_done(future: Any, seconds: float) -> None:
    """Wait for a request to end, successfully or not, but no longer than `seconds`."""
    done = threading.Event()
    future.add_both(lambda _: done.set())
    done.wait(seconds)


def close_consumer(consumer: Any) -> None:
    """Leave the group at once. Errors are ignored, because the broker may be away."""
    with contextlib.suppress(KafkaError, RuntimeError):
        consumer.close(autocommit=False, timeout_ms=CLOSE_MS)


class TaskAssignment(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    """The tasks of one client. `hold` is called with every newly assigned partition and must keep it from being read.

    A task is first assigned by the group, then granted (`poll` has returned it), then flowing (it was started). A revocation ends all
    three at once. A task that stays with this process through a rebalance is revoked and granted again.
    """

    def __init__(self, topics: Collection[str], hold: Callable[[Any], None]) -> None:
        self._topics = frozenset(topics)
        self._hold = hold
        self._lock = threading.RLock()
        self._revoked: set[int] = set()
        self._assigned: set[int] = set()
        self._granted: set[int] = set()
        self._flowing: set[int] = set()
        self._split: set[int] = set()
        """Tasks of which this client has some topics, and another member has the others."""

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        with self._lock:
            topics_of: dict[int, set[str]] = {}
            for place in assigned:
                self._hold(place)
                topics_of.setdefault(place.partition, set()).add(place.topic)
            whole = {task for task, topics in topics_of.items() if topics == self._topics}
            self._split = topics_of.keys() - whole
            if partial := sorted(self._split):
                log.warning(
                    "the group split the topics of a task between members, so no member can read it: do all members read the same topics?",
                    tasks=partial,
                )
            self._end(whole & self._granted)
            self._assigned |= whole

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        with self._lock:
            self._end({place.partition for place in revoked})

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self.on_partitions_revoked(lost)

    def _end(self, tasks: set[int]) -> None:
        self._split -= tasks
        self._assigned -= tasks
        self._revoked |= tasks & self._granted
        self._granted -= tasks
        self._flowing -= tasks

    def take(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the tasks (revoked, assigned) since the last call. A task in both was revoked and then assigned again."""
        with self._lock:
            revoked, assigned = frozenset(self._revoked), frozenset(self._assigned)
            self._granted |= assigned
            self._revoked, self._assigned = set(), set()
            return revoked, assigned

    def end_all(self) -> None:
        """Revoke all tasks, because their client is closed."""
        with self._lock:
            self._end(self._granted | self._assigned)

    def start(self, task: int) -> bool:
        """Mark a task as flowing. Returns False if it has changed hands since it was granted. Call it within `locked`."""
        with self._lock:
            if task in self._granted:
                self._flowing.add(task)
            return task in self._granted

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep tasks from changing hands meanwhile, so that they can be sought and resumed safely."""
        with self._lock:
            yield

    @property
    def granted(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._granted)

    @property
    def split(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._split)

    @property
    def flowing(self) -> frozenset[int]:
        with self._lock:
            return frozenset(self._flowing)
