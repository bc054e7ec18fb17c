"""How long a broker holds a fetch, by the settings, and the ends of topics that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.errors import UnknownTopicOrPartitionError
from kafka.structs import OffsetAndTimestamp, TopicPartition

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.consumer import FETCH_BYTES_MIN, ends_of, fetch_waits
from streammetrics.connectors.source import Input

BROKERS = ("127.0.0.1:9092",)


def test_a_broker_collects_records_for_the_linger_time() -> None:
    waits = fetch_waits(KafkaSettings(bootstrap_servers=BROKERS, linger_ms=250))
    assert waits == {"fetch_max_wait_ms": 250, "fetch_min_bytes": FETCH_BYTES_MIN}


def test_without_linger_the_first_record_ends_the_wait() -> None:
    waits = fetch_waits(KafkaSettings(bootstrap_servers=BROKERS, linger_ms=0))
    assert waits == {"fetch_max_wait_ms": 100, "fetch_min_bytes": 1}


@pytest.mark.parametrize("partition_bytes", [65_536, 1 << 20, 1 << 30])
def test_one_full_partition_always_ends_the_wait(partition_bytes: int) -> None:
    """Otherwise a worker whose only backlog is on one partition would linger after every fetch."""
    waits = fetch_waits(KafkaSettings(bootstrap_servers=BROKERS, partition_fetch_bytes_max=partition_bytes))
    assert 0 < waits["fetch_min_bytes"] <= partition_bytes


def test_a_topic_without_an_answer_is_an_error_of_the_client() -> None:
    """As in the moment after it was deleted."""
    answers = {TopicPartition("shown", 0): OffsetAndTimestamp(7, None, None)}

    def end_offsets(places: list[TopicPartition], timeout_ms: int) -> Any:
        fetcher = SimpleNamespace(_net=SimpleNamespace(run=lambda *_: dict(answers)), _fetch_offsets_by_times_async=None)
        return Fetcher.beginning_or_end_offset(fetcher, places, -1, timeout_ms)

    consumer = SimpleNamespace(end_offsets=end_offsets)
    assert ends_of(consumer, [Input("shown", 0)]) == {Input("shown", 0): 7}
    with pytest.raises(UnknownTopicOrPartitionError, match="topic='gone', partition=0"):
        ends_of(consumer, [Input("shown", 0), Input("gone", 0)])
