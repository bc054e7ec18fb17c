"""The formula of each metric. Formulas read ListFacts and return integers per list.

Notation: DCG@k = sum of gain / discount over ranks i <= k; h relevant items among the first k; R relevant items in all; n items
shown. Each division divides two doubles and is rounded once to units of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from streammetrics.metrics.arrays import Bools, Floats, Ints, Numbers
from streammetrics.metrics.kernel.facts import ListFacts
from streammetrics.metrics.plan import WHOLE, Family, gain_of
from streammetrics.metrics.records import SUM_BITS, VALUE_BITS
from streammetrics.metrics.units import AP_BITS, DISCOUNT_BITS, GRADE_BITS, RBP_BITS, VALUE_ONE, shift_half_even

Formula: TypeAlias = Callable[[ListFacts, Family], Numbers]

_NOTHING: Final = 2.0**-60
"""Added to denominators: too small to change a double >= 1, and turns 0 / 0 into 0."""


def shares(numerators: Ints, denominators: Ints, scale: float = VALUE_ONE) -> Floats:
    """numerators / denominators, rounded half to even to units of a value; 0 / 0 is 0."""
    ratio: Floats = np.divide(numerators, denominators + _NOTHING, dtype=np.float64)
    ratio *= scale
    return np.rint(ratio, out=ratio)


def _rows(array: Ints, family: Family) -> Ints:
    """The rows of a family's cut-offs; not copied if it has all of them."""
    return array if family.in_order else array[list(family.cutoffs)]


def _ndcg(facts: ListFacts, family: Family) -> Numbers:
    """DCG@k / ideal DCG@k (Jarvelin and Kekalainen 2002; with gain 2**g - 1 Burges et al. 2005)."""
    gain = gain_of(family.name, facts.plan.spec)
    return shares(_rows(facts.weighted[gain], family), _rows(facts.ideal[gain], family))


def _dcg(facts: ListFacts, family: Family) -> Numbers:
    """DCG@k, the sum of gain / discount over ranks i <= k (Jarvelin and Kekalainen 2002)."""
    return shift_half_even(_rows(facts.weighted[gain_of(family.name, facts.plan.spec)], family), DISCOUNT_BITS - SUM_BITS)


def _cg(facts: ListFacts, family: Family) -> Numbers:
    """CG@k, the sum of gains over ranks i <= k (Jarvelin and Kekalainen 2002)."""
    return shift_half_even(_rows(facts.gain_sums, family), GRADE_BITS - SUM_BITS)


def _mrr(facts: ListFacts, family: Family) -> Numbers:
    """1 / first relevant rank if that is <= k (Voorhees 1999)."""
    return facts.plan.reciprocals.take(facts.first_rank) * (facts.first_rank <= family.ks)


def _hit_rate(facts: ListFacts, family: Family) -> Numbers:
    """1 if the first relevant rank is <= k (Deshpande and Karypis 2004)."""
    return (np.minimum(facts.first_rank, 1) << VALUE_BITS) * (facts.first_rank <= family.ks)


def _item_hits(facts: ListFacts, family: Family) -> Numbers:
    """h, the numerator of item_hit_rate."""
    return _rows(facts.hits, family)


def _precision_denominators(facts: ListFacts, family: Family) -> Numbers:
    ks = family.ks
    return ks if facts.plan.spec.precision_denominator == "k" else np.minimum(facts.lengths, ks)


def _recall_denominators(facts: ListFacts, family: Family) -> Numbers:
    relevant = facts.relevant
    return relevant[None, :] if facts.plan.spec.recall_denominator == "R" else np.minimum(relevant, family.ks)


def _precision(facts: ListFacts, family: Family) -> Numbers:
    """h / k, or h / min(n, k) (van Rijsbergen 1979)."""
    return shares(_rows(facts.hits, family), _precision_denominators(facts, family))


def _recall(facts: ListFacts, family: Family) -> Numbers:
    """h / R, or h / min(R, k) (van Rijsbergen 1979)."""
    return shares(_rows(facts.hits, family), _recall_denominators(facts, family))


