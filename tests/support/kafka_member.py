"""A Kafka source with the loop around it, and helpers that write to topics, for tests against a real broker."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.source import POLL_RECORDS_MAX, KafkaSource
from streammetrics.connectors.source import Input, InputRecord
from tests.tools.servers.kafka import KafkaBroker

WAIT_SECONDS = 60.0
"""The longest a test waits for an event. It matters only for failing tests."""
SESSION_MS = 5_000
ALL_TASKS = {0, 1, 2, 3}


class Clock:
    """The real monotonic time, plus the seconds that a test adds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead

    def advance(self, seconds: float) -> bool:
        """Add seconds. Returns True, so that a condition can advance the clock before it is evaluated."""
        self.ahead += seconds
        return True


class Member:
    """A source and its loop, which claims each assigned task and seeks to the offsets in `stored`, a store shared by members."""

    def __init__(
        self,
        settings: KafkaSettings,
        stored: dict[Input, int] | None = None,
        clock: Callable[[], float] = time.monotonic,
        poll_records_max: int = POLL_RECORDS_MAX,
    ) -> None:
        self.stored: dict[Input, int] = {} if stored is None else stored
        self.tasks: set[int] = set()
        self.got: dict[Input, list[InputRecord]] = defaultdict(list)
        self.source = KafkaSource(settings, clock, poll_records_max=poll_records_max)

    def turn(self, timeout_s: float = 0.05, collect_s: float = 0.0) -> None:
        polled = self.source.poll(timeout_s, collect_s)
        self.tasks -= polled.revoked
        for task in polled.assigned:
            self.source.start(task, {place: self.stored[place] for place in self.source.inputs_of(task) if place in self.stored})
            self.tasks.add(task)
        for place, records in polled.records.items():
            assert place.partition in self.tasks
            self.got[place] += records
            self.stored[place] = records[-1].offset + 1
        self.source.acknowledge({place: offset for place, offset in self.stored.items() if place.partition in self.tasks})

    def values(self, place: Input) -> list[bytes | None]:
        return [record.value for record in self.got[place]]


def turn_until(condition: Callable[[], bool], *members: Member) -> None:
    """Turn the members in turn until the condition holds."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not hold within {WAIT_SECONDS} s; {[m.source.health for m in members]}"
        for member in members:
            member.turn()


def turn_forever(*members: Member) -> None:
    """Turn the members until one raises."""
    turn_until(lambda: False, *members)


@contextmanager
def running(
    settings: KafkaSettings,
    stored: dict[Input, int] | None = None,
    clock: Callable[[], float] = time.monotonic,
    poll_records_max: int = POLL_RECORDS_MAX,
) -> Iterator[Member]:
    member = Member(settings, stored, clock, poll_records_max)
    try:
        yield member
    finally:
        member.source.close()


def settings_for(broker: KafkaBroker, *topics: str, **options: Any) -> KafkaSettings:
    usual = {"bootstrap_servers": (broker.bootstrap,), "group_id": f"group-{topics[0]}", "session_timeout_ms": SESSION_MS}
    return KafkaSettings(topics=topics, **{**usual, **options})


def send(broker: KafkaBroker, place: Input, values: Sequence[bytes | None], **options: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **options)
    try:
        futures = [producer.send(place.topic, value, key=b"user", partition=place.partition, headers=[("trace", b"1")]) for value in values]
        producer.flush(timeout=20)
        assert all(future.succeeded() for future in futures)
    finally:
        producer.close()


def send_dated(broker: KafkaBroker, records: Sequence[tuple[Input, bytes, int]]) -> None:
    """Send records (input, value, timestamp in ms)."""
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for place, value, timestamp_ms in records:
            producer.send(place.topic, value, partition=place.partition, timestamp_ms=timestamp_ms).get(timeout=20)


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(first, first + count)]


def delete_before(broker: KafkaBroker, place: Input, offset: int) -> None:
    """Delete the records before an offset, as retention does."""
    with broker.admin() as admin:
        admin.delete_records({TopicPartition(*place): offset}, timeout_ms=10_000)


def committed(broker: KafkaBroker, group_id: str, place: Input) -> int | None:
    """Return the offset that a group has committed to Kafka."""
    with broker.admin() as admin:
        offsets = admin.list_group_offsets([group_id])[group_id]
    answer = offsets.get(TopicPartition(*place))
    return None if answer is None else int(answer.offset)


def stock_records(broker: KafkaBroker, place: Input, count: int) -> list[InputRecord]:
    """Read records with kafka-python as it is."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id=None)
    try:
        consumer.assign([TopicPartition(*place)])
        records: list[InputRecord] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(records) < count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                records += [InputRecord(record.offset, record.timestamp, record.value) for record in batch]
        return records
    finally:
        consumer.close()


def read_letters(broker: KafkaBroker, topic: str, count: int) -> list[Any]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        return list(islice(consumer, count))
    finally:
        consumer.close()
