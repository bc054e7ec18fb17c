"""Copies topics into topics of our own whose records are keyed by user, exactly once.

For producers that cannot be changed: records without keys, with other keys, or hashed in different ways. Each round reads
records, writes them to the output topics and commits the offsets, all in one Kafka transaction. A consumer with
`isolation_level = read_committed` sees each record once, whatever crashes.

Values, headers and timestamps are copied unchanged. Only the key and the partition change.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import structlog
from kafka import ConsumerRebalanceListener
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    ProducerFencedError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import describe_error
from streammetrics.connectors.kafka.consumer import (
    REQUEST_MS,
    await_metadata,
    bounds_of,
    close_consumer,
    ends_of,
    new_consumer,
    position_of,
)
from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.connectors.kafka.patches import parked_records, stuck_producer
from streammetrics.connectors.kafka.patches.fast_fetch import as_record
from streammetrics.connectors.kafka.sinks import new_producer
from streammetrics.connectors.kafka.topics import RepartitionPlan
from streammetrics.connectors.source import Input
from streammetrics.errors import MalformedEvent, SourceError
from streammetrics.events import Decoder
from streammetrics.events.outcomes import IGNORED

log = structlog.get_logger("streammetrics.kafka")

QUEUED_RECORDS_MAX = 2_000
"""Records of one input that wait for the other inputs. An input with more is paused."""
TRANSACTION_RECORDS_MAX = 5_000
TRANSACTION_MS_MAX = 30_000
"""The broker aborts a transaction that a crashed process left open after this time. Until then its partitions are not readable on."""
WRITE_MS_MAX = 15_000
LOST_MEMBERSHIP = (CommitFailedError, IllegalGenerationError, RebalanceInProgressError, UnknownMemberIdError)


class KeyedRecord(NamedTuple):
    """A client's record with the least time of its events (ms; its log's time without events) and its user, None without events.

    `is_refused`: the record has no user because its events are malformed.
    """

    ts: int
    user_id: str | None
    record: Any
    is_refused: bool = False


@dataclass(slots=True)
class StepMerge:
    """Records of several inputs, merged in order of their time, so that no partition's backlog makes another's events late.

    The next record is known when every input has one, or has none left to read.

    >>> first, second, last = (KeyedRecord(ts, f"u{ts}", None) for ts in (10, 20, 40))
    >>> merge = StepMerge()
    >>> merge.add(Input("a", 0), [first, last])
    >>> merge.add(Input("b", 0), [second])
    >>> [keyed.ts for _, keyed in merge.take(10, caught_up=())]
    [10, 20]
    >>> [keyed.ts for _, keyed in merge.take(10, caught_up=[Input("b", 0)])]
    [40]
    """

    queues: dict[Input, deque[KeyedRecord]] = field(default_factory=dict)

    def add(self, origin: Input, records: Sequence[KeyedRecord]) -> None:
        self.queues.setdefault(origin, deque()).extend(records)

    def take(self, count_max: int, caught_up: Collection[Input]) -> Iterator[tuple[Input, KeyedRecord]]:
        """Remove and give the next records. An empty input holds back the others, unless it is `caught_up`."""
        for _ in range(count_max):
            waiting = [(queue[0].ts, origin) for origin, queue in self.queues.items() if queue]
            if not waiting or any(not queue and origin not in caught_up for origin, queue in self.queues.items()):
                return
            _, origin = min(waiting)
            yield origin, self.queues[origin].popleft()

    def full(self) -> list[Input]:
        return [origin for origin, queue in self.queues.items() if len(queue) >= QUEUED_RECORDS_MAX]


class Repartitioner:
    """Copies records until it is closed. For one thread. Raises SourceError when Kafka fails.

    `records` counts the copied records. `unreadable` counts those with a refused event and without a user: they keep their key, and the
    worker that reads the output dead-letters them. Records that a reader ignores are copied like these and are not counted.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        plan: RepartitionPlan,
        decoder_of: Callable[[str], Decoder],
    ) -> None:
        self._plan, self._decoders = plan, {topic: decoder_of(topic) for topic in plan.outputs}
        overrides = {"group_id": plan.group_id, "group_instance_id": None, "isolation_level": "read_committed"}
        self._settings = settings.model_copy(update=overrides)
        self.records = self.unreadable = 0
        self._merge = StepMerge()
        self._paused: set[Input] = set()
        self._assigned: set[TopicPartition] | None = None
        self._consumer: Any = None
        self._producer = new_producer(
            self._settings,
            "the Kafka producer",
            transactional_id=plan.transactional_id,
            transaction_timeout_ms=TRANSACTION_MS_MAX,
            linger_ms=5,
            batch_size=1 << 17,
            max_block_ms=WRITE_MS_MAX,
            delivery_timeout_ms=WRITE_MS_MAX,
            max_request_size=64 << 20,  # the topic's own limit decides, not the client's
        )
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            with self._explained():
                self._producer.init_transactions()  # ends what a former process of this name left open, before offsets are read
            self._consumer, network = new_consumer(self._settings)
            self._consumer.subscribe(list(plan.outputs), listener=_Listener(self))
            await_metadata(network.cluster)
            undo.pop_all()

    def turn(self, timeout_ms: int = 500) -> int:
        """Read some records and copy what can be copied now; returns how many records were copied.

        1. Poll. After a rebalance, drop what was read and seek to the committed offsets.
        2. Merge the inputs by event time.
        3. In one transaction: write the records, and commit the offsets behind them.
        """
        with self._explained():
            parked_records.release(self._consumer)
            polled = self._consumer.poll(timeout_ms)
            if self._assigned is not None:
                self._start_over()
                return 0
            for place, records in polled.items():
                self._merge.add(Input(*place), [self._keyed(Input(*place), record) for record in records])
            self._pace()
            taken = list(self._merge.take(TRANSACTION_RECORDS_MAX, self._caught_up()))
            return self._copy(taken) if taken else 0

    def lag(self) -> int:
        """How many records wait to be copied, as far as this process owns their inputs."""
        with self._explained():
            ends = ends_of(self._consumer, [*self._merge.queues])
            unread = sum(max(0, end - (position_of(self._consumer, place) or 0)) for place, end in ends.items())
            return unread + sum(map(len, self._merge.queues.values()))

    @property
    def owns_inputs(self) -> bool:
        """Whether inputs were assigned and their reading has begun. The client's thread may assign inputs before it says so."""
        return self._assigned is None and bool(self._merge.queues)

    def close(self) -> None:
        """Leave the group. What was read but not copied is read again by the next process."""
        if self._consumer is not None:
            close_consumer(self._consumer)
        stuck_producer.close(self._producer)

    def note_assignment(self, assigned: Collection[TopicPartition]) -> None:
        """Called on the client's thread, where only seeking, pausing and setting a flag are safe."""
        for place in assigned:
            self._consumer.seek(place, 0)
            self._consumer.pause(place)
        self._assigned = set(assigned)

    def _start_over(self) -> None:
        places, self._assigned = self._assigned or set(), None
        self._merge, self._paused = StepMerge(), set()
        inputs = [Input(*place) for place in places]
        beginnings = {place: bounds[0] for place, bounds in bounds_of(self._consumer, inputs).items()}
        for place in places:
            committed = self._consumer.committed(place, timeout_ms=REQUEST_MS)
            self._consumer.seek(place, beginnings[Input(*place)] if committed is None else max(committed, beginnings[Input(*place)]))
            if committed is not None and committed < beginnings[Input(*place)]:
                lost = beginnings[Input(*place)] - committed
                log.error("records were deleted before they were copied", topic=place.topic, partition=place.partition, records=lost)
            self._merge.add(Input(*place), [])
        self._consumer.resume(*places)
        log.info("inputs assigned", inputs=len(places))

    def _pace(self) -> None:
        full = set(self._merge.full())
        self._consumer.pause(*(TopicPartition(*place) for place in full - self._paused))
        self._consumer.resume(*(TopicPartition(*place) for place in self._paused - full))
        self._paused = full

    def _caught_up(self) -> list[Input]:
        """The inputs without a record in memory that are read to their end."""
        empty = [origin for origin, queue in self._merge.queues.items() if not queue]
        if not empty:
            return []
        ends = ends_of(self._consumer, empty)
        return [place for place in empty if (position := position_of(self._consumer, place)) is not None and position >= ends[place]]

    def _copy(self, taken: Sequence[tuple[Input, KeyedRecord]]) -> int:
        offsets = {TopicPartition(*origin): OffsetAndMetadata(keyed.record.offset + 1, "", -1) for origin, keyed in taken}
        self._producer.begin_transaction()
        try:
            futures = [self._send(origin, keyed) for origin, keyed in taken]
            self._producer.flush(timeout=WRITE_MS_MAX / 1_000)
            for future in futures:
                future.get(timeout=0)
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())
            self._producer.commit_transaction()
        except LOST_MEMBERSHIP as error:
            self._producer.abort_transaction()
            log.info("the group changed during a transaction; its records are read again", error=type(error).__name__)
            self._assigned = set(self._consumer.assignment())
            return 0
        self.records += len(taken)
        self.unreadable += sum(keyed.is_refused for _, keyed in taken)
        return len(taken)

    def _send(self, origin: Input, keyed: KeyedRecord) -> Any:
        record, user_id = keyed.record, keyed.user_id
        return self._producer.send(
            self._plan.outputs[origin.topic],
            value=record.value,
            key=record.key if user_id is None else user_id.encode(),
            headers=list(record.headers or ()),
            partition=None if user_id is None else partition_of(user_id, self._plan.partitions),
            timestamp_ms=record.timestamp if record.timestamp >= 0 else None,
        )

    def _keyed(self, origin: Input, record: Any) -> KeyedRecord:
        decoded = self._decoders[origin.topic](as_record(record, whole=True).value)
        events = [event for event in decoded if not isinstance(event, MalformedEvent)]
        is_refused = not events and any(isinstance(event, MalformedEvent) and event.reason != IGNORED for event in decoded)
        users = {event.user_id for event in events}
        if len(users) > 1:
            raise SourceError(
                f"{origin.topic}:{origin.partition}:{record.offset} holds events of {len(users)} users, but a record has one key",
                "let the producer write the events of each user in records of their own",
            )
        ts = min((event.ts for event in events), default=record.timestamp)
        return KeyedRecord(ts, next(iter(users), None), record, is_refused)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ProducerFencedError as error:
            raise SourceError(
                f"another process copies as {self._plan.transactional_id!r}", "give each process a different --instance"
            ) from error
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"repartitioning failed: {describe_error(error)}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # the client has no types
    """Runs on the client's thread: pauses new inputs and sets a flag."""

    def __init__(self, repartitioner: Repartitioner) -> None:
        self._repartitioner = repartitioner

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """The next assignment says what is left."""

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self._repartitioner.note_assignment(assigned)
