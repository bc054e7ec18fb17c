"""Sums of whole numbers that may leave int64, and whole numbers as bytes. No metric, no list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints, Numbers

_LIMB_BITS: Final = 20
"""Products of two limbs, 2**13 of them added up, stay whole numbers that a double holds."""

_ROW_MAX: Final = 1 << 13
_RUN_LEAST: Final = 1 << 10
"""Doubles are added up in runs whose sums are exact, if that many go into a run: else they are cheaper as integers."""

_FLOAT_MAX: Final = 1 << 53
_INT_MAX: Final = 1 << 62


def sum_of_row(row: Numbers) -> int:
    """The exact sum of whole numbers >= 0, integers or doubles, however large.

    >>> sum_of_row(np.full(4, 1 << 62)) == 1 << 64
    True
    """
    most = int(row.max(initial=0))
    if row.dtype.kind == "f":
        run = _FLOAT_MAX // max(most, 1)
        if run >= _RUN_LEAST:
            return sum(int(row[first : first + run].sum()) for first in range(0, row.size, run))
        row = row.astype(np.int64)
    if most * row.size <= _INT_MAX:
        return int(row.sum(dtype=np.int64))
    return exact_sum(row)


def exact_sum(values: Ints) -> int:
    """The sum of whole numbers of either sign as one without bound: int64 halves are summed, so that no count of them overflows.

    >>> exact_sum(np.full(4, -1 << 62)) == -1 << 64
    True
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def sum_of_products(one: Ints, other: Ints) -> int:
    """The exact sum of the products of numbers >= 0, place by place.

    >>> sum_of_products(np.array([3, 1 << 40]), np.array([5, 1 << 40])) == 15 + (1 << 80)
    True
    """
    total = 0
    for first in range(0, one.size, _ROW_MAX):
        left = _limbs(one[first : first + _ROW_MAX])
        right = left if other is one else _limbs(other[first : first + _ROW_MAX])
        for at, mine in enumerate(left):
            for to, its in enumerate(right):
                total += int(mine @ its) << (_LIMB_BITS * (at + to))
    return total


def _limbs(row: Ints) -> list[Floats]:
    """Digits to the base 2**20, the lowest first, as doubles."""
    limbs = []
    bits = int(row.max(initial=0)).bit_length()
    for shift in range(0, max(bits, 1), _LIMB_BITS):
        limbs.append(((row >> shift) & ((1 << _LIMB_BITS) - 1)).astype(np.float64))
    return limbs


def write_numbers(numbers: Iterable[int]) -> bytes:
    """Whole numbers of any size, one after the other: seven bits a byte, the lowest first, signs folded into the lowest bit.

    >>> write_numbers([0, -1, 64]).hex(), read_numbers(write_numbers([0, -1, 1 << 99]), 0, 3)
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


def read_numbers(data: bytes, start: int, count: int) -> tuple[list[int], int]:
    """So many numbers from a place on, and the place behind them. Raises IndexError where the bytes end too early."""
    numbers = []
    for _ in range(count):
        folded = shift = 0
        while True:
            byte = data[start]
            start += 1
            folded |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        numbers.append(folded >> 1 if folded & 1 == 0 else ~(folded >> 1))
    return numbers, start
