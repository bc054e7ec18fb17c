"""Maps a record's key to its partition, as Kafka's default partitioner does."""

from __future__ import annotations

from kafka.partitioner.default import murmur2


def partition_of(user_id: str, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for this key.

    >>> partition_of("foobar", 12)
    6
    """
    return int(murmur2(user_id.encode()) & 0x7FFFFFFF) % partitions
