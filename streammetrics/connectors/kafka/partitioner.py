"""Where Kafka puts a record by its key."""

from __future__ import annotations

from kafka.partitioner.default import murmur2


def partition_of(user_id: str, partitions: int) -> int:
    """The partition to which Kafka's default partitioner sends a record with this key.

    >>> partition_of("foobar", 12)
    6
    """
    return int(murmur2(user_id.encode()) & 0x7FFFFFFF) % partitions
