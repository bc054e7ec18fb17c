"""The metrics that only `evaluate` computes, from judged lists: judged@k, bpref, interpolated precision, F-beta, counts.

Values are integers per list, rounded once, in the units of `Scorer`'s values; counts are whole numbers. Notation: n items shown, h
relevant items among the first k (without a cut-off: among all shown), R relevant items in all, N judged items that are not relevant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.metrics.arrays import Bools, Floats, Ints
from streammetrics.metrics.names import Metric, MetricError
from streammetrics.metrics.spec import Spec
from streammetrics.metrics.units import VALUE_BITS, VALUE_ONE
from streammetrics.offline.inputs.judged import Judged
from streammetrics.offline.inputs.ranking import GradedZero

Aggregate: TypeAlias = Literal["mean", "total", "geometric"]

AGGREGATES: Final[Mapping[str, Aggregate]] = {
    "num_q": "total",
    "num_ret": "total",
    "num_rel": "total",
    "num_rel_ret": "total",
    "gm_map": "geometric",
}
"""How the values of lists become one number, for metrics that are no means."""

GEOMETRIC_LEAST: Final = 1e-5
"""Values below this count as this in a geometric mean, as in trec_eval."""

COUNTS: Final = ("hits", "num_q", "num_ret", "num_rel", "num_rel_ret")
"""The metrics that are whole numbers per list."""

_ALWAYS_DEFINED: Final = (*COUNTS, "judged", "unjudged", "set_precision")
_LEVELS: Final = tuple(level / 10 for level in range(11))


class JudgedCounts:
    """What the metrics of this module read from judged lists. Arrays have shape (L,) unless a property says otherwise."""

    def __init__(self, judged: Judged, spec: Spec) -> None:
        self.judged = judged
        self.spec = spec
        self.relevant_hit = judged.grades >= spec.relevance_threshold
        """Whether each graded shown item is relevant, shape (H,)."""

    @cached_property
    def relevant(self) -> Ints:
        """R."""
        unseen = self.judged.unseen_grades >= self.spec.relevance_threshold
        return self.shown_relevant + self._per_list(self.judged.unseen_rows[unseen])

    @cached_property
    def shown_relevant(self) -> Ints:
        """The number of relevant items shown."""
        return self._per_list(self.judged.rows[self.relevant_hit])

    def hits(self, k: int) -> Ints:
        """h at a cut-off."""
        return self._per_list(self.judged.rows[self.relevant_hit & (self.judged.positions < k)])

    def judged_among(self, k: int) -> Ints:
        """The number of judged items among the first k."""
        zeros = self.zeros
        graded = self._per_list(self.judged.rows[self.judged.positions < k])
        return graded + self._per_list(zeros.rows[zeros.positions < k])

    @property
    def zeros(self) -> GradedZero:
        """The judged items of grade 0. Raises MetricError if they are unknown."""
        if self.judged.zeros is None:
            raise MetricError(
                "metric", "got one that needs judgments of grade 0; allowed is input with them, as from_run or from_trec read"
            )
        return self.judged.zeros

    @cached_property
    def bpref(self) -> Floats:
        """The sum over relevant shown items of 1 - min(c, R) / min(N, R), over R, with c judged irrelevant items before it."""
        lists, hits, zeros = self.judged, self.relevant_hit, self.zeros
        low = lists.unseen_grades < self.spec.relevance_threshold
        irrelevant = zeros.unseen + self._per_list(zeros.rows) + self._per_list(lists.rows[~hits]) + self._per_list(lists.unseen_rows[low])
        rows, positions = np.concatenate((lists.rows, zeros.rows)), np.concatenate((lists.positions, zeros.positions))
        wrong = np.concatenate((~hits, np.ones(zeros.rows.size, dtype=np.bool_)))
        order = np.lexsort((positions, rows))
        rows, wrong = rows[order], wrong[order]
        running = np.concatenate(([0], np.cumsum(wrong)))
        starts = np.searchsorted(rows, np.arange(len(lists)))
        right = ~wrong
        mine = rows[right]
        before = running[:-1][right] - running[starts[mine]]
        most = np.minimum(irrelevant, self.relevant)[mine]
        lost = np.where(before > 0, np.minimum(before, self.relevant[mine]) / np.maximum(most, 1), 0.0)
        return _share(np.bincount(mine, weights=1.0 - lost, minlength=len(lists)), self.relevant)

    @cached_property
    def _best_from(self) -> list[Floats]:
        """Per list, for its relevant shown items in rank order: the greatest precision at this or a later one."""
        lists, hits = self.judged, self.relevant_hit
        order = np.lexsort((lists.positions[hits], lists.rows[hits]))
        ranks = np.split(lists.positions[hits][order] + 1, np.cumsum(self.shown_relevant)[:-1]) if len(lists) else []
        return [np.maximum.accumulate((np.arange(1, one.size + 1) / one)[::-1])[::-1] for one in ranks]

    def interpolated(self, least: Ints) -> Floats:
        """The greatest precision at any rank with so many relevant items, at least 1; 0 if the list has fewer."""
        pairs = zip(self._best_from, least.clip(1).tolist(), strict=True)
        return np.array([best[at - 1] if at <= best.size else 0.0 for best, at in pairs], dtype=np.float64)

    def reaching(self, level: float) -> Ints:
        """How many relevant items have at least this recall. The level counts as the decimal number that it is written as."""
        share = Fraction(repr(level))
        return np.array([-(-share.numerator * count // share.denominator) for count in self.relevant.tolist()], dtype=np.int64)

    def nearest(self, level: float) -> Ints:
        """The number of relevant items nearest to this recall, halves up: trec_eval's rule since version 10."""
        product = level * self.relevant
        whole = product.astype(np.int64)
        nearest: Ints = whole + (product - whole >= 0.5)
        return nearest

    def f_measure(self, hits: Ints, shown: Ints, relevant: Ints, beta: float) -> Floats:
        """(1 + b^2) P R / (b^2 P + R) with P = hits / shown and R = hits / relevant."""
        return _share((1 + beta**2) * hits, beta**2 * relevant + shown)

    def f_beta(self, k: int, beta: float) -> Floats:
        """F-beta at a cut-off, with the Spec's denominators of precision and recall."""
        shown = np.full(len(self.judged), k) if self.spec.precision_denominator == "k" else np.minimum(self.judged.lengths, k)
        relevant = self.relevant if self.spec.recall_denominator == "R" else np.minimum(self.relevant, k)
        return self.f_measure(self.hits(k), shown, relevant, beta)

    def _per_list(self, rows: Ints) -> Ints:
        return np.bincount(rows, minlength=len(self.judged))


