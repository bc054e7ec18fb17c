"""Grade levels: the distinct grades of a call and their gains. Each graded item carries an index (code) into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.plan import ScoringPlan
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import GRADE_BITS, grade_units, weigh

SMALL_GRADE_MAX: Final = 15
"""Whole grades up to this one use tables that are built once per scorer."""

TABLE_CELLS_MAX: Final = 65_536
"""Maximum cells of a table of grade x rank products. Larger ones are computed per hit instead."""


class Levels:
    """The distinct grades of a call, ascending, with their gains. Arrays have one entry per level."""

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
        """gain x discount of hits with these codes at these ranks (from 0, at most depth), in the two parts of `units.weigh`."""
        if self._tables is None:
            return weigh(self.gains[gain][codes], self._discounts[ranks])
        whole, rest = self._tables[gain]
        cells = codes * self._width + ranks
        return whole[cells], (None if rest is None else rest[cells])

    def by_gain(self, gain: Gain) -> tuple[Ints, Ints] | None:
        """The place of each level in the order of gains, and the level at each place. None if gains ascend with grades.

        Only a gain table can give a higher grade a lower gain.
        """
        gains = self.gains[gain]
        if not isinstance(gain, tuple) or (gains[1:] >= gains[:-1]).all():
            return None
        level_at = np.argsort(gains, kind="stable")
        return np.argsort(level_at), level_at


def small_levels(plan: ScoringPlan) -> Levels:
    """The levels of the whole grades 0..SMALL_GRADE_MAX, or up to grade_max if that is lower."""
    top = min(SMALL_GRADE_MAX, int(plan.grade_max))
    return Levels(plan, np.arange(top + 1, dtype=np.int64) << GRADE_BITS)


def level_codes(plan: ScoringPlan, small: Levels, grades: Floats) -> tuple[Levels, Ints]:
    """The levels of these grades, and the code of each grade. The grades must be valid."""
    if grades.size == 0 or grades.max() < small.count:
        whole = grades.astype(np.int64)
        if np.array_equal(whole, grades):
            return small, whole
    units, codes = np.unique(grade_units(grades), return_inverse=True)
    return Levels(plan, units), codes.reshape(-1).astype(np.int64, copy=False)
