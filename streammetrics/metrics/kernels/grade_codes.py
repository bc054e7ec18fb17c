"""The distinct grades of a call and what each of them earns: every graded item carries an index into these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.plan import ScoringPlan
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import GRADE_BITS, grade_units, weigh

SMALL_GRADE_MAX: Final = 15
"""Whole grades up to here use tables that are built once."""

TABLE_CELLS_MAX: Final = 65_536
"""A table of grade x rank products may have this many cells; beyond it products are computed hit by hit."""


class Levels:
    """The distinct grades of a call, ascending, and what each of them earns."""

    def __init__(self, plan: ScoringPlan, units: Ints) -> None:
        self.count = units.size
        self.above_zero = (units > 0).astype(np.int64)
        self.relevant = (units >= plan.threshold_units).astype(np.int64)
        self.gains: Mapping[Gain, Ints] = plan.gains_of_units(units)
        self.satisfactions = plan.satisfactions(units)
        self._discounts = plan.discounts
        self._width = plan.depth + 1
        self._tables = self._weigh_all(plan) if units.size * self._width <= TABLE_CELLS_MAX else None

    def _weigh_all(self, plan: ScoringPlan) -> dict[Gain, tuple[Ints, Ints | None]]:
        tables: dict[Gain, tuple[Ints, Ints | None]] = {}
        for gain in plan.weighted_gains:
            whole, rest = weigh(self.gains[gain][:, None], self._discounts[None, :])
            tables[gain] = whole.ravel(), (rest.ravel() if rest.any() else None)
        return tables

    def weighted(self, gain: Gain, codes: Ints, ranks: Ints) -> tuple[Ints, Ints | None]:
        """gain x discount of hits of these grades at these ranks (from 0, at most depth), as `units.weigh` gives it."""
        if self._tables is None:
            return weigh(self.gains[gain][codes], self._discounts[ranks])
        whole, rest = self._tables[gain]
        cells = codes * self._width + ranks
        return whole[cells], (None if rest is None else rest[cells])

    def by_gain(self, gain: Gain) -> tuple[Ints, Ints] | None:
        """Where each level stands when levels are sorted by gain, and the level at each such place; None where both are the same.

        Greater grades earn at least as much under every law but a table that says otherwise.
        """
        gains = self.gains[gain]
        if not isinstance(gain, tuple) or (gains[1:] >= gains[:-1]).all():
            return None
        level_at = np.argsort(gains, kind="stable")
        return np.argsort(level_at), level_at


def small_levels(plan: ScoringPlan) -> Levels:
    """The levels of whole grades 0..SMALL_GRADE_MAX, or as far as the limits allow."""
    top = min(SMALL_GRADE_MAX, int(plan.grade_max))
    return Levels(plan, np.arange(top + 1, dtype=np.int64) << GRADE_BITS)


def level_codes(plan: ScoringPlan, small: Levels, grades: Floats) -> tuple[Levels, Ints]:
    """The levels of these grades, and the index of each grade among them. Grades are checked already."""
    if grades.size == 0 or grades.max() < small.count:
        whole = grades.astype(np.int64)
        if np.array_equal(whole, grades):
            return small, whole
    units, codes = np.unique(grade_units(grades), return_inverse=True)
    return Levels(plan, units), codes.reshape(-1).astype(np.int64, copy=False)
