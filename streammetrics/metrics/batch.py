"""Many lists at once, from sparse hits. Vectorised: no Python loop over lists or hits, memory in proportion to both.

Hits arrive sorted by list, then position. Every quantity is a running sum over the hits, read at the borders of the lists:
one pass serves all cut-offs. Running sums may wrap around; differences of them do not, because each list's own sum fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

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
    Floats,
    Ints,
    carry,
    grade_units,
    shift_half_even,
    weigh,
)

BLOCK_HITS: Final = 16_384
BLOCK_LISTS: Final = 8_192
"""Lists are scored in blocks of about this many hits and lists, so that running sums stay in the cache."""

SMALL_GRADE_MAX: Final = 15
"""Whole grades up to here use tables that are built once."""

TABLE_CELLS_MAX: Final = 65_536
"""A table of grade x rank products may have this many cells; beyond it products are computed hit by hit."""


class Levels:
    """The distinct grades of a call, ascending, and what each of them earns: every hit carries an index into these."""

    def __init__(self, plan: Plan, units: Ints) -> None:
        self.count = units.size
        self.relevant = (units >= plan.threshold_units).astype(np.int64)
        self.gains: Mapping[Gain, Ints] = gains_by_name({*plan.weighted_gains, plan.spec.gain}, units)
        self._discounts = plan.discounts
        self._width = plan.depth + 1
        self._tables = self._weigh_all(plan) if units.size * self._width <= TABLE_CELLS_MAX else None

    def _weigh_all(self, plan: Plan) -> dict[Gain, tuple[Ints, Ints | None]]:
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


def small_levels(plan: Plan) -> Levels:
    """The levels of whole grades 0..SMALL_GRADE_MAX, or as far as the limits allow."""
    top = min(SMALL_GRADE_MAX, int(plan.grade_max))
    return Levels(plan, np.arange(top + 1, dtype=np.int64) << GRADE_BITS)


def level_codes(plan: Plan, small: Levels, grades: Floats) -> tuple[Levels, Ints]:
    """The levels of these grades, and the index of each grade among them. Grades are checked already."""
    if grades.size == 0 or grades.max() < small.count:
        whole = grades.astype(np.int64)
        if np.array_equal(whole, grades):
            return small, whole
    units, codes = np.unique(grade_units(grades), return_inverse=True)
    return Levels(plan, units), codes.reshape(-1).astype(np.int64, copy=False)


class Hits(NamedTuple):
    """Graded items as parallel arrays, sorted by row, then position; `codes` index into Levels."""

    rows: Ints
    positions: Ints
    codes: Ints


@dataclass(frozen=True)
class Block:
    """Some lists and their hits (rows from 0, sorted by row then position), and every running sum that a metric may read.

    All results have one row a cut-off of the plan and one column a list, unless said otherwise.
    """

    plan: Plan
    levels: Levels
    lengths: Ints
    counts: Ints
    rows: Ints
    positions: Ints
    codes: Ints

    @cached_property
    def ends(self) -> Ints:
        return np.cumsum(self.counts)

    @cached_property
    def starts(self) -> Ints:
        return self.ends - self.counts

    @cached_property
    def ranks(self) -> Ints:
        """Positions, with all that earn nothing folded into one."""
        return np.minimum(self.positions, self.plan.depth)

    @cached_property
    def shown_ends(self) -> Ints:
        """Where the hits among the first k positions end."""
        within = [self._between(_running(self.positions < k), self.ends) for k in self.plan.cutoffs]
        return np.stack(within) + self.starts

    def _between(self, running: Ints, ends: Ints) -> Ints:
        return running[ends] - running[self.starts]

    @cached_property
    def _relevant_running(self) -> Ints:
        return _running(self.levels.relevant[self.codes])

    @cached_property
    def relevant(self) -> Ints:
        """How many items are relevant, at any rank: shape (lists,)."""
        return self._between(self._relevant_running, self.ends)

    @cached_property
    def hits(self) -> Ints:
        """How many of the first k items are relevant."""
        return self._between(self._relevant_running, self.shown_ends)

    @cached_property
    def _relevant_so_far(self) -> Ints:
        """Per hit: its number among its list's relevant hits, counted from 1; 0 for a hit that is not relevant."""
        running = self._relevant_running
        return (running[1:] - running[self.starts][self.rows]) * self.levels.relevant[self.codes]

    @cached_property
    def first_rank(self) -> Ints:
        """The rank (from 1) of the first relevant item, folded at depth + 1; 0 for none. Shape (lists,)."""
        ranks = (self.ranks + 1) * (self._relevant_so_far == 1)
        return self._between(_running(ranks), self.ends)

    @cached_property
    def precision_sums(self) -> Ints:
        """Sum of the precisions at the ranks of the relevant items among the first k, in units of 2**-42."""
        precisions = self._relevant_so_far / (self.positions + 1)
        return self._between(_running(np.rint(precisions * AP_ONE).astype(np.int64)), self.shown_ends)

    @cached_property
    def gain_sums(self) -> Ints:
        """Sum of the gains (by the spec) of the first k items, in units of 2**-40."""
        return self._between(_running(self.levels.gains[self.plan.spec.gain][self.codes]), self.shown_ends)

    @cached_property
    def weighted(self) -> dict[Gain, Ints]:
        """DCG in units of 2**-44."""
        return {gain: self._discounted(gain, self.codes, self.ranks, self.shown_ends) for gain in self.plan.weighted_gains}

    @cached_property
    def ideal(self) -> dict[Gain, Ints]:
        """The DCG of the best order of all graded items, in units of 2**-44."""
        ranks = np.minimum(np.arange(self.rows.size) - self.starts[self.rows], self.plan.depth)
        ends = self.starts + np.minimum(np.array(self.plan.cutoffs)[:, None], self.counts)
        return {gain: self._discounted(gain, self._codes_best_first, ranks, ends) for gain in self.plan.ideal_gains}

    @cached_property
    def _codes_best_first(self) -> Ints:
        """The codes, sorted descending within each list: row and code share one whole number, which sorts fastest."""
        if self.codes.size == 0 or self.codes.min() == self.codes.max():
            return self.codes
        top = self.levels.count - 1
        bits = self.levels.count.bit_length()
        keys = (self.rows << bits) | (top - self.codes)
        keys.sort()
        return top - (keys & ((1 << bits) - 1))

    def _discounted(self, gain: Gain, codes: Ints, ranks: Ints, ends: Ints) -> Ints:
        whole, rest = self.levels.weighted(gain, codes, ranks)
        total = self._between(_running(whole), ends)
        return total if rest is None else carry(total, self._between(_running(rest), ends))


