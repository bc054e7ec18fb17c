"""Maps a record's key to its partition, as Kafka's default partitioner does: murmur2 of the key, modulo the partitions.

kafka-python computes murmur2 byte by byte, which takes longer than the rest of what a new user needs. Here it takes words of four
bytes, and many keys at once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_WORD: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF
BATCH_MIN: Final = 24
"""Fewer keys are hashed one by one, because each call of numpy costs about a microsecond."""
BATCH_KEY_BYTES_MAX: Final = 64
"""Longer keys are hashed one by one, because a batch takes as much memory for each key as for the longest."""


def partition_of(user_id: str, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses if the key is this user id.

    >>> partition_of("foobar", 12)
    6
    """
    return partition_of_key(user_id.encode(), partitions)


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition that Kafka's default partitioner chooses for this key."""
    return (_murmur2(key) & _POSITIVE) % partitions


def partitions_of(user_ids: Sequence[str], partitions: int) -> list[int]:
    """Return the partition of each key.

    >>> partitions_of(["foobar", "abc"], 12)
    [6, 3]
    """
    keys = [user_id.encode() for user_id in user_ids]
    if len(keys) < BATCH_MIN or max(map(len, keys)) > BATCH_KEY_BYTES_MAX:
        return [(_murmur2(key) & _POSITIVE) % partitions for key in keys]
    numbers: list[int] = ((_murmur2_of_all(keys) & np.uint32(_POSITIVE)) % np.uint32(partitions)).tolist()
    return numbers


def misplaced_keys(user_ids: Sequence[str], partition: int, partitions: int) -> frozenset[str]:
    """Return those of the keys that belong to another partition.

    >>> misplaced_keys(["foobar", "abc"], 6, 12)
    frozenset({'abc'})
    """
    partitions_by_hash = partitions_of(user_ids, partitions)
    return frozenset(user_id for user_id, number in zip(user_ids, partitions_by_hash, strict=True) if number != partition)


def _murmur2(key: bytes) -> int:
    length = len(key)
    hashed = _SEED ^ length
    whole = length // 4
    for word in struct.unpack_from(f"<{whole}I", key):
        mixed = word * _MULTIPLIER & _WORD
        hashed = (hashed * _MULTIPLIER & _WORD) ^ ((mixed ^ mixed >> 24) * _MULTIPLIER & _WORD)
    if length % 4:
        hashed = (hashed ^ int.from_bytes(key[whole * 4 :], "little")) * _MULTIPLIER & _WORD
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _WORD
    return hashed ^ hashed >> 15


def _murmur2_of_all(keys: Sequence[bytes]) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Return the hash of each key. Every key is padded with zeros to the same number of words; `whole` says how many are its own."""
    multiplier = np.uint32(_MULTIPLIER)
    lengths = np.fromiter(map(len, keys), np.uint32, len(keys))
    width = int(lengths.max()) // 4 + 1
    words = np.frombuffer(b"".join([key.ljust(width * 4, b"\0") for key in keys]), "<u4").reshape(len(keys), width).T
    whole = lengths // np.uint32(4)
    hashed = np.uint32(_SEED) ^ lengths
    for number in range(width):
        mixed = words[number] * multiplier
        mixed = (mixed ^ mixed >> np.uint32(24)) * multiplier
        hashed = np.where(number < whole, hashed * multiplier ^ mixed, hashed)
    rest = words[whole, np.arange(len(keys))]
    hashed = np.where(lengths % np.uint32(4) > 0, (hashed ^ rest) * multiplier, hashed)
    hashed = (hashed ^ hashed >> np.uint32(13)) * multiplier
    return hashed ^ hashed >> np.uint32(15)
