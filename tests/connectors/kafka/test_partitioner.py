"""Where a record lies, by hashes that Kafka itself is tested with."""

from __future__ import annotations

import pytest

from streammetrics.connectors.kafka.partitioner import partition_of


@pytest.mark.parametrize(
    ("key", "murmur2"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_a_key_lies_where_kafka_s_own_partitioner_puts_it(key: str, murmur2: int) -> None:
    """The hashes are those of Kafka's `UtilsTest`; its partitioner takes them without their sign bit."""
    assert [partition_of(key, partitions) for partitions in (1, 6, 12, 1_000)] == [
        (murmur2 & 0x7FFFFFFF) % partitions for partitions in (1, 6, 12, 1_000)
    ]
