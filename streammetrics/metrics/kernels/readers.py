"""What each metric reads of one list: its formula on Python's whole numbers. Each integer equals the batch's (see `values`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar

from streammetrics.metrics.plan import Family, ScoringPlan, gain_of
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import (
    AP_BITS,
    AP_ONE,
    DISCOUNT_BITS,
    GRADE_BITS,
    RBP_BITS,
    SUM_BITS,
    VALUE_BITS,
    VALUE_ONE,
    shift_half_even,
)

KEPT_MAX: Final = 4_096
"""Entries of each memory; one more starts it afresh."""

KeyT = TypeVar("KeyT")
Entry = TypeVar("Entry")
Values: TypeAlias = list[int]
Ideals: TypeAlias = dict[Gain, list[float]]


class GradeLevel(NamedTuple):
    """What one grade is and earns, in units; ordered by grade."""

    units: int
    relevant: int
    gains: tuple[int, ...]
    satisfaction: float


@dataclass(slots=True)
class Graded:
    """One list's graded items in rank order. `reach[c]` of them lie within cut-off c; `hits[m]` of the first m are relevant.

    `relevant` counts those never shown too.
    """

    length: int
    places: Sequence[int]
    levels: Sequence[GradeLevel]
    reach: Sequence[int]
    hits: Sequence[int]
    first_rank: int
    relevant: int
    ideals: Ideals


Reader: TypeAlias = Callable[[Graded, Values], None]
"""Appends the values of a metric at its cut-offs."""


def remember(memory: dict[KeyT, Entry], key: KeyT, entry: Entry) -> Entry:
    if len(memory) >= KEPT_MAX:
        memory.clear()
    memory[key] = entry
    return entry


def discounted(levels: Sequence[GradeLevel], ranks: Sequence[int], discounts: Sequence[int], at: int) -> list[int]:
    """Running sums of gain x discount with a leading zero, exact, over as many levels as there are ranks to earn at."""
    total = 0
    running = [0]
    for level, rank in zip(levels, ranks):  # noqa: B905 (ranks may end first)
        total += level[2][at] * discounts[rank]
        running.append(total)
    return running


def _ndcg(plan: ScoringPlan, family: Family, discounts: Sequence[int]) -> Reader:
    gain = gain_of(family.name, plan.spec)
    at, cutoffs = plan.gains.index(gain), family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        reach, ideal = graded.reach, graded.ideals[gain]
        running = discounted(graded.levels, graded.places[: reach[-1]], discounts, at)
        for index in cutoffs:
            # Scaling by a power of two is exact, so its place in the expression does not matter.
            values.append(round((running[reach[index]] >> GRADE_BITS) * VALUE_ONE / ideal[index]))

    return read


def _dcg(plan: ScoringPlan, family: Family, discounts: Sequence[int]) -> Reader:
    at, cutoffs = plan.gains.index(gain_of(family.name, plan.spec)), family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        reach = graded.reach
        running = discounted(graded.levels, graded.places[: reach[-1]], discounts, at)
        for index in cutoffs:
            values.append(shift_half_even(running[reach[index]] >> GRADE_BITS, DISCOUNT_BITS - SUM_BITS))

    return read


def _cg(plan: ScoringPlan, family: Family, _discounts: Sequence[int]) -> Reader:
    at, cutoffs = plan.gains.index(plan.spec.gain), family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        total = 0
        running = [0]
        for level in graded.levels:
            total += level[2][at]
            running.append(total)
        for index in cutoffs:
            values.append(shift_half_even(running[graded.reach[index]], GRADE_BITS - SUM_BITS))

    return read


def _mrr(plan: ScoringPlan, family: Family, _discounts: Sequence[int]) -> Reader:
    ks = [plan.cutoffs[index] for index in family.cutoffs]

    def read(graded: Graded, values: Values) -> None:
        first_rank = graded.first_rank
        value = round(VALUE_ONE / first_rank) if first_rank else 0
        for k in ks:
            values.append(value if first_rank <= k else 0)

    return read


def _map(plan: ScoringPlan, family: Family, _discounts: Sequence[int]) -> Reader:
    pairs = [(index, plan.cutoffs[index]) for index in family.cutoffs]
    scale = 2.0 ** (VALUE_BITS - AP_BITS)
    below = _AP_DENOMINATORS[plan.spec.ap_denominator]

    def read(graded: Graded, values: Values) -> None:
        reach, hits, total = graded.reach, graded.hits, 0
        running = [0]
        for m in range(reach[-1]):
            if graded.levels[m][1]:
                total += round(hits[m + 1] / (graded.places[m] + 1) * AP_ONE)
            running.append(total)
        for index, k in pairs:
            values.append(_value(running[reach[index]], below(graded, hits[reach[index]], k), scale))

    return read


_AP_DENOMINATORS: Final[dict[str, Callable[[Graded, int, int], int]]] = {
    "min(R,k)": lambda graded, hits, k: graded.relevant if graded.relevant < k else k,
    "R": lambda graded, hits, k: graded.relevant,
    "k": lambda graded, hits, k: k,
    "hits": lambda graded, hits, k: hits,
    "min(R,n,k)": lambda graded, hits, k: min(graded.relevant, graded.length, k),
}


def _r_precision(plan: ScoringPlan, family: Family, _discounts: Sequence[int]) -> Reader:
    def read(graded: Graded, values: Values) -> None:
        values.append(_value(graded.hits[bisect_left(graded.places, graded.relevant)], graded.relevant))

    return read


def _rbp(plan: ScoringPlan, family: Family, _discounts: Sequence[int]) -> Reader:
    weights: list[int] = plan.persistences.tolist()
    cutoffs = family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        total = 0
        running = [0]
        for m in range(graded.reach[-1]):
            if graded.levels[m][1]:
                total += weights[graded.places[m]]
            running.append(total)
        for index in cutoffs:
            values.append(shift_half_even(running[graded.reach[index]], RBP_BITS - VALUE_BITS))

    return read


def _err(plan: ScoringPlan, family: Family, _discounts: Sequence[int]) -> Reader:
    cutoffs = family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        total, going_on = 0, 1.0
        running = [0]
        for m in range(graded.reach[-1]):
            chance = graded.levels[m][3]
            total += round(going_on * chance / (graded.places[m] + 1) * AP_ONE)
            going_on *= 1 - chance
            running.append(total)
        for index in cutoffs:
            values.append(shift_half_even(running[graded.reach[index]], AP_BITS - VALUE_BITS))

    return read


READERS: Final[dict[str, Callable[[ScoringPlan, Family, Sequence[int]], Reader]]] = {
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "dcg": _dcg,
    "dcg_exp": _dcg,
    "cg": _cg,
    "mrr": _mrr,
    "map": _map,
    "r_precision": _r_precision,
    "rbp": _rbp,
    "err": _err,
}

OF_COUNTS: Final[dict[str, Callable[[int, int, int], int]]] = {
    "hit_rate": lambda hits, places, relevant: 1 << VALUE_BITS if hits else 0,
    "item_hit_rate": lambda hits, places, relevant: hits,
    "precision": lambda hits, places, relevant: _value(hits, places),
    "recall": lambda hits, places, relevant: _value(hits, relevant),
    "f1": lambda hits, places, relevant: _value(2 * hits, places + relevant),
}
"""Metrics that are functions of the hits within k, and of what the spec divides precision and recall by."""


def count_reader(plan: ScoringPlan, families: Sequence[Family]) -> Reader:
    """All metrics of counts at once, because the same counts come again and again."""
    wanted = [(OF_COUNTS[family.name], index, plan.cutoffs[index]) for family in families for index in family.cutoffs]
    by_length = plan.spec.precision_denominator != "k"
    recall_by_k = plan.spec.recall_denominator != "R"
    memory: dict[tuple[int, ...], Values] = {}

    def values_of(length: int, relevant: int, hits: Sequence[int]) -> Values:
        made = []
        for value_of, index, k in wanted:
            made.append(value_of(hits[index], min(length, k) if by_length else k, min(relevant, k) if recall_by_k else relevant))
        return made

    def read(graded: Graded, values: Values) -> None:
        counts = (graded.length if by_length else 0, graded.relevant, *map(graded.hits.__getitem__, graded.reach))
        known = memory.get(counts)
        if known is None:
            known = remember(memory, counts, values_of(counts[0], counts[1], counts[2:]))
        values += known

    return read


def _value(numerator: int, denominator: int, scale: float = VALUE_ONE) -> int:
    """One division of two doubles, rounded once, as in the batch; not int / int, which would skip their rounding."""
    return round(float(numerator) / float(denominator) * scale) if numerator else 0
