"""Naive list metrics by their textbook formulas, and the rounding to stored integers. One list at a time, no numpy.

Relevant means grade >= `relevance_min`; gains are linear unless a name says `_exp`; a list that can earn nothing has value 0.
A rational value is kept as a Fraction until it is rounded; only the logarithms are floats, so values built from them are
right to about 1e-15 and need not match another implementation's last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

Scorer: TypeAlias = Callable[[list[float]], dict[str, int]]
"""Grades of one list in rank order -> the stored integer of each list metric by name."""

UNBOUNDED = frozenset({"dcg", "dcg_exp", "cg"})


def scale_bits(name: str) -> int:
    """How many binary digits after the point a metric is stored with: 40 for values in [0, 1], 32 for unbounded ones.

    >>> scale_bits("ndcg@10"), scale_bits("cg@10")
    (40, 32)
    """
    return 32 if name.partition("@")[0] in UNBOUNDED else 40


def quantise(value: Fraction | float, bits: int) -> int:
    """The nearest integer to value * 2**bits, a half going to the even one.

    >>> [quantise(Fraction(half, 2), 0) for half in (1, 3, 5)]
    [0, 2, 2]
    """
    return round(Fraction(value) * (1 << bits))


def naive_scorer(cutoffs: Sequence[int], relevance_min: float = 1) -> Scorer:
    """A scorer of all list metrics at these cut-offs."""

    def score(grades: list[float]) -> dict[str, int]:
        return {name: quantise(value, scale_bits(name)) for name, value in naive_values(grades, cutoffs, relevance_min).items()}

    return score


def naive_values(grades: Sequence[float], cutoffs: Sequence[int], relevance_min: float = 1) -> dict[str, Fraction | float]:
    """Every list metric at every cut-off, e.g. `ndcg@10`.

    >>> naive_values([0, 1], [2])["mrr@2"]
    Fraction(1, 2)
    """
    return {f"{name}@{k}": value for k in cutoffs for name, value in _values_at(grades, k, relevance_min).items()}


def _values_at(grades: Sequence[float], k: int, relevance_min: float) -> dict[str, Fraction | float]:
    powers = [2.0**grade - 1 for grade in grades]
    relevant = [grade >= relevance_min for grade in grades]
    hit_ranks = [rank for rank, is_relevant in enumerate(relevant[:k], start=1) if is_relevant]
    all_relevant = sum(relevant)
    return {
        "ndcg": _ndcg(grades, k),
        "ndcg_exp": _ndcg(powers, k),
        "dcg": _dcg(grades, k),
        "cg": sum((Fraction(grade) for grade in grades[:k]), Fraction(0)),
        "mrr": Fraction(1, hit_ranks[0]) if hit_ranks else Fraction(0),
        "hit_rate": Fraction(1 if hit_ranks else 0),
        "precision": Fraction(len(hit_ranks), k),
        "recall": _ratio(Fraction(len(hit_ranks)), all_relevant),
        "map": _ratio(sum((Fraction(hits, rank) for hits, rank in enumerate(hit_ranks, start=1)), Fraction(0)), min(all_relevant, k)),
    }


def _dcg(gains: Sequence[float], k: int) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], start=1))


def _ndcg(gains: Sequence[float], k: int) -> float:
    ideal = _dcg(sorted(gains, reverse=True), k)
    return _dcg(gains, k) / ideal if ideal > 0 else 0.0


def _ratio(part: Fraction, whole: int) -> Fraction:
    return part / whole if whole else Fraction(0)
