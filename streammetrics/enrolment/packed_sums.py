"""The stored form of users' sums: rows of integers, most of them 0, as bytes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streammetrics.metrics.arrays import Ints


def pack_sums(sums: Ints) -> list[bytes]:
    """Encode rows of integers: one bit for each number that is not 0, then these numbers as little-endian int64.

    >>> [len(row) for row in pack_sums(np.array([[0, 0, 7], [1, 2, 3]]))]
    [9, 25]
    """
    used = sums != 0
    bits = np.packbits(used, axis=1)
    ends = (np.cumsum(used.sum(axis=1)) * 8).tolist()
    numbers, flags, width = sums[used].astype("<i8").tobytes(), bits.tobytes(), bits.shape[1]
    return [
        flags[row * width : (row + 1) * width] + numbers[start:end] for row, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
    ]


def unpack_sums(packed: Sequence[bytes], columns: int) -> Ints:
    """Decode rows of integers: shape (rows, columns).

    >>> unpack_sums(pack_sums(np.array([[0, 0, 7], [1, -2, 3]])), 3).tolist()
    [[0, 0, 7], [1, -2, 3]]
    """
    width = (columns + 7) // 8
    flags = np.frombuffer(b"".join([row[:width] for row in packed]), dtype=np.uint8).reshape(len(packed), width)
    used = np.unpackbits(flags, axis=1)[:, :columns].astype(bool)
    sums = np.zeros((len(packed), columns), dtype=np.int64)
    sums[used] = np.frombuffer(b"".join([row[width:] for row in packed]), dtype="<i8")
    return sums
