"""How long a broker holds a fetch, by the settings."""

from __future__ import annotations

import pytest

from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.consumer import FETCH_BYTES_MIN, fetch_waits

BROKERS = ("127.0.0.1:9092",)


def test_a_broker_collects_records_for_the_linger_time() -> None:
    waits = fetch_waits(KafkaConnection(bootstrap_servers=BROKERS, linger_ms=250))
    assert waits == {"fetch_max_wait_ms": 250, "fetch_min_bytes": FETCH_BYTES_MIN}


def test_without_linger_the_first_record_ends_the_wait() -> None:
    waits = fetch_waits(KafkaConnection(bootstrap_servers=BROKERS, linger_ms=0))
    assert waits == {"fetch_max_wait_ms": 100, "fetch_min_bytes": 1}


@pytest.mark.parametrize("partition_bytes", [65_536, 1 << 20, 1 << 30])
def test_one_full_partition_always_ends_the_wait(partition_bytes: int) -> None:
    """Otherwise a worker whose only backlog is on one partition would linger after every fetch."""
    waits = fetch_waits(KafkaConnection(bootstrap_servers=BROKERS, partition_fetch_bytes_max=partition_bytes))
    assert 0 < waits["fetch_min_bytes"] <= partition_bytes