def _running(terms: Ints | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ints:
    """Running sums with a leading zero: shape (n + 1,)."""
    out = np.empty(terms.size + 1, dtype=np.int64)
    out[0] = 0
    np.cumsum(terms, out=out[1:])
    return out


def _value(numerators: Ints, denominators: Ints, scale: float = VALUE_ONE) -> Ints:
    """One division, rounded once to units of a value; 0 where there is nothing to divide by (and so nothing to divide)."""
    ratio = numerators.astype(np.float64) / np.maximum(denominators, 1).astype(np.float64)
    return np.rint(ratio * scale).astype(np.int64)


def _ndcg(block: Block, family: Family) -> Ints:
    gain = gain_of(family.name, block.plan.spec)
    return _value(block.weighted[gain][family.cutoffs, :], block.ideal[gain][family.cutoffs, :])


def _dcg(block: Block, family: Family) -> Ints:
    return shift_half_even(block.weighted[block.plan.spec.gain][family.cutoffs, :], DISCOUNT_BITS - SUM_BITS)


def _cg(block: Block, family: Family) -> Ints:
    return shift_half_even(block.gain_sums[family.cutoffs, :], GRADE_BITS - SUM_BITS)


def _mrr(block: Block, family: Family) -> Ints:
    reached = (block.first_rank > 0) & (block.first_rank <= _ks(block, family))
    return np.where(reached, _value(np.ones_like(block.first_rank), block.first_rank), 0)


def _hit_rate(block: Block, family: Family) -> Ints:
    return (block.hits[family.cutoffs, :] > 0).astype(np.int64) << VALUE_BITS


def _item_hits(block: Block, family: Family) -> Ints:
    return block.hits[family.cutoffs, :]


def _precision(block: Block, family: Family) -> Ints:
    return _value(block.hits[family.cutoffs, :], _ks(block, family))


def _recall(block: Block, family: Family) -> Ints:
    return _value(block.hits[family.cutoffs, :], block.relevant)


def _map(block: Block, family: Family) -> Ints:
    most = np.minimum(block.relevant, _ks(block, family))
    return _value(block.precision_sums[family.cutoffs, :], most, 2.0 ** (VALUE_BITS - AP_BITS))


def _ks(block: Block, family: Family) -> Ints:
    return np.array([block.plan.cutoffs[index] for index in family.cutoffs], dtype=np.int64)[:, None]


FAMILIES: Final[Mapping[str, Callable[[Block, Family], Ints]]] = {
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "dcg": _dcg,
    "cg": _cg,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
    "item_hit_rate": _item_hits,
    "precision": _precision,
    "recall": _recall,
    "map": _map,
}
"""How each metric reads a block: one row of integers a cut-off of the family."""


def score_sorted(plan: Plan, levels: Levels, lengths: Ints, hits: Hits) -> Ints:
    """Score lists from hits that are checked and sorted. Returns int64 of shape (lists, columns)."""
    counts = np.bincount(hits.rows, minlength=lengths.size)
    ends = np.cumsum(counts)
    out = np.empty((lengths.size, len(plan.columns)), dtype=np.int64)
    low = first = 0
    while low < lengths.size:
        high = min(low + BLOCK_LISTS, max(low + 1, int(np.searchsorted(ends, first + BLOCK_HITS, side="right"))))
        last = int(ends[high - 1])
        mine = slice(first, last)
        own = Hits(hits.rows[mine] - low, hits.positions[mine], hits.codes[mine])
        block = Block(plan, levels, lengths[low:high], counts[low:high], *own)
        out[low:high] = _score_block(block).T
        low, first = high, last
    return out


def _score_block(block: Block) -> Ints:
    """Shape (columns, lists): written row by row, contiguously."""
    out = np.empty((len(block.plan.columns), block.lengths.size), dtype=np.int64)
    for family in block.plan.families:
        out[family.columns, :] = FAMILIES[family.name](block, family)
        if family.place_columns:
            out[family.place_columns, :] = np.minimum(_ks(block, family), block.lengths)
    return out
