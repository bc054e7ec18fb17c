"""Reads some recent records of topics for `doctor` and `decode`. Joins no consumer group and commits nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka.errors import KafkaError
from kafka.structs import TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import describe_error
from streammetrics.connectors.kafka.consumer import bounds_of, close_consumer, new_consumer, position_of
from streammetrics.connectors.kafka.patches.fast_fetch import as_record
from streammetrics.connectors.source import Input
from streammetrics.errors import SourceError

RECORDS_PER_TOPIC = 100
PARTITIONS_PER_TOPIC_MAX = 20
"""Of a topic with more partitions, every second, third … one is read."""
BYTES_MAX = 32 << 20
READ_SECONDS_MAX = 3.0
POLL_MS = 200


class RecentRecord(NamedTuple):
    """One record. Its value has key, headers and timestamp too (see `SentValue`). `ts` is its own timestamp (epoch ms, -1 if unknown)."""

    partition: int
    offset: int
    ts: int
    key: bytes | None
    value: bytes | None


def chosen_partitions(partitions: int) -> list[int]:
    """Return the partitions of a topic to read, spread evenly.

    >>> chosen_partitions(3), chosen_partitions(50)[:4], len(chosen_partitions(50))
    ([0, 1, 2], [0, 2, 5, 7], 20)
    """
    count = min(partitions, PARTITIONS_PER_TOPIC_MAX)
    return [index * partitions // count for index in range(count)]


def recent_records(settings: KafkaSettings, partitions: Mapping[str, int], limit: int = RECORDS_PER_TOPIC) -> dict[str, list[RecentRecord]]:
    """Return about `limit` recent records of each topic, by partition and offset. `partitions` are the counts by topic.

    Each partition that is read gives the same number, rounded up, or all that it has. It stops at BYTES_MAX and READ_SECONDS_MAX.
    Then it returns what it has. Raises SourceError when the broker does not answer.
    """
    overrides = {"group_instance_id": None, "topics": tuple(partitions), "partition_fetch_bytes_max": 1 << 20}
    settings = settings.model_copy(update=overrides)
    consumer, _ = new_consumer(settings, in_group=False)
    try:
        ends = _seek(consumer, partitions, limit)
        records_by_input = _read(consumer, ends)
    except KafkaError as error:
        raise SourceError(
            f"recent records cannot be read: {describe_error(error)}", "check the rights of this user, and the brokers"
        ) from error
    finally:
        close_consumer(consumer)
    records: dict[str, list[RecentRecord]] = {topic: [] for topic in partitions}
    for place, read in sorted(records_by_input.items()):
        records[place.topic] += read
    return records


def _seek(consumer: Any, partitions: Mapping[str, int], limit: int) -> dict[Input, int]:
    """Assign the chosen partitions that have records, and seek before their last ones. Returns their end offsets."""
    inputs = [Input(topic, partition) for topic, count in partitions.items() for partition in chosen_partitions(count)]
    bounds = {place: bound for place, bound in bounds_of(consumer, inputs).items() if bound[0] < bound[1]}
    consumer.assign([TopicPartition(*place) for place in bounds])
    for place, (beginning, end) in bounds.items():
        per_partition = -(-limit // min(partitions[place.topic], PARTITIONS_PER_TOPIC_MAX))
        consumer.seek(TopicPartition(*place), max(beginning, end - per_partition))
    return {place: end for place, (_, end) in bounds.items()}


def _read(consumer: Any, ends: Mapping[Input, int]) -> dict[Input, list[RecentRecord]]:
    records_by_input: dict[Input, list[RecentRecord]] = {place: [] for place in ends}
    bytes_read, deadline = 0, time.monotonic() + READ_SECONDS_MAX
    waiting = set(ends)
    while waiting and bytes_read < BYTES_MAX and time.monotonic() < deadline:
        for partition, records in consumer.poll(timeout_ms=POLL_MS).items():
            place = Input(*partition)
            records_by_input[place] += [
                RecentRecord(place.partition, record.offset, record.timestamp, record.key, as_record(record, whole=True).value)
                for record in records
                if record.offset < ends[place]
            ]
            bytes_read += sum(len(record.value or b"") for record in records)
        waiting = {place for place in waiting if (position_of(consumer, place) or 0) < ends[place]}
    return records_by_input
