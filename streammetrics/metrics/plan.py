"""The compiled request of a Scorer: columns, cut-offs, tables, and the limits that keep sums within int64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.names import (
    ALL_METRIC_NAMES,
    Column,
    Metric,
    MetricError,
    columns_of,
    parse_metric,
)
from streammetrics.metrics.records import METRICS
from streammetrics.metrics.spec import Gain, Spec
from streammetrics.metrics.units import (
    AP_BITS,
    GRADE_BITS,
    ITEMS_MAX,
    TOTAL_MAX,
    VALUE_ONE,
    discount_units,
    gain_units,
    grade_units,
    persistence_units,
    satisfaction,
)

ITEMS_MAX_DEFAULT: Final = 1_000_000
ITEMS_MAX_WHOLE: Final = 16_384
"""Default of `items_max` if a metric has no cut-off. It is lower because every rank needs a table entry."""

WHOLE: Final = 1 << 30
"""Stands for the cut-off of a metric without one: beyond every rank."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """All requested cut-offs of one metric name.

    cutoffs: their indices among the plan's cut-offs. ks: the cut-offs themselves, int64, shape (cutoffs, 1).
    columns, place_columns: their column indices, in the same order; only `item_hit_rate` has place columns.
    in_order: whether the family has all cut-offs of the plan, in ascending order.
    """

    name: str
    cutoffs: tuple[int, ...]
    columns: tuple[int, ...]
    place_columns: tuple[int, ...]
    in_order: bool
    ks: Ints


@dataclass(frozen=True)
class ScoringPlan:
    """The compiled request. Ranks beyond `depth` earn nothing at any cut-off, so tables have `depth` entries."""

    metrics: tuple[Metric, ...]
    spec: Spec
    items_max: int
    grade_max: float

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of all metrics, in the requested order."""
        return tuple(column for metric in self.metrics for column in columns_of(metric))

    @cached_property
    def cutoffs(self) -> tuple[int, ...]:
        """All distinct cut-offs, ascending; WHOLE stands for none."""
        return tuple(sorted({metric.k or WHOLE for metric in self.metrics}))

    @cached_property
    def depth(self) -> int:
        """The number of ranks that can earn; see `depth_of`."""
        return depth_of(self.metrics, self.spec, self.items_max)

    @cached_property
    def discounts(self) -> Ints:
        """See `units.discount_units`: shape (depth + 1,)."""
        return discount_units(self.spec.discount, self.depth)

    @cached_property
    def best(self) -> Ints:
        """The sum of the first i discounts, i = 0..depth, in units of 2**-44: the ideal DCG of i items with gain 1."""
        return np.concatenate([[0], np.cumsum(self.discounts[:-1])])

    @cached_property
    def persistences(self) -> Ints:
        """See `units.persistence_units`: shape (depth + 1,)."""
        return persistence_units(self.spec.rbp_persistence, self.depth)

    @cached_property
    def reciprocals(self) -> Ints:
        """1 / rank for the ranks 0..depth + 1, in units of a value. Rank 0 stands for none and has 0: shape (depth + 2,)."""
        ranks = np.arange(self.depth + 2)
        return np.rint(VALUE_ONE / ranks.clip(1)).astype(np.int64) * (ranks > 0)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The metrics grouped by name."""
        return tuple(self._family(name) for name in dict.fromkeys(metric.name for metric in self.metrics))

    def _family(self, name: str) -> Family:
        mine = [metric for metric in self.metrics if metric.name == name]
        place = {(column.metric, column.kind): index for index, column in enumerate(self.columns)}
        cutoffs = tuple(self.cutoffs.index(metric.k or WHOLE) for metric in mine)
        ks = np.array([[self.cutoffs[index]] for index in cutoffs], dtype=np.int64)
        return Family(
            name=name,
            cutoffs=cutoffs,
            columns=tuple(place[metric, columns_of(metric)[0].kind] for metric in mine),
            place_columns=tuple(place[metric, "places"] for metric in mine if (metric, "places") in place),
            in_order=cutoffs == tuple(range(len(self.cutoffs))),
            ks=ks,
        )

    @cached_property
    def weighted_gains(self) -> tuple[Gain, ...]:
        """The gains that need a discounted sum."""
        return discounted_gains(self.metrics, self.spec)

    @cached_property
    def ideal_gains(self) -> tuple[Gain, ...]:
        """The gains that need an ideal."""
        return discounted_gains((metric for metric in self.metrics if metric.record.plain_gain), self.spec)

    @cached_property
    def gains(self) -> tuple[Gain, ...]:
        """All gains that some metric needs."""
        return tuple(dict.fromkeys([*self.weighted_gains, self.spec.gain]))

    @cached_property
    def threshold_units(self) -> int:
        """The lowest relevant grade in units of 2**-40; 2**62 if it exceeds grade_max, so that nothing is relevant."""
        threshold = self.spec.relevance_threshold
        return int(grade_units(np.array([threshold]))[0]) if threshold <= self.grade_max else 1 << 62

    @cached_property
    def whole_grades_only(self) -> bool:
        """Whether only whole grades are allowed, because gains come from a table."""
        return isinstance(self.spec.gain, tuple)

    def gains_of_units(self, units: Ints) -> dict[Gain, Ints]:
        """The gains of grades (in units) for each kind of gain."""
        return {gain: gain_units(gain, units, self.threshold_units) for gain in self.gains}

    def satisfactions(self, units: Ints) -> Floats:
        """The probability that each grade (in units) satisfies the user; zeros if no metric sums it."""
        if not any(metric.record.gain == "satisfaction" for metric in self.metrics):
            return np.zeros(units.size)
        return satisfaction(self.spec.err_grade_max, units)


def gain_of(name: str, spec: Spec) -> Gain:
    """The gain of a metric: exp2 for the `_exp` metrics, otherwise that of the spec."""
    return "exp2" if METRICS[name].gain == "exp2" else spec.gain


def discounted_gains(metrics: Iterable[Metric], spec: Spec) -> tuple[Gain, ...]:
    """The distinct gains of the metrics that need discounted sums."""
    return tuple(dict.fromkeys(gain_of(metric.name, spec) for metric in metrics if _sums_discounted(metric)))


def _sums_discounted(metric: Metric) -> bool:
    return metric.record.gain is not None and metric.record.is_discounted


def depth_of(metrics: tuple[Metric, ...], spec: Spec, items_max: int) -> int:
    """How many ranks can earn. Only a `full` ideal can be deeper than the longest list."""
    ks = [metric.k or WHOLE for metric in metrics]
    full = max([k for k in ks if k != WHOLE], default=1) if spec.ideal == "full" else 1
    return max(full, min(max(ks), items_max))


def compile_plan(metrics: Iterable[str | Metric], spec: Spec, items_max: int | None, grade_max: float | None) -> ScoringPlan:
    """Check the request against the limits of the arithmetic, and compile it. Raises MetricError for an invalid request."""
    parsed = _parse_all(metrics)
    if items_max is None:
        items_max = ITEMS_MAX_DEFAULT if all(metric.k for metric in parsed) else ITEMS_MAX_WHOLE
    if type(items_max) is not int or not 1 <= items_max <= ITEMS_MAX:
        raise MetricError("items_max", f"got {items_max!r}; allowed are whole numbers 1..{ITEMS_MAX}")
    _check_cutoffs(parsed, spec)
    depth = depth_of(parsed, spec, items_max)
    if depth << AP_BITS > TOTAL_MAX:
        raise MetricError("cut-off", f"got {depth}; allowed are 1..{TOTAL_MAX >> AP_BITS}, beyond which sums overflow")
    limit = grade_limit(parsed, spec, items_max)
    if limit <= 0 and spec.ideal == "full" and isinstance(spec.gain, tuple):
        raise MetricError(
            "spec field gain", f"got {spec.gain[:2]} with ideal 'full', k items of gain 1; allowed for grade 1 are gains up to 1"
        )
    if limit <= 0:
        raise MetricError("cut-off", f"got {depth}; at this depth not even grade 1 keeps sums within int64, ask for a smaller k")
    if grade_max is not None and not (math.isfinite(grade_max) and 0 < grade_max <= limit):
        raise MetricError("grade_max", f"got {grade_max!r}; allowed at cut-off {depth} are 0 < grade_max <= {limit}, or sums overflow")
    return ScoringPlan(parsed, spec, items_max, float(limit if grade_max is None else grade_max))


def _check_cutoffs(metrics: Iterable[Metric], spec: Spec) -> None:
    """Reject metrics without a cut-off if the Spec divides by k."""
    for metric in metrics:
        if metric.k == 0 and metric.record.plain_gain and spec.ideal == "full":
            raise MetricError("metric", f"got {metric} with spec field ideal 'full', which is k items; allowed is a cut-off: {metric}@10")
        for field in metric.record.settings:
            if metric.k == 0 and getattr(spec, field) == "k":
                raise MetricError("metric", f"got {metric} with spec field {field} 'k'; allowed is a cut-off: {metric}@10")


def _parse_all(metrics: Iterable[str | Metric]) -> tuple[Metric, ...]:
    if isinstance(metrics, str | Metric):
        raise MetricError("metrics", f"got {metrics!r}; allowed is a sequence of names such as ['ndcg@10']")
    parsed = tuple(metric if isinstance(metric, Metric) else parse_metric(metric) for metric in metrics)
    if not parsed:
        raise MetricError("metrics", "got none; allowed is at least one")
    for index, metric in enumerate(parsed):
        if metric.name not in ALL_METRIC_NAMES:
            raise MetricError("metric", f"got {metric}, which needs more than grades; allowed are {', '.join(ALL_METRIC_NAMES)}")
        if metric in parsed[:index]:
            raise MetricError("metrics", f"got {metric} twice; allowed is each metric once")
    return parsed


def grade_limit(metrics: tuple[Metric, ...], spec: Spec, items_max: int) -> float:
    """The largest whole grade for which no sum exceeds TOTAL_MAX, found by bisection with lists full of that grade.

    A gain table, a `full` ideal and the scale of `err` lower the limit.
    """
    needs: dict[Gain, int] = {}
    for metric in metrics:
        if _sums_discounted(metric):
            gain = gain_of(metric.name, spec)
            needs[gain] = max(needs.get(gain, 0), depth_of((metric,), spec, items_max))
    discounted = {gain: sum(discount_units(spec.discount, depth).tolist()) for gain, depth in needs.items()}
    undiscounted = [metric for metric in metrics if metric.record.gain == "spec" and not metric.record.is_discounted]
    plain = max((depth_of((metric,), spec, items_max) for metric in undiscounted), default=0)
    normalised = discounted_gains((metric for metric in metrics if metric.record.plain_gain), spec) if spec.ideal == "full" else ()

    def fits(grade: int) -> bool:
        products = (_gain_of_whole(gain, grade) * weights >> GRADE_BITS for gain, weights in discounted.items())
        bounded = all(_gain_of_whole(gain, grade) <= 1 << GRADE_BITS for gain in normalised)
        return bounded and all(total <= TOTAL_MAX for total in (grade << GRADE_BITS, _gain_of_whole(spec.gain, grade) * plain, *products))

    bound = len(spec.gain) - 1 if isinstance(spec.gain, tuple) else 1 << (62 - GRADE_BITS)
    limit: float = _largest(fits, bound)
    return min(limit, spec.err_grade_max) if any(metric.record.gain == "satisfaction" for metric in metrics) else limit


def _gain_of_whole(gain: Gain, grade: int) -> int:
    """The largest gain of any grade up to this whole grade, in units, as an unbounded int."""
    if isinstance(gain, tuple):
        return math.ceil(max(gain[: grade + 1]) * (1 << GRADE_BITS))
    if gain == "binary":
        return min(grade, 1) << GRADE_BITS
    return (grade if gain == "linear" else (1 << min(grade, 64)) - 1) << GRADE_BITS


def _largest(fits: Callable[[int], bool], bound: int) -> int:
    """The largest integer in 0..bound that fits. All smaller ones must fit too."""
    low, high = 0, bound
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
