"""Tests of returning the records of an input that was paused within a chunk. The integration tests do it with a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from streammetrics.connectors.kafka.patches import parked_records

PAUSED, OTHER = TopicPartition("events", 0), TopicPartition("events", 1)
RECORDS = 4


def chunk_of(partition: TopicPartition) -> Any:
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, offset=0)
    for number in range(RECORDS):
        builder.append(timestamp=0, key=None, value=b"%d" % number, headers=[])
    builder.close()
    return Fetcher.PartitionRecords(0, partition, MemoryRecords(bytes(builder.records()._buffer)))


def fetcher_with_parked_records() -> Any:
    """Build a fetcher. One input was paused within a chunk and resumed, and the current chunk of the other is read to its end."""
    subscriptions = SubscriptionState("none")
    subscriptions.assign_from_user([PAUSED, OTHER])
    fetcher = Fetcher(SimpleNamespace(_manager=SimpleNamespace(_net=None)), subscriptions, metrics=None)
    for partition in (PAUSED, OTHER):
        subscriptions.seek(partition, 0)
    fetcher._next_partition_records = chunk_of(PAUSED)
    assert read(fetcher) == {PAUSED: 2}
    subscriptions.pause(PAUSED)
    assert read(fetcher) == {}
    fetcher._next_partition_records = chunk_of(OTHER)
    assert read(fetcher) == read(fetcher) == {OTHER: 2}
    assert read(fetcher) == {}
    subscriptions.resume(PAUSED)
    return fetcher


def read(fetcher: Any) -> dict[TopicPartition, int]:
    records, _ = fetcher.fetched_records(max_records=2)
    return {partition: len(batch) for partition, batch in records.items()}


class TestStillNeeded:
    def test_the_unpatched_client_never_returns_the_parked_records(self) -> None:
        fetcher = fetcher_with_parked_records()
        assert [read(fetcher) for _ in range(10)] == [{}] * 10


def test_parked_records_come_back_after_resume() -> None:
    fetcher = fetcher_with_parked_records()
    parked_records.release(SimpleNamespace(_fetcher=fetcher))
    assert read(fetcher) == {PAUSED: 2}


def test_an_unfinished_chunk_is_kept() -> None:
    fetcher = fetcher_with_parked_records()
    fetcher._next_partition_records = unfinished = chunk_of(OTHER)
    parked_records.release(SimpleNamespace(_fetcher=fetcher))
    assert fetcher._next_partition_records is unfinished


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    consumer = SimpleNamespace(_fetcher=SimpleNamespace())
    parked_records.release(consumer)
    parked_records.release(object())
    assert consumer == SimpleNamespace(_fetcher=SimpleNamespace())