def _f1(facts: ListFacts, family: Family) -> Numbers:
    """2 h / (p + r), the harmonic mean of precision h / p and recall h / r (van Rijsbergen 1979)."""
    below = _precision_denominators(facts, family) + _recall_denominators(facts, family)
    return shares(2 * _rows(facts.hits, family), below)


def _r_precision(facts: ListFacts, family: Family) -> Numbers:
    """Relevant items among the first R, divided by R (Buckley and Voorhees 2000)."""
    return shares(facts.hits_at_relevant, facts.relevant)[None, :]


def _map(facts: ListFacts, family: Family) -> Numbers:
    """Average precision: the sum of precisions at relevant ranks i <= k, over the Spec's denominator (Buckley and Voorhees 2000)."""
    ks, relevant = family.ks, facts.relevant
    match facts.plan.spec.ap_denominator:
        case "min(R,k)":
            below = np.minimum(relevant, ks)
        case "R":
            below = relevant[None, :]
        case "k":
            below = ks
        case "hits":
            below = _rows(facts.hits, family)
        case "min(R,n,k)":
            below = np.minimum(np.minimum(relevant, facts.lengths), ks)
    return shares(_rows(facts.precision_sums, family), below, 2.0 ** (VALUE_BITS - AP_BITS))


def _rbp(facts: ListFacts, family: Family) -> Numbers:
    """(1 - p) x the sum of p**(i - 1) over relevant ranks i <= k (Moffat and Zobel 2008)."""
    return shift_half_even(_rows(facts.persistence_sums, family), RBP_BITS - VALUE_BITS)


def _err(facts: ListFacts, family: Family) -> Numbers:
    """The sum over ranks i <= k of P(user stops at i) / i (Chapelle et al. 2009)."""
    return shift_half_even(_rows(facts.satisfaction_sums, family), AP_BITS - VALUE_BITS)


FORMULAS: Final[Mapping[str, Formula]] = {
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "dcg": _dcg,
    "dcg_exp": _dcg,
    "cg": _cg,
    "mrr": _mrr,
    "hit_rate": _hit_rate,
    "item_hit_rate": _item_hits,
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "map": _map,
    "r_precision": _r_precision,
    "rbp": _rbp,
    "err": _err,
}
"""The formula of each metric: facts -> integers, shape (cutoffs of the family, lists)."""


def columns_of_facts(facts: ListFacts) -> Ints:
    """All columns of the plan for these lists: int64, shape (columns, lists)."""
    out = np.empty((len(facts.plan.columns), facts.lengths.size), dtype=np.int64)
    for family in facts.plan.families:
        out[list(family.columns)] = FORMULAS[family.name](facts, family)
        for index, column in zip(family.cutoffs, family.place_columns, strict=False):
            out[column] = np.minimum(facts.lengths, facts.plan.cutoffs[index])
    return out


def defined(facts: ListFacts) -> Bools:
    """Which lists define each `sum` column, in the order of the columns: booleans, shape (columns of kind sum, lists).

    A list defines an NDCG if its ideal is above 0, `err` if some grade is above 0, and sums such as dcg and cg always. It defines all other
    metrics, and an NDCG with a `full` ideal, if it has a relevant item.
    """
    rows = []
    for column in (column for column in facts.plan.columns if column.kind == "sum"):
        name, k, record = column.metric.name, column.metric.k or WHOLE, column.metric.record
        if record.plain_gain and facts.plan.spec.ideal != "full":
            rows.append(facts.ideal[gain_of(name, facts.plan.spec)][facts.plan.cutoffs.index(k)] > 0)
        elif record.gain == "satisfaction":
            rows.append(facts.graded)
        elif record.ceiling is None:
            rows.append(np.ones(facts.lengths.size, dtype=np.bool_))
        else:
            rows.append(facts.relevant > 0)
    return np.stack(rows) if rows else np.zeros((0, facts.lengths.size), dtype=np.bool_)
