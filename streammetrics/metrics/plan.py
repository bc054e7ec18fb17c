"""What a scorer works out once: columns, cut-offs, tables and the limits within which no sum can overflow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from streammetrics.metrics.names import Column, Kind, Metric, MetricError, parse_metric
from streammetrics.metrics.spec import Gain, Spec
from streammetrics.metrics.units import (
    AP_BITS,
    GRADE_BITS,
    ITEMS_MAX,
    SUM_BITS,
    TOTAL_MAX,
    VALUE_BITS,
    Ints,
    discount_units,
    gain_units,
    grade_units,
)


@dataclass(frozen=True, slots=True)
class Family:
    """All requested cut-offs of one metric name: where they are among the plan's cut-offs, and where their columns go.

    `columns` holds one column a cut-off, in the same order; a ratio of sums has its places in `place_columns`.
    """

    name: str
    cutoffs: tuple[int, ...]
    columns: tuple[int, ...]
    place_columns: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The compiled request. Ranks from `depth` on earn nothing under any cut-off, so no table is longer."""

    metrics: tuple[Metric, ...]
    spec: Spec
    items_max: int
    grade_max: float

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return tuple(column for metric in self.metrics for column in columns_of(metric))

    @cached_property
    def cutoffs(self) -> tuple[int, ...]:
        return tuple(sorted({metric.k for metric in self.metrics}))

    @cached_property
    def depth(self) -> int:
        return depth_of(self.metrics, self.items_max)

    @cached_property
    def discounts(self) -> Ints:
        return discount_units(self.spec.discount, self.depth)

    @cached_property
    def families(self) -> tuple[Family, ...]:
        return tuple(self._family(name) for name in dict.fromkeys(metric.name for metric in self.metrics))

    def _family(self, name: str) -> Family:
        mine = [metric for metric in self.metrics if metric.name == name]
        place = {(column.metric, column.kind): index for index, column in enumerate(self.columns)}
        return Family(
            name=name,
            cutoffs=tuple(self.cutoffs.index(metric.k) for metric in mine),
            columns=tuple(place[metric, columns_of(metric)[0].kind] for metric in mine),
            place_columns=tuple(place[metric, "places"] for metric in mine if (metric, "places") in place),
        )

    @cached_property
    def weighted_gains(self) -> tuple[Gain, ...]:
        """The gains for which a discounted sum is needed."""
        return gains_of(self.metrics, self.spec, ("ndcg", "ndcg_exp", "dcg"))

    @cached_property
    def ideal_gains(self) -> tuple[Gain, ...]:
        """The gains for which the ideal is needed too."""
        return gains_of(self.metrics, self.spec, ("ndcg", "ndcg_exp"))

    @cached_property
    def threshold_units(self) -> int:
        """The least relevant grade in units; beyond grade_max nothing is relevant."""
        threshold = self.spec.relevance_threshold
        return int(grade_units(np.array([threshold]))[0]) if threshold <= self.grade_max else 1 << 62


def gain_of(name: str, spec: Spec) -> Gain:
    return "exp2" if name == "ndcg_exp" else spec.gain


def gains_of(metrics: Iterable[Metric], spec: Spec, names: tuple[str, ...]) -> tuple[Gain, ...]:
    return tuple(dict.fromkeys(gain_of(metric.name, spec) for metric in metrics if metric.name in names))


def columns_of(metric: Metric) -> tuple[Column, ...]:
    """The columns that hold a metric: one, or hits and places for a ratio of sums."""
    if metric.name == "item_hit_rate":
        kinds: tuple[Kind, ...] = ("hits", "places")
        return tuple(Column(metric, kind, 0) for kind in kinds)
    return (Column(metric, "sum", SUM_BITS if metric.name in ("dcg", "cg") else VALUE_BITS),)


def depth_of(metrics: Iterable[Metric], items_max: int) -> int:
    return min(max(metric.k for metric in metrics), items_max)


def compile_plan(metrics: Iterable[str | Metric], spec: Spec, items_max: int, grade_max: float | None) -> Plan:
    """Check the request against the arithmetic's limits. Raises MetricError that names the rule, the value and what is allowed."""
    parsed = _parse_all(metrics)
    if type(items_max) is not int or not 1 <= items_max <= ITEMS_MAX:
        raise MetricError(f"items_max: got {items_max!r}; allowed are whole numbers 1..{ITEMS_MAX}")
    depth = depth_of(parsed, items_max)
    if depth << AP_BITS > TOTAL_MAX:
        raise MetricError(f"cut-off: got {depth}; allowed are 1..{TOTAL_MAX >> AP_BITS}, beyond which sums overflow")
    limit = grade_limit(parsed, spec, depth)
    if limit < 1:
        raise MetricError(f"cut-off: got {depth}; at this depth not even grade 1 keeps sums within int64, ask for a smaller k")
    if grade_max is not None and not (math.isfinite(grade_max) and 0 < grade_max <= limit):
        raise MetricError(f"grade_max: got {grade_max!r}; allowed at cut-off {depth} are 0 < grade_max <= {limit}, or sums overflow")
    return Plan(parsed, spec, items_max, float(limit if grade_max is None else grade_max))


def _parse_all(metrics: Iterable[str | Metric]) -> tuple[Metric, ...]:
    if isinstance(metrics, str | Metric):
        raise MetricError(f"metrics: got {metrics!r}; allowed is a sequence of names such as ['ndcg@10']")
    parsed = tuple(metric if isinstance(metric, Metric) else parse_metric(metric) for metric in metrics)
    if not parsed:
        raise MetricError("metrics: got none; allowed is at least one")
    for index, metric in enumerate(parsed):
        if metric in parsed[:index]:
            raise MetricError(f"metrics: got {metric} twice; allowed is each metric once")
    return parsed


def grade_limit(metrics: tuple[Metric, ...], spec: Spec, depth: int) -> int:
    """The largest whole grade at which no sum of a list exceeds TOTAL_MAX: `depth` items of that grade are tried."""
    discounted: int = sum(discount_units(spec.discount, depth).tolist())
    weighted = gains_of(metrics, spec, ("ndcg", "ndcg_exp", "dcg"))
    plain = gains_of(metrics, spec, ("cg",))

    def fits(grade: int) -> bool:
        products = (_gain_of_whole(gain, grade) * discounted >> GRADE_BITS for gain in weighted)
        sums = (_gain_of_whole(gain, grade) * depth for gain in plain)
        return all(total <= TOTAL_MAX for total in (grade << GRADE_BITS, *products, *sums))

    return _largest(fits, 1 << (62 - GRADE_BITS))


def _gain_of_whole(gain: Gain, grade: int) -> int:
    """The gain of a whole grade in units, as an unbounded whole number."""
    return (grade if gain == "linear" else (1 << min(grade, 64)) - 1) << GRADE_BITS


def _largest(fits: Callable[[int], bool], bound: int) -> int:
    """The largest whole number in 0..bound that fits, where fitting ends once."""
    low, high = 0, bound
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def gains_by_name(gains: Iterable[Gain], units: Ints) -> dict[Gain, Ints]:
    """The gains of grades (in units) under each law."""
    return {gain: gain_units(gain, units) for gain in gains}
