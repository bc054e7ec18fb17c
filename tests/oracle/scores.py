"""The integers that every list metric must have, written down from the definitions. One list at a time, no numpy, no product code.

Notation: n items shown, cut-off k, R relevant items in the list, h relevant items among the first k. An item is relevant if its
grade is at least `relevance_min`. The value of a list without relevant items is 0.

The unit of each quantity, and where it is rounded (half to even unless noted):

    grade, gain      2**-40   a grade is rounded once; linear gain g, exponential gain 2**g - 1 (Burges et al. 2005)
    discount         2**-44   1 / log2(rank + 1) (Jarvelin and Kekalainen 2002), rounded once from 50 digits
    DCG, ideal DCG   2**-44   exact sum of gain x discount, then rounded down; the ideal ranks all items of the list by grade
    precision at i   2**-42   each term of average precision is rounded, then the terms are added up
    value in [0, 1]  2**-40   one division, rounded; NDCG divides two doubles
    dcg, cg          2**-32   rounded
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, lru_cache

GRADE_ONE, DISCOUNT_ONE, TERM_ONE, VALUE_ONE, SUM_ONE = 2**40, 2**44, 2**42, 2**40, 2**32
DIGITS = 50
SUMS = frozenset({"dcg", "cg"})
COUNTS = frozenset(
    {
        "item_hit_rate",
        "zero_result_rate",
        "abandonment_rate",
        "first_click_share",
        "first_click_rank",
        "time_to_first_click",
        "satisfied_rate",
        "reformulation_rate",
        "lists_per_session",
        "purchases_per_list",
    }
)
"""Metrics that are ratios of counts, or means of counts."""


def scale_bits(name: str) -> int:
    """How many binary digits after the point a metric is stored with: 40 for values in [0, 1], 32 for sums, 0 for counts.

    >>> scale_bits("ndcg@10"), scale_bits("cg@10"), scale_bits("item_hit_rate@10"), scale_bits("value_per_list")
    (40, 32, 0, 16)
    """
    family = name.partition("@")[0]
    return 0 if family in COUNTS else 16 if family == "value_per_list" else 32 if family in SUMS else 40


@lru_cache(maxsize=1 << 16)
def _stored(grades: tuple[float, ...], cutoffs: tuple[int, ...], relevance_min: float) -> dict[str, int]:
    return {f"{name}@{k}": value for k in cutoffs for name, value in _at_cutoff(grades, k, relevance_min).items()}


def stored_values(grades: Sequence[float], cutoffs: Sequence[int], relevance_min: float = 1) -> dict[str, int]:
    """The stored integer of every list metric at every cut-off, by name. grades: of all items shown, in rank order.

    `item_hit_rate` is not among them, because it is a ratio of sums over lists.

    >>> stored_values([0, 1], [2])["mrr@2"] == 2**40 // 2
    True
    """
    return _stored(tuple(grades), tuple(cutoffs), relevance_min)


def metric_values(grades: Sequence[float], cutoffs: Sequence[int], relevance_min: float = 1) -> dict[str, float]:
    """The same as numbers.

    >>> metric_values([0, 1], [2])["mrr@2"]
    0.5
    """
    return {name: value / 2 ** scale_bits(name) for name, value in stored_values(grades, cutoffs, relevance_min).items()}


def _at_cutoff(grades: Sequence[float], k: int, relevance_min: float) -> dict[str, int]:
    linear = [round(Fraction(grade) * GRADE_ONE) for grade in grades]
    exponential = [_exponential_gain(gain) for gain in linear]
    hit_ranks = [rank for rank, grade in enumerate(grades[:k], start=1) if grade >= relevance_min]
    hits, relevant = len(hit_ranks), sum(grade >= relevance_min for grade in grades)
    precisions = sum(round(Fraction(hits * TERM_ONE, rank)) for hits, rank in enumerate(hit_ranks, start=1))
    return {
        "ndcg": _ndcg(linear, k),
        "ndcg_exp": _ndcg(exponential, k),
        "dcg": round(Fraction(_dcg(linear, k) * SUM_ONE, DISCOUNT_ONE)),
        "cg": round(Fraction(sum(linear[:k]) * SUM_ONE, GRADE_ONE)),
        "mrr": round(Fraction(VALUE_ONE, hit_ranks[0])) if hits else 0,
        "hit_rate": VALUE_ONE if hits else 0,
        "precision": round(Fraction(hits * VALUE_ONE, k)),
        "recall": round(Fraction(hits * VALUE_ONE, relevant)) if relevant else 0,
        "map": round(Fraction(precisions * VALUE_ONE, TERM_ONE * min(relevant, k))) if relevant else 0,
    }


def _exponential_gain(grade_units: int) -> int:
    """2**grade - 1 in units of 2**-40."""
    with decimal.localcontext(prec=DIGITS):
        gain = decimal.Decimal(2) ** (decimal.Decimal(grade_units) / GRADE_ONE) - 1
        return int((gain * GRADE_ONE).to_integral_value(decimal.ROUND_HALF_EVEN))


@cache
def _discount(rank: int) -> int:
    """1 / log2(rank + 1) in units of 2**-44."""
    with decimal.localcontext(prec=DIGITS):
        discount = decimal.Decimal(2).ln() / decimal.Decimal(rank + 1).ln()
        return int((discount * DISCOUNT_ONE).to_integral_value(decimal.ROUND_HALF_EVEN))


def _dcg(gains: Sequence[int], k: int) -> int:
    """DCG at a cut-off in units of 2**-44."""
    return sum(gain * _discount(rank) for rank, gain in enumerate(gains[:k], start=1)) // GRADE_ONE


def _ndcg(gains: Sequence[int], k: int) -> int:
    ideal = _dcg(sorted(gains, reverse=True), k)
    return round(float(_dcg(gains, k)) / float(ideal) * VALUE_ONE) if ideal else 0
