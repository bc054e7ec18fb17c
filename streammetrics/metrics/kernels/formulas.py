"""How each metric reads what is known of some lists: one formula a metric, for every vectorised path.

With DCG@k = sum of gain / discount over ranks i <= k, h relevant items among the first k, R relevant items in all, n items shown.
All divisions are one division of two doubles, rounded once to units of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Floats, Ints, Numbers
from streammetrics.metrics.plan import WHOLE, Family, ScoringPlan, gain_of
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.units import AP_BITS, DISCOUNT_BITS, GRADE_BITS, RBP_BITS, SUM_BITS, VALUE_BITS, VALUE_ONE, shift_half_even


class ListFacts(Protocol):
    """Some lists. Every array has one row a cut-off of the plan and one column a list, unless said otherwise."""

    @property
    def plan(self) -> ScoringPlan: ...
    @property
    def lengths(self) -> Ints:
        """Items shown: shape (lists,)."""

    @property
    def graded(self) -> npt.NDArray[np.bool_]:
        """Whether some item, shown or not, has a grade above 0: shape (lists,)."""

    @property
    def relevant(self) -> Numbers:
        """How many items are relevant, at any rank or never shown: shape (lists,)."""

    @property
    def hits(self) -> Numbers:
        """How many of the first k items are relevant."""

    @property
    def hits_at_relevant(self) -> Numbers:
        """How many of the first R items are relevant: shape (lists,)."""

    @property
    def first_rank(self) -> Numbers:
        """The rank (from 1) of the first relevant item, depth + 1 if it comes later; 0 for none. Shape (lists,)."""

    def sums_by_first_rank(self, name: str) -> list[int]:
        """The sum over lists of each row that `ScoringPlan.by_first_rank` has for this metric: int64 holds that of 2**22 lists."""

    @property
    def precision_sums(self) -> Numbers:
        """Sum of the precisions at the ranks of the relevant items among the first k, in units of 2**-42."""

    @property
    def gain_sums(self) -> Numbers:
        """Sum of the gains (by the spec) of the first k items, in units of 2**-40."""

    @property
    def weighted(self) -> Mapping[Gain, Numbers]:
        """DCG in units of 2**-44."""

    @property
    def ideal(self) -> Mapping[Gain, Numbers]:
        """The DCG of the best order of what the spec counts, in units of 2**-44."""

    @property
    def persistence_sums(self) -> Numbers:
        """Sum of the weights of the relevant items among the first k, in units of 2**-52."""

    @property
    def satisfaction_sums(self) -> Numbers:
        """Sum of the chances to stop at a rank, over that rank, among the first k, in units of 2**-42."""


Formula: TypeAlias = Callable[[ListFacts, Family], Numbers]

_NOTHING: Final = 2.0**-60
"""Leaves whole numbers from 1 on as they are when it is added to them as doubles, and makes 0 something that divides 0."""


def shares(numerators: Numbers, denominators: Numbers, scale: float = VALUE_ONE) -> Floats:
    """One division, rounded once to units of a value; 0 where there is nothing to divide by (and so nothing to divide)."""
    below = np.add(denominators, _NOTHING, dtype=np.float64)
    ratio = np.divide(numerators, below, dtype=np.float64)
    ratio *= scale
    return np.rint(ratio, out=ratio)


def _shifted(sums: Numbers, bits: int) -> Numbers:
    """Sums in units coarser by 2**bits, half to even."""
    return np.rint(sums * 2.0**-bits) if sums.dtype.kind == "f" else shift_half_even(sums.astype(np.int64, copy=False), bits)


def _rows(array: Numbers, family: Family) -> Numbers:
    """The cut-offs of a family; without a copy where it has all of them."""
    return array if family.in_order else array[list(family.cutoffs)]


def _least(counts: Numbers, bounds: Numbers) -> Numbers:
    return np.minimum(counts, bounds)


def _ndcg(facts: ListFacts, family: Family) -> Numbers:
    gain = gain_of(family.name, facts.plan.spec)
    return shares(_rows(facts.weighted[gain], family), _rows(facts.ideal[gain], family))


def _dcg(facts: ListFacts, family: Family) -> Numbers:
    return _shifted(_rows(facts.weighted[gain_of(family.name, facts.plan.spec)], family), DISCOUNT_BITS - SUM_BITS)


def _cg(facts: ListFacts, family: Family) -> Numbers:
    return _shifted(_rows(facts.gain_sums, family), GRADE_BITS - SUM_BITS)


def _by_first_rank(facts: ListFacts, family: Family) -> Numbers:
    return facts.plan.by_first_rank[family.name].take(facts.first_rank, axis=1)


def _item_hits(facts: ListFacts, family: Family) -> Numbers:
    return _rows(facts.hits, family)


def _precision_denominators(facts: ListFacts, family: Family) -> Numbers:
    ks = family.ks
    return ks if facts.plan.spec.precision_denominator == "k" else np.minimum(facts.lengths, ks)


def _recall_denominators(facts: ListFacts, family: Family) -> Numbers:
    relevant = facts.relevant
    return relevant[None, :] if facts.plan.spec.recall_denominator == "R" else np.minimum(relevant, family.ks)


def _precision(facts: ListFacts, family: Family) -> Numbers:
    return shares(_rows(facts.hits, family), _precision_denominators(facts, family))


def _recall(facts: ListFacts, family: Family) -> Numbers:
    return shares(_rows(facts.hits, family), _recall_denominators(facts, family))


def _f1(facts: ListFacts, family: Family) -> Numbers:
    """2PR / (P + R) with P = h / p and R = h / r is 2h / (p + r)."""
    below = _precision_denominators(facts, family) + _recall_denominators(facts, family).astype(np.int64)
    return shares(2 * _rows(facts.hits, family).astype(np.int64), below)


def _r_precision(facts: ListFacts, family: Family) -> Numbers:
    return shares(facts.hits_at_relevant, facts.relevant)[None, :]


def _map(facts: ListFacts, family: Family) -> Numbers:
    ks, relevant = family.ks, facts.relevant
    match facts.plan.spec.ap_denominator:
        case "min(R,k)":
            below = _least(relevant, ks)
        case "R":
            below = relevant[None, :]
        case "k":
            below = ks
        case "hits":
            below = _rows(facts.hits, family)
        case "min(R,n,k)":
            below = _least(_least(relevant, facts.lengths), ks)
    return shares(_rows(facts.precision_sums, family), below, 2.0 ** (VALUE_BITS - AP_BITS))


def _rbp(facts: ListFacts, family: Family) -> Numbers:
    return _shifted(_rows(facts.persistence_sums, family), RBP_BITS - VALUE_BITS)


def _err(facts: ListFacts, family: Family) -> Numbers:
    return _shifted(_rows(facts.satisfaction_sums, family), AP_BITS - VALUE_BITS)


READINGS: Final[Mapping[str, Formula]] = {
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "dcg": _dcg,
    "dcg_exp": _dcg,
    "cg": _cg,
    "mrr": _by_first_rank,
    "hit_rate": _by_first_rank,
    "item_hit_rate": _item_hits,
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "map": _map,
    "r_precision": _r_precision,
    "rbp": _rbp,
    "err": _err,
}
"""How each metric reads facts: one row of whole numbers a cut-off of the family."""


def rows_of_family(facts: ListFacts, family: Family) -> Iterator[tuple[int, Numbers]]:
    """The columns of a family for these lists, in the order in which they are found: where each belongs, and its numbers."""
    yield from zip(family.columns, READINGS[family.name](facts, family), strict=True)
    for index, column in zip(family.cutoffs, family.place_columns, strict=False):
        yield column, np.minimum(facts.lengths, facts.plan.cutoffs[index])


def columns_of_facts(facts: ListFacts) -> Ints:
    """The columns of the plan for these lists: int64, shape (columns, lists), written row by row."""
    out = np.empty((len(facts.plan.columns), facts.lengths.size), dtype=np.int64)
    for family in facts.plan.families:
        for column, row in rows_of_family(facts, family):
            out[column] = row
    return out


def defined(facts: ListFacts) -> Numbers:
    """Which lists each `sum` column is defined by, in the order of the columns: booleans, shape (columns of kind sum, lists).

    An NDCG by an ideal above 0, err by some grade above 0, sums (dcg, cg) by any list, all others by a relevant item, and so an NDCG
    whose ideal is full whatever there is.
    """
    rows = []
    for column in (column for column in facts.plan.columns if column.kind == "sum"):
        name, k = column.metric.name, column.metric.k or WHOLE
        if name in ("ndcg", "ndcg_exp") and facts.plan.spec.ideal != "full":
            rows.append(facts.ideal[gain_of(name, facts.plan.spec)][facts.plan.cutoffs.index(k)] > 0)
        elif name == "err":
            rows.append(facts.graded)
        elif name in ("dcg", "dcg_exp", "cg"):
            rows.append(np.ones(facts.lengths.size, dtype=np.bool_))
        else:
            rows.append(facts.relevant > 0)
    return np.stack(rows) if rows else np.zeros((0, facts.lengths.size), dtype=np.bool_)
