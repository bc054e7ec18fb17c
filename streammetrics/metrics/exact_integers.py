"""Exact sums that may exceed int64. No metrics and no lists here."""

from __future__ import annotations

from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints, Numbers

_LIMB_BITS: Final = 20
"""Bits per limb, so that a double holds the exact sum of 2**13 products of two limbs."""

_ROW_MAX: Final = 1 << 13
_RUN_LEAST: Final = 1 << 10
"""Doubles are summed in runs with exact sums. If runs would be shorter than this, summing as integers is cheaper."""

_FLOAT_MAX: Final = 1 << 53
_INT_MAX: Final = 1 << 62


def sum_of_row(row: Numbers) -> int:
    """The exact sum of integers >= 0, given as an integer or float array, of any size.

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
    """The exact sum of int64 numbers of either sign. The upper and lower halves are summed apart, so nothing overflows.

    >>> exact_sum(np.full(4, -1 << 62)) == -1 << 64
    True
    """
    return (int((values >> 32).sum()) << 32) + int((values & 0xFFFFFFFF).sum())


def sum_of_products(one: Ints, other: Ints) -> int:
    """The exact sum of the elementwise products of numbers >= 0.

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
    """Digits to the base 2**20 as float64, lowest first."""
    limbs = []
    bits = int(row.max(initial=0)).bit_length()
    for shift in range(0, max(bits, 1), _LIMB_BITS):
        limbs.append(((row >> shift) & ((1 << _LIMB_BITS) - 1)).astype(np.float64))
    return limbs
