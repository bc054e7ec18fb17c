"""One list at a time in plain Python, for single events. Each integer equals the batch's, which the tests hold it to.

What a grade earns comes from the same functions as in the batch, once per distinct grade; only sums and divisions are written
again here, on Python's whole numbers. What repeats from list to list is remembered within fixed bounds: grades, ideals, values
made of counts, and lists with a single graded item. Loops are spelled out where a comprehension would cost more than its turns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Final

import numpy as np

from streammetrics.metrics.checks import check_grade
from streammetrics.metrics.kernels.readers import OF_COUNTS, READERS, Graded, GradeLevel, Ideals, Values, count_reader, discounted, remember
from streammetrics.metrics.plan import Family, ScoringPlan
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import GRADE_BITS, grade_units

GRADED_KEPT_MAX: Final = 8
"""Lists with up to this many graded items have few enough ideals to remember them."""


class LevelCache(dict[float, GradeLevel]):
    """The levels of the grades seen lately. A grade is checked when it is first seen; what breaks the rules is never kept."""

    def __init__(self, plan: ScoringPlan) -> None:
        super().__init__()
        self._plan = plan

    def __missing__(self, grade: float) -> GradeLevel:
        plan = self._plan
        check_grade(grade, plan)
        units = grade_units(np.array([grade], dtype=np.float64))
        gains = plan.gains_of_units(units)
        chance = float(plan.satisfactions(units)[0])
        level = GradeLevel(int(units[0]), int(units[0] >= plan.threshold_units), tuple(int(gains[gain][0]) for gain in plan.gains), chance)
        return remember(self, grade, level)


class SingleList:
    """The one-list path of a plan."""

    def __init__(self, plan: ScoringPlan) -> None:
        self._plan = plan
        self._cutoffs = plan.cutoffs
        self._levels = LevelCache(plan)
        self._discounts: list[int] = plan.discounts.tolist()
        self._ideals: dict[tuple[float, ...], Ideals] = {}
        self._keep_ideals = plan.spec.ideal in ("all", "shown")
        self._has_ideals = bool(plan.ideal_gains)
        self._needs_length = plan.spec.precision_denominator != "k" or plan.spec.ap_denominator == "min(R,n,k)"
        counted = [family for family in plan.families if family.name in OF_COUNTS]
        others = [family for family in plan.families if family.name not in OF_COUNTS]
        self._readers = [READERS[family.name](plan, family, self._discounts) for family in others]
        if counted:
            self._readers.append(count_reader(plan, counted))
        families = [*others, *counted]
        self._placed = [plan.cutoffs[index] for family in families if family.place_columns for index in family.cutoffs]
        self._in_order = _in_order(families)
        self._nothing = [0] * sum(len(family.columns) for family in plan.families)
        self._lone: dict[tuple[int, float, int], Values] = {}

    def score(self, length: int, places: list[int], grades: list[float], unseen: Sequence[float] = ()) -> tuple[int, ...]:
        """The columns of a list of `length` items with these grades at these places (ascending, checked).

        `unseen` are the grades of items that were never shown; they cannot earn anything, so a list without hits has zeros.
        """
        if unseen:
            values = self._read(length, places, grades, unseen) if places else self._checked_nothing(unseen)
        elif len(places) == 1:
            key = places[0], grades[0], length if self._needs_length else 0
            values = self._lone.get(key) or remember(self._lone, key, self._read(length, places, grades, ()))
        else:
            values = self._read(length, places, grades, ()) if places else self._nothing
        if self._placed:
            values = values.copy()
            for k in self._placed:
                values.append(k if k < length else length)
        return self._in_order(values)

    def known(self, length: int, place: int, grade: float) -> tuple[int, ...] | None:
        """The columns of a list with a single graded item, if such a one was scored lately; place and length are checked."""
        values = self._lone.get((place, grade, length if self._needs_length else 0))
        if values is None:
            return None
        return self._in_order([*values, *[k if k < length else length for k in self._placed]] if self._placed else values)

    def _checked_nothing(self, unseen: Sequence[float]) -> Values:
        for grade in unseen:
            self._levels[grade]
        return self._nothing

    def _read(self, length: int, places: list[int], grades: list[float], unseen: Sequence[float]) -> Values:
        known = self._levels.__getitem__
        levels, hits, found, first_rank = list(map(known, grades)), [0], 0, 0
        for place, level in zip(places, levels):  # noqa: B905 (of equal length by construction; the check costs as much as a turn)
            if level[1]:
                found += 1
                first_rank = first_rank or place + 1
            hits.append(found)
        reach = []
        for k in self._cutoffs:
            reach.append(bisect_left(places, k))
        hidden = list(map(known, unseen)) if unseen else []
        relevant = found + sum([level[1] for level in hidden]) if hidden else found
        ideals = {}
        if self._has_ideals:
            known_ideals = None if hidden else self._ideals.get(tuple(grades))
            ideals = known_ideals or self._made_ideals(grades, levels, hidden, reach)
        graded = Graded(length, places, levels, reach, hits, first_rank, relevant, ideals)
        values: Values = []
        for read in self._readers:
            read(graded, values)
        return values

    def _made_ideals(
        self, grades: Sequence[float], levels: Sequence[GradeLevel], hidden: Sequence[GradeLevel], reach: Sequence[int]
    ) -> Ideals:
        ideals = self._ideals_of(levels, hidden, reach)
        keep = self._keep_ideals and not hidden and len(grades) <= GRADED_KEPT_MAX
        return remember(self._ideals, tuple(grades), ideals) if keep else ideals

    def _ideals_of(self, levels: Sequence[GradeLevel], hidden: Sequence[GradeLevel], reach: Sequence[int]) -> Ideals:
        """Per gain, the ideal DCG at each cut-off, as a double that can be divided by."""
        plan, cutoffs = self._plan, [min(k, self._plan.depth) for k in self._cutoffs]
        ideals: Ideals = {}
        for at, gain in enumerate(plan.gains):
            if gain not in plan.ideal_gains:
                continue
            if plan.spec.ideal == "full":
                ideals[gain] = [float(max(plan.best[k], 1)) for k in cutoffs]
            elif plan.spec.ideal == "first_k":
                ideals[gain] = [self._best(levels[:m], gain, at, [k])[0] for m, k in zip(reach, cutoffs, strict=True)]
            else:
                ideals[gain] = self._best([*levels, *hidden] if plan.spec.ideal == "all" else levels, gain, at, cutoffs)
        return ideals

    def _best(self, levels: Sequence[GradeLevel], gain: Gain, at: int, cutoffs: Sequence[int]) -> list[float]:
        """The DCG of these grades in their best order at each cut-off; a table may give a greater grade a lesser gain."""
        by_gain = (lambda level: level[2][at]) if isinstance(gain, tuple) else None
        best_first = sorted(levels, key=by_gain, reverse=True)
        ranks = range(min(len(best_first), self._plan.depth))
        running = discounted(best_first, ranks, self._discounts, at)
        return [float(max(running[min(k, len(ranks))] >> GRADE_BITS, 1)) for k in cutoffs]


def _in_order(families: Sequence[Family]) -> Callable[[Values], tuple[int, ...]]:
    """Values come family by family, then the places; columns stand in the order that was asked for."""
    made = [column for family in families for column in family.columns]
    made += [column for family in families for column in family.place_columns]
    source = [made.index(column) for column in range(len(made))]
    if source == list(range(len(source))):
        return tuple
    return itemgetter(*source)
