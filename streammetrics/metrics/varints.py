"""Variable-length integers (zigzag varints): seven bits per byte, lowest first, the sign in the lowest bit. Every reader is in this module.

Stored tallies hold integers of any size. Kafka's record batches hold integers of at most ten bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

BYTES_MAX: Final = 10
"""Bytes of a 64-bit integer."""


def write_varints(numbers: Iterable[int]) -> bytes:
    """Encode integers of any size.

    >>> write_varints([0, -1, 64]).hex(), read_varints(write_varints([0, -1, 1 << 99]), 0, 3)
    ('00018001', ([0, -1, 633825300114114700748351602688], 17))
    """
    out = bytearray()
    for number in numbers:
        rest = number << 1 if number >= 0 else ~(number << 1)
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def read_varints(data: bytes, start: int, count: int) -> tuple[list[int], int]:
    """Decode `count` integers of any size from index `start`. Returns them and the index after them.

    Raises IndexError for truncated bytes.
    """
    numbers = []
    for _ in range(count):
        number, start = read_varint(data, start, len(data) + 1)
        numbers.append(number)
    return numbers, start


def read_varint(data: bytes, start: int, bytes_max: int = BYTES_MAX) -> tuple[int, int]:
    """Decode the integer at index `start`. Returns it and the index after it.

    Raises IndexError for truncated bytes, ValueError for more than `bytes_max` bytes.

    >>> read_varint(bytes([0x03]), 0), read_varint(bytes([0xAC, 0x02]), 0)
    ((-2, 1), (150, 2))
    """
    shift = raw = 0
    for position in range(start, start + bytes_max):
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        shift += 7
    raise ValueError(f"a variable-length number has more than {bytes_max} bytes")


def read_varints_at(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode the 64-bit integers at many indices. Returns them and the indices after them.

    Raises IndexError for truncated bytes, ValueError for more than ten bytes.

    >>> read_varints_at(np.frombuffer(bytes([0x03, 0xAC, 0x02]), np.uint8), np.array([0, 1]))
    (array([ -2, 150]), array([1, 3]))
    """
    byte = data[at].astype(np.uint64)
    raw, goes_on, at, shift = byte & 0x7F, byte > 0x7F, at + 1, 7
    while goes_on.any():
        if shift > 63:
            raise ValueError(f"a variable-length number has more than {BYTES_MAX} bytes")
        byte = np.where(goes_on, data[np.where(goes_on, at, 0)], 0).astype(np.uint64)
        raw |= (byte & 0x7F) << np.uint64(shift)
        at = at + goes_on
        goes_on, shift = byte > 0x7F, shift + 7
    return (raw >> 1).astype(np.int64) ^ -(raw & 1).astype(np.int64), at
