"""Every metric as its textbook formula, in floats, one list at a time: slow, naive, and independent of the package."""

from __future__ import annotations

import math
from collections.abc import Sequence


def value(name: str, k: int, grades: Sequence[float], threshold: float = 1.0) -> float:  # noqa: PLR0911 (one formula a return)
    """The value of a metric for one list of grades in rank order; NaN for the item hit rate of an empty list."""
    relevant = [grade >= threshold for grade in grades]
    top, total = relevant[:k], sum(relevant)
    match name:
        case "ndcg" | "ndcg_exp":
            gains = [2**grade - 1 if name == "ndcg_exp" else grade for grade in grades]
            ideal = dcg(sorted(gains, reverse=True)[:k])
            return dcg(gains[:k]) / ideal if ideal else 0.0
        case "dcg":
            return dcg(grades[:k])
        case "cg":
            return math.fsum(grades[:k])
        case "mrr":
            return next((1 / rank for rank, hit in enumerate(top, 1) if hit), 0.0)
        case "hit_rate":
            return float(any(top))
        case "item_hit_rate":
            return sum(top) / len(top) if top else math.nan
        case "precision":
            return sum(top) / k
        case "recall":
            return sum(top) / total if total else 0.0
        case "map":
            precisions = [sum(relevant[:rank]) / rank for rank, hit in enumerate(top, 1) if hit]
            return math.fsum(precisions) / min(total, k) if total else 0.0
    raise AssertionError(f"no formula for {name}")


def dcg(gains: Sequence[float]) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1))
