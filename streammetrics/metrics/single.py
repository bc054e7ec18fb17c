"""One list at a time in plain Python, for single events. Each integer equals the batch's, which the tests hold it to.

What a grade earns comes from the same functions as in the batch, once per distinct grade; only sums and divisions are written
again here, on Python's whole numbers. What repeats from list to list is remembered within fixed bounds: grades, ideals, values
made of counts, and lists with a single graded item. Loops are spelled out where a comprehension would cost more than its turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from streammetrics.metrics.checks import check_grade
from streammetrics.metrics.plan import Family, Plan, gain_of, gains_by_name
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import (
    AP_BITS,
    AP_ONE,
    DISCOUNT_BITS,
    GRADE_BITS,
    SUM_BITS,
    VALUE_BITS,
    VALUE_ONE,
    grade_units,
    shift_half_even,
)

KEPT_MAX: Final = 4_096
"""Entries of each memory; one more starts it afresh."""

GRADED_KEPT_MAX: Final = 8
"""Lists with up to this many graded items have few enough ideals to remember them."""

Key = TypeVar("Key")
Entry = TypeVar("Entry")
Values: TypeAlias = list[int]
Ideals: TypeAlias = dict[Gain, list[float]]


class Level(NamedTuple):
    """What one grade is and earns, in units; ordered by grade."""

    units: int
    relevant: int
    gains: tuple[int, ...]


class Levels(dict[float, Level]):
    """The levels of the grades seen lately. A grade is checked when it is first seen; what breaks the rules is never kept."""

    def __init__(self, plan: Plan, gains: Sequence[Gain]) -> None:
        super().__init__()
        self._plan = plan
        self._gains = gains

    def __missing__(self, grade: float) -> Level:
        check_grade(grade, self._plan.grade_max)
        units = grade_units(np.array([grade], dtype=np.float64))
        gains = gains_by_name(self._gains, units)
        level = Level(int(units[0]), int(units[0] >= self._plan.threshold_units), tuple(int(gains[gain][0]) for gain in self._gains))
        return _remember(self, grade, level)


def _remember(memory: dict[Key, Entry], key: Key, entry: Entry) -> Entry:
    if len(memory) >= KEPT_MAX:
        memory.clear()
    memory[key] = entry
    return entry


@dataclass(slots=True)
class Graded:
    """One list's graded items in rank order. `reach[c]` of them lie within cut-off c; `hits[m]` of the first m are relevant."""

    places: Sequence[int]
    levels: Sequence[Level]
    reach: Sequence[int]
    hits: Sequence[int]
    first_rank: int
    ideals: Ideals


Reader: TypeAlias = Callable[[Graded, Values], None]
"""Appends the values of a metric at its cut-offs."""


