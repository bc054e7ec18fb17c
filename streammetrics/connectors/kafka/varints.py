"""Variable-length integers of Kafka's record batches (zigzag varints): seven bits per byte, lowest first, the sign in the lowest bit."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

BYTES_MAX: Final = 10
"""Bytes of a 64-bit integer."""


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode the integer at index `start`. Returns it and the index after it.

    Raises IndexError for truncated bytes, ValueError for more than ten bytes.

    >>> read_varint(bytes([0x03]), 0), read_varint(bytes([0xAC, 0x02]), 0)
    ((-2, 1), (150, 2))
    """
    shift = raw = 0
    for position in range(start, start + BYTES_MAX):
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        shift += 7
    raise ValueError(f"a variable-length number has more than {BYTES_MAX} bytes")


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
