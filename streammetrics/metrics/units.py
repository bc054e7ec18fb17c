"""The fixed-point arithmetic: grades, gains, discounts and values as integers. No metrics and no lists here.

All operations are exact in IEEE 754 or in Python ints, so every machine computes the same integers.

    grade, gain   units of 2**-40   a grade is rounded once, on input
    discount      units of 2**-44   rounded once
    DCG, ideal    units of 2**-44   the exact sum of gain x discount (units of 2**-84), rounded down once
    AP, ERR       units of 2**-42   each term rounded once, then summed
    RBP           units of 2**-52   weights rounded down, so that their sum never exceeds 1
    values        units of 2**-40 (those in [0, 1]) or 2**-32 (dcg, cg), rounded half to even
"""

from __future__ import annotations

import decimal
import math
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeVar

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.records import VALUE_BITS
from streammetrics.metrics.spec import Discount, Gain

IntOrInts = TypeVar("IntOrInts", int, Ints)

GRADE_BITS: Final = 40
DISCOUNT_BITS: Final = 44
AP_BITS: Final = 42
RBP_BITS: Final = 52

GRADE_ONE: Final = float(1 << GRADE_BITS)
AP_ONE: Final = float(1 << AP_BITS)
VALUE_ONE: Final = float(1 << VALUE_BITS)

TOTAL_MAX: Final = 1 << 62
"""Maximum sum over a list: half of the int64 range, which leaves room for rounding."""

ITEMS_MAX: Final = 1 << 22
"""Maximum list length, so that the low parts of its products (2**40 each) sum to at most TOTAL_MAX."""

_HALF_BITS: Final = GRADE_BITS // 2
_LN2: Final = 0.6931471805599453
_TERMS: Final = 20


def grade_units(grades: Floats) -> Ints:
    """Grades in units of 2**-40, rounded half to even."""
    units: Ints = np.rint(grades * GRADE_ONE).astype(np.int64)
    return units


def gain_units(gain: Gain, units: Ints, threshold_units: int = 1 << GRADE_BITS) -> Ints:
    """The gains of grades, both in units of 2**-40.

    `linear` g, `exp2` 2**g - 1 (Burges et al. 2005), `binary` 1 from the threshold on, or the table's entry of a whole grade.
    """
    if isinstance(gain, tuple):
        table = grade_units(np.array(gain))
        return table.take(units >> GRADE_BITS)
    if gain == "linear":
        return units
    if gain == "binary":
        return (units >= threshold_units).astype(np.int64) << GRADE_BITS
    whole = units >> GRADE_BITS
    part = (units & ((1 << GRADE_BITS) - 1)).astype(np.float64) / GRADE_ONE
    base = ((np.int64(1) << whole) - 1) << GRADE_BITS
    step = (np.int64(1) << (whole + GRADE_BITS)).astype(np.float64)
    return base + np.rint(_exp2_minus_one(part) * step).astype(np.int64)


def _exp2_minus_one(part: Floats) -> Floats:
    """2**x - 1 for 0 <= x < 1 by its power series, because exp2 of math libraries differs in the last bit."""
    coefficients = [_LN2]
    for n in range(2, _TERMS + 1):
        coefficients.append(coefficients[-1] * _LN2 / n)
    total = np.full_like(part, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = total * part + coefficient
    return total * part


def weigh(gains: Ints, discounts: Ints) -> tuple[Ints, Ints]:
    """gain x discount without rounding, elementwise: units of 2**-44, and the remainder in units of 2**-84 (0 <= remainder < 2**40).

    `carry` combines sums of the two parts. The remainder is zero for whole gains.
    """
    half = (1 << _HALF_BITS) - 1
    factor = (discounts & ((1 << DISCOUNT_BITS) - 1)).astype(np.uint64)
    rest = (gains & ((1 << GRADE_BITS) - 1)).astype(np.uint64)
    low = (rest & np.uint64(half)) * factor
    middle = (rest >> np.uint64(_HALF_BITS)) * factor + (low >> np.uint64(_HALF_BITS))
    whole = (gains >> GRADE_BITS) * (discounts & ((1 << DISCOUNT_BITS) - 1)) + (middle >> np.uint64(_HALF_BITS)).astype(np.int64)
    whole += (gains * (discounts >> DISCOUNT_BITS)) << (DISCOUNT_BITS - GRADE_BITS)
    return whole, (((middle & np.uint64(half)) << np.uint64(_HALF_BITS)) | (low & np.uint64(half))).astype(np.int64)


def carry(whole: Ints, rest: Ints) -> Ints:
    """The exact sum of products from the sums of both parts of `weigh`, rounded down to units of 2**-44."""
    return whole + (rest >> GRADE_BITS)


def shift_half_even(value: IntOrInts, bits: int) -> IntOrInts:
    """value / 2**bits, rounded half to even, for an int or an integer array.

    >>> [shift_half_even(value, 1) for value in (0, 1, 2, 3, 5)]
    [0, 0, 1, 2, 2]
    """
    return (value + ((1 << (bits - 1)) - 1) + ((value >> bits) & 1)) >> bits


@lru_cache(maxsize=32)
def discount_units(discount: Discount, depth: int) -> Ints:
    """The discounts of ranks 1..depth, and a final zero for all later ranks: units of 2**-44, shape (depth + 1,), read-only."""
    made = [*(_discount_unit(discount, rank) for rank in range(1, depth + 1)), 0]
    return _read_only(made)


def _read_only(numbers: list[int]) -> Ints:
    table = np.array(numbers, dtype=np.int64)
    table.flags.writeable = False
    return table


def _discount_unit(discount: Discount, rank: int) -> int:
    if isinstance(discount, tuple):
        return round(Fraction(1 << DISCOUNT_BITS) / Fraction(discount[rank - 1])) if rank <= len(discount) else 0
    argument = rank + 1 if discount == "log2(i+1)" else max(rank, 2)
    scaled = (1 << DISCOUNT_BITS) / math.log2(argument)
    # An error in the last bit of log2 moves `scaled` by less than 2**-7. Only this close to a tie can it change the rounding.
    if abs(scaled - math.floor(scaled) - 0.5) > 2.0**-6:
        return round(scaled)
    with decimal.localcontext(prec=40):
        exact = (1 << DISCOUNT_BITS) * decimal.Decimal(2).ln() / decimal.Decimal(argument).ln()
        return int(exact.to_integral_value(decimal.ROUND_HALF_EVEN))


@lru_cache(maxsize=32)
def persistence_units(persistence: float, depth: int) -> Ints:
    """The weights (1 - p) p**(i - 1) of ranks 1..depth, and a final zero: units of 2**-52, rounded down, shape (depth + 1,), read-only.

    Computed with 76 extra bits; each step is rounded down.
    """
    extra = 76
    step = int(Fraction(persistence) * (1 << extra))
    weight = ((1 << extra) - step) << RBP_BITS
    made = []
    for _ in range(depth):
        made.append(weight >> extra)
        weight = weight * step >> extra
    return _read_only([*made, 0])


def satisfaction(err_grade_max: float, units: Ints) -> Floats:
    """The probability (2**g - 1) / 2**err_grade_max that an item satisfies the user (Chapelle et al. 2009). Grades are in units."""
    top = grade_units(np.array([err_grade_max]))
    return gain_units("exp2", units).astype(np.float64) / (gain_units("exp2", top) + (1 << GRADE_BITS)).astype(np.float64)