class OneList:
    """The one-list path of a plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._cutoffs = plan.cutoffs
        self._gains: tuple[Gain, ...] = tuple(dict.fromkeys([*plan.weighted_gains, plan.spec.gain]))
        self._levels = Levels(plan, self._gains)
        self._discounts: list[int] = plan.discounts.tolist()
        self._ideals: dict[tuple[float, ...], Ideals] = {}
        counted = [family for family in plan.families if family.name in _OF_COUNTS]
        others = [family for family in plan.families if family.name not in _OF_COUNTS]
        self._readers = [_READERS[family.name](plan, family, self._discounts, self._gains) for family in others]
        if counted:
            self._readers.append(_count_reader(plan, counted))
        families = [*others, *counted]
        self._placed = [plan.cutoffs[index] for family in families if family.place_columns for index in family.cutoffs]
        self._in_order = _in_order(families)
        self._nothing = [0] * sum(len(family.columns) for family in plan.families)
        self._lone: dict[tuple[int, float], Values] = {}

    def score(self, length: int, places: list[int], grades: list[float]) -> tuple[int, ...]:
        """The columns of a list of `length` items with these grades at these places (ascending, checked)."""
        if len(places) == 1:
            key = places[0], grades[0]
            values = self._lone.get(key) or _remember(self._lone, key, self._read(places, grades))
        else:
            values = self._read(places, grades) if places else self._nothing
        if self._placed:
            values = values.copy()
            for k in self._placed:
                values.append(k if k < length else length)
        return self._in_order(values)

    def _read(self, places: list[int], grades: list[float]) -> Values:
        known = self._levels
        levels, hits, found, first_rank = [], [0], 0, 0
        for place, grade in zip(places, grades):  # noqa: B905 (of equal length by construction; the check costs as much as a turn)
            level = known[grade]
            levels.append(level)
            if level[1]:
                found += 1
                first_rank = first_rank or place + 1
            hits.append(found)
        reach = []
        for k in self._cutoffs:
            reach.append(bisect_left(places, k))
        ideals = (self._ideals.get(tuple(grades)) or self._ideals_of(grades, levels)) if self._plan.ideal_gains else {}
        graded = Graded(places, levels, reach, hits, first_rank, ideals)
        values: Values = []
        for read in self._readers:
            read(graded, values)
        return values

    def _ideals_of(self, grades: Sequence[float], levels: Sequence[Level]) -> Ideals:
        """Per gain, the ideal DCG at each cut-off, as a double that can be divided by."""
        best_first = sorted(levels, reverse=True)
        ranks = range(min(len(best_first), self._plan.depth))
        ideals = {}
        for gain in self._plan.ideal_gains:
            running = _discounted(best_first, ranks, self._discounts, self._gains.index(gain))
            ideals[gain] = [float(max(running[min(k, len(ranks))] >> GRADE_BITS, 1)) for k in self._cutoffs]
        return _remember(self._ideals, tuple(grades), ideals) if len(grades) <= GRADED_KEPT_MAX else ideals


def _discounted(levels: Sequence[Level], ranks: Sequence[int], discounts: Sequence[int], at: int) -> list[int]:
    """Running sums of gain x discount with a leading zero, exact, over as many levels as there are ranks to earn at."""
    total = 0
    running = [0]
    for level, rank in zip(levels, ranks):  # noqa: B905 (ranks may end first)
        total += level[2][at] * discounts[rank]
        running.append(total)
    return running


def _ndcg(plan: Plan, family: Family, discounts: Sequence[int], gains: Sequence[Gain]) -> Reader:
    gain = gain_of(family.name, plan.spec)
    at, cutoffs = gains.index(gain), family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        reach, ideal = graded.reach, graded.ideals[gain]
        running = _discounted(graded.levels, graded.places[: reach[-1]], discounts, at)
        for index in cutoffs:
            # Scaling by a power of two is exact, so its place in the expression does not matter.
            values.append(round((running[reach[index]] >> GRADE_BITS) * VALUE_ONE / ideal[index]))

    return read


def _dcg(plan: Plan, family: Family, discounts: Sequence[int], gains: Sequence[Gain]) -> Reader:
    at, cutoffs = gains.index(plan.spec.gain), family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        reach = graded.reach
        running = _discounted(graded.levels, graded.places[: reach[-1]], discounts, at)
        for index in cutoffs:
            values.append(shift_half_even(running[reach[index]] >> GRADE_BITS, DISCOUNT_BITS - SUM_BITS))

    return read


def _cg(plan: Plan, family: Family, _discounts: Sequence[int], gains: Sequence[Gain]) -> Reader:
    at, cutoffs = gains.index(plan.spec.gain), family.cutoffs

    def read(graded: Graded, values: Values) -> None:
        total = 0
        running = [0]
        for level in graded.levels:
            total += level[2][at]
            running.append(total)
        for index in cutoffs:
            values.append(shift_half_even(running[graded.reach[index]], GRADE_BITS - SUM_BITS))

    return read


def _mrr(plan: Plan, family: Family, _discounts: Sequence[int], _gains: Sequence[Gain]) -> Reader:
    ks = [plan.cutoffs[index] for index in family.cutoffs]

    def read(graded: Graded, values: Values) -> None:
        first_rank = graded.first_rank
        value = round(VALUE_ONE / first_rank) if first_rank else 0
        for k in ks:
            values.append(value if first_rank <= k else 0)

    return read


def _map(plan: Plan, family: Family, _discounts: Sequence[int], _gains: Sequence[Gain]) -> Reader:
    pairs = [(index, plan.cutoffs[index]) for index in family.cutoffs]
    scale = 2.0 ** (VALUE_BITS - AP_BITS)

    def read(graded: Graded, values: Values) -> None:
        reach, hits, total = graded.reach, graded.hits, 0
        running = [0]
        for m in range(reach[-1]):
            if graded.levels[m][1]:
                total += round(hits[m + 1] / (graded.places[m] + 1) * AP_ONE)
            running.append(total)
        relevant = hits[-1]
        for index, k in pairs:
            values.append(_value(running[reach[index]], relevant if relevant < k else k, scale))

    return read


_READERS: Final[dict[str, Callable[[Plan, Family, Sequence[int], Sequence[Gain]], Reader]]] = {
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "dcg": _dcg,
    "cg": _cg,
    "mrr": _mrr,
    "map": _map,
}

_OF_COUNTS: Final[dict[str, Callable[[int, int, int], int]]] = {
    "hit_rate": lambda hits, k, relevant: 1 << VALUE_BITS if hits else 0,
    "item_hit_rate": lambda hits, k, relevant: hits,
    "precision": lambda hits, k, relevant: _value(hits, k),
    "recall": lambda hits, k, relevant: _value(hits, relevant),
}
"""Metrics that are functions of the number of hits within k, k, and the number of relevant items."""


def _count_reader(plan: Plan, families: Sequence[Family]) -> Reader:
    """All metrics of counts at once, because the same counts come again and again."""
    wanted = [(_OF_COUNTS[family.name], index, plan.cutoffs[index]) for family in families for index in family.cutoffs]
    memory: dict[tuple[int, ...], Values] = {}

    def read(graded: Graded, values: Values) -> None:
        hits = graded.hits
        counts = (hits[-1], *map(hits.__getitem__, graded.reach))
        known = memory.get(counts)
        if known is None:
            known = _remember(memory, counts, [value_of(counts[index + 1], k, counts[0]) for value_of, index, k in wanted])
        values += known

    return read


def _value(numerator: int, denominator: int, scale: float = VALUE_ONE) -> int:
    """One division of two doubles, rounded once, as in the batch; not int / int, which would skip their rounding."""
    return round(float(numerator) / float(denominator) * scale) if numerator else 0


def _in_order(families: Sequence[Family]) -> Callable[[Values], tuple[int, ...]]:
    """Values come family by family, then the places; columns stand in the order that was asked for."""
    made = [column for family in families for column in family.columns]
    made += [column for family in families for column in family.place_columns]
    source = [made.index(column) for column in range(len(made))]
    if source == list(range(len(source))):
        return tuple
    return itemgetter(*source)