def _share(above: npt.ArrayLike, below: npt.ArrayLike) -> Floats:
    """above / below, and 0 where `below` is 0."""
    numbers = np.asarray(above, dtype=np.float64)
    return np.divide(numbers, below, out=np.zeros(numbers.size), where=np.asarray(below) > 0)


def _eleven_points(counts: JudgedCounts, least: Callable[[float], Ints]) -> Floats:
    total: Floats = np.sum([counts.interpolated(least(level)) for level in _LEVELS], axis=0) / len(_LEVELS)
    return total


def _parameter(metric: Metric) -> float:
    assert metric.parameter is not None
    return metric.parameter


FORMULAS: Final[Mapping[str, Callable[[JudgedCounts, Metric], Floats | Ints]]] = {
    "f_beta": lambda counts, metric: counts.f_beta(metric.k, _parameter(metric)),
    "hits": lambda counts, metric: counts.hits(metric.k),
    "judged": lambda counts, metric: counts.judged_among(metric.k) / metric.k,
    "unjudged": lambda counts, metric: (np.minimum(counts.judged.lengths, metric.k) - counts.judged_among(metric.k)) / metric.k,
    "bpref": lambda counts, _: counts.bpref,
    "iprec": lambda counts, metric: counts.interpolated(counts.reaching(_parameter(metric))),
    "iprec_mean": lambda counts, _: _eleven_points(counts, counts.reaching),
    "iprec_at_recall": lambda counts, metric: counts.interpolated(counts.nearest(_parameter(metric))),
    "11pt_avg": lambda counts, _: _eleven_points(counts, counts.nearest),
    "set_precision": lambda counts, _: _share(counts.shown_relevant, counts.judged.lengths),
    "set_recall": lambda counts, _: _share(counts.shown_relevant, counts.relevant),
    "set_f": lambda counts, metric: counts.f_measure(counts.shown_relevant, counts.judged.lengths, counts.relevant, _parameter(metric)),
    "set_map": lambda counts, _: _share(counts.shown_relevant.astype(np.float64) ** 2, counts.judged.lengths * counts.relevant),
    "num_q": lambda counts, _: np.ones(len(counts.judged), dtype=np.int64),
    "num_ret": lambda counts, _: counts.judged.lengths,
    "num_rel": lambda counts, _: counts.relevant,
    "num_rel_ret": lambda counts, _: counts.shown_relevant,
}
"""The value of each list. `gm_map` is missing: its values are those of `map`."""


def scale_bits(metric: Metric) -> int:
    """The unit of a metric's integers: whole numbers for counts, otherwise 2**-40."""
    return 0 if metric.name in COUNTS else VALUE_BITS


def values_of(counts: JudgedCounts, metric: Metric) -> Ints:
    """The integers of one metric, shape (L,). Raises MetricError if the judgments do not tell judged items from others."""
    values = FORMULAS[metric.name](counts, metric)
    return values.astype(np.int64) if metric.name in COUNTS else np.rint(values * VALUE_ONE).astype(np.int64)


def defined_by(counts: JudgedCounts, metric: Metric) -> Bools:
    """Which lists define the metric, shape (L,): all for counts, shares of judged items and set precision, else those with R > 0."""
    return np.ones(len(counts.judged), dtype=np.bool_) if metric.name in _ALWAYS_DEFINED else np.asarray(counts.relevant > 0)
