"""The textbook formula of every metric in floats, one list at a time, without code of the package.

`Choices` repeats in its own words what libraries disagree on; the tests translate a Spec into it field by field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Choices:
    gain: str | tuple[float, ...] = "linear"
    discount: str | tuple[float, ...] = "log2(i+1)"
    threshold: float = 1.0
    ideal: str = "all"
    ap_denominator: str = "min(R,k)"
    recall_denominator: str = "R"
    precision_denominator: str = "k"
    persistence: float = 0.8
    err_grade_max: float = 4.0


DEFAULT = Choices()


def value(
    name: str, k: int, grades: Sequence[float], threshold: float = 1.0, unseen: Sequence[float] = (), choices: Choices = DEFAULT
) -> float:
    """The value of a metric for one list of grades in rank order; NaN for the item hit rate of an empty list.

    k = 0 means the whole list. `threshold` sets the threshold of the default choices.
    """
    chosen = choices if threshold == 1.0 else Choices(threshold=threshold)
    return FORMULAS[name](chosen, k or len(grades) + len(unseen) + 1, list(grades), list(unseen), "exp2" if name.endswith("_exp") else None)


def _is_relevant(choices: Choices, grade: float) -> bool:
    return grade >= choices.threshold


def _hits(choices: Choices, k: int, grades: Sequence[float]) -> int:
    return sum(_is_relevant(choices, grade) for grade in grades[:k])


def _gain(choices: Choices, grade: float, gain_name: str | None) -> float:
    gain = gain_name or choices.gain
    if isinstance(gain, tuple):
        return gain[int(grade)]
    return {"linear": grade, "exp2": 2**grade - 1, "binary": float(_is_relevant(choices, grade))}[gain]


def _earns(choices: Choices, rank: int) -> float:
    if isinstance(choices.discount, tuple):
        return 1 / choices.discount[rank - 1] if rank <= len(choices.discount) else 0.0
    return 1 / (math.log2(rank + 1) if choices.discount == "log2(i+1)" else max(1.0, math.log2(rank)))


def _sum(choices: Choices, gains: Sequence[float]) -> float:
    return math.fsum(gain * _earns(choices, rank) for rank, gain in enumerate(gains, 1))


def _dcg(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    return _sum(choices, [_gain(choices, grade, gain_name) for grade in grades[:k]])


def _ndcg(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    pool = {"all": [*grades, *unseen], "shown": grades, "first_k": grades[:k], "full": []}[choices.ideal]
    best = sorted((_gain(choices, grade, gain_name) for grade in pool), reverse=True)[:k]
    ideal = _sum(choices, [1.0] * k if choices.ideal == "full" else best)
    return _dcg(choices, k, grades, unseen, gain_name) / ideal if ideal else 0.0


def _cg(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    return math.fsum(_gain(choices, grade, None) for grade in grades[:k])


def _mrr(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    return next((1 / rank for rank, grade in enumerate(grades[:k], 1) if _is_relevant(choices, grade)), 0.0)


def _hit_rate(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    return float(_hits(choices, k, grades) > 0)


def _item_hit_rate(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    return _hits(choices, k, grades) / len(grades[:k]) if grades else math.nan


def _places(choices: Choices, k: int, grades: list[float]) -> int:
    return k if choices.precision_denominator == "k" else min(len(grades), k)


def _all_relevant(choices: Choices, grades: list[float], unseen: list[float]) -> int:
    return sum(_is_relevant(choices, grade) for grade in [*grades, *unseen])


def _recallable(choices: Choices, k: int, grades: list[float], unseen: list[float]) -> int:
    total = _all_relevant(choices, grades, unseen)
    return total if choices.recall_denominator == "R" else min(total, k)


def _precision(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    below = _places(choices, k, grades)
    return _hits(choices, k, grades) / below if below else 0.0


def _recall(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    below = _recallable(choices, k, grades, unseen)
    return _hits(choices, k, grades) / below if below else 0.0


def _f1(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    precision, recall = _precision(choices, k, grades, unseen, gain_name), _recall(choices, k, grades, unseen, gain_name)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _map(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    ranks = [rank for rank, grade in enumerate(grades[:k], 1) if _is_relevant(choices, grade)]
    total = sum((Fraction(hits, rank) for hits, rank in enumerate(ranks, 1)), Fraction(0))
    relevant = _all_relevant(choices, grades, unseen)
    below = {"min(R,k)": min(relevant, k), "R": relevant, "k": k, "hits": len(ranks), "min(R,n,k)": min(relevant, len(grades), k)}
    return float(total / below[choices.ap_denominator]) if below[choices.ap_denominator] else 0.0


def _r_precision(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    relevant = _all_relevant(choices, grades, unseen)
    return _hits(choices, relevant, grades) / relevant if relevant else 0.0


def _rbp(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    p = choices.persistence
    return (1 - p) * math.fsum(p**at for at, grade in enumerate(grades[:k]) if _is_relevant(choices, grade))


def _err(choices: Choices, k: int, grades: list[float], unseen: list[float], gain_name: str | None) -> float:
    total, going_on = 0.0, 1.0
    for rank, grade in enumerate(grades[:k], 1):
        chance = (2**grade - 1) / 2**choices.err_grade_max
        total += going_on * chance / rank
        going_on *= 1 - chance
    return total


FORMULAS: dict[str, Callable[[Choices, int, list[float], list[float], str | None], float]] = {
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "dcg": _dcg,
    "dcg_exp": _dcg,
    "cg": _cg,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
    "item_hit_rate": _item_hit_rate,
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "map": _map,
    "r_precision": _r_precision,
    "rbp": _rbp,
    "err": _err,
}
