"""Engagement metrics: what users do with lists, beyond grades. Exact integer sums per list, as for every other metric.

Each metric is a mean over lists, or a ratio of two sums over lists: `windows/engagement.md` defines them. Times are in ms. Quantiles come
from a histogram. The stream computes them; offline judgments have no clicks in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from streammetrics.metrics.arrays import Ints
from streammetrics.metrics.assessment import AssessmentLayout
from streammetrics.metrics.names import ASSESSMENT_NAMES, ENGAGEMENT_NAMES, Column, Metric, MetricError, columns_of
from streammetrics.metrics.records import PURCHASE_BITS

VALUE_MAX: Final = 1_000_000
"""The greatest value of a purchase. Greater ones, and those below 0, count as a purchase without a value."""


class EngagementFacts(NamedTuple):
    """What the metrics need of L lists. Each field is int64 of shape (L,).

    items: the number of items. satisfied: 1 if an item has the satisfied grade or above. rank: the rank of the first click, 0 if there
    is none. delay_ms: time from the list to its first click, at least 0. purchases, value: purchased items and their value in units
    of 2**-PURCHASE_BITS. opens: 1 for the first list of a session. followed: 1 if another list soon follows.
    """

    items: Ints
    satisfied: Ints
    rank: Ints
    delay_ms: Ints
    purchases: Ints
    value: Ints
    opens: Ints
    followed: Ints


QUANTILES: Final = {"time_to_first_click_p50": 50, "time_to_first_click_p90": 90, "time_to_first_click_p99": 99}
"""The metrics that are quantiles, in per cent of the lists with a click."""

_R10: Final = (100, 125, 160, 200, 250, 315, 400, 500, 630, 800)
BOUNDS_MS: Final = (*(step * 10**power for power in range(4) for step in _R10), 1_000_000)
"""The inclusive upper bounds of the histogram's buckets, in ms: the series R10 of ISO 3. Each is at most 1.28 times the one before."""

_Rows: TypeAlias = Callable[[EngagementFacts, int], Iterable[Ints]]


def _whole(flags: object) -> Ints:
    return np.asarray(flags, dtype=np.int64)


def _clicked(facts: EngagementFacts) -> Ints:
    return _whole(facts.rank > 0)


_ROWS: Final[dict[str, _Rows]] = {
    "zero_result_rate": lambda facts, _: [_whole(facts.items == 0)],
    "abandonment_rate": lambda facts, _: [_whole((facts.items > 0) & (facts.rank == 0)), _whole(facts.items > 0)],
    "first_click_share": lambda facts, k: [_whole((facts.rank > 0) & (facts.rank <= k)), _clicked(facts)],
    "first_click_rank": lambda facts, _: [facts.rank, _clicked(facts)],
    "time_to_first_click": lambda facts, _: [facts.delay_ms * _clicked(facts), 1_000 * _clicked(facts)],
    **{name: lambda facts, _: [] for name in QUANTILES},
    "satisfied_rate": lambda facts, _: [facts.satisfied],
    "reformulation_rate": lambda facts, _: [_whole((facts.rank == 0) & (facts.followed > 0))],
    "lists_per_session": lambda facts, _: [np.ones_like(facts.items), facts.opens],
    "purchases_per_list": lambda facts, _: [facts.purchases],
    "value_per_list": lambda facts, _: [facts.value],
}
"""The formula of each metric: its columns."""


def _quantile(buckets: Sequence[int], per_cent: int) -> tuple[int, int]:
    """Return the quantile in seconds, as a numerator and a denominator: the upper bound of the bucket that it falls into.

    The quantile of n clicks is the click at place ceil(n * per_cent / 100) in order. 0 / 0 without clicks, and beyond the last bound.

    >>> _quantile([0, 3, 0, 1] + [0] * 38, 50), _quantile([0] * 42, 50)
    ((125, 1000), (0, 0))
    """
    place, seen = -(-sum(buckets) * per_cent // 100), 0
    for bound, count in zip(BOUNDS_MS, buckets, strict=False):
        seen += count
        if seen >= place > 0:
            return bound, 1_000
    return 0, 0


class EngagementLayout:
    """The columns of some engagement metrics, in the order of the metrics, then those of assessment metrics.

    satisfied_grade: the least grade of an item that satisfies a user, above 0. assessment: what scores the assessment metrics; without
    it, those among `metrics` have columns that only the sums of others fill. A metric that is a ratio has two columns. Raises
    MetricError for a metric of another kind.

    >>> layout = EngagementLayout([Metric("zero_result_rate"), Metric("first_click_share", 3)])
    >>> [(str(column.metric), column.kind) for column in layout.columns]
    [('zero_result_rate', 'sum'), ('first_click_share@3', 'numerator'), ('first_click_share@3', 'denominator')]
    """

    def __init__(self, metrics: Iterable[Metric], satisfied_grade: float = 2.0, assessment: AssessmentLayout | None = None) -> None:
        given = tuple(metrics)
        self._engagement = tuple(metric for metric in given if metric.name not in ASSESSMENT_NAMES)
        self.assessment = assessment or AssessmentLayout(metric for metric in given if metric.name in ASSESSMENT_NAMES)
        self.metrics = (*self._engagement, *self.assessment.metrics)
        self.satisfied_grade = satisfied_grade
        if others := [metric for metric in self._engagement if metric.name not in ENGAGEMENT_NAMES]:
            raise MetricError("engagement metric", f"got {others[0]}; allowed are {', '.join(ENGAGEMENT_NAMES)}")
        columns = [column for metric in self._engagement for column in columns_of(metric)]
        self._first_bucket = len(columns)
        if any(metric.name in QUANTILES for metric in self._engagement):
            columns += [Column(Metric("time_to_first_click_bucket", bound), "bucket", 0) for bound in (*BOUNDS_MS, 0)]
        self._first_assessed = len(columns)
        self.columns = (*columns, *self.assessment.columns)

    def describe(self) -> str:
        """Return the rules that the names of the metrics do not say."""
        satisfied = f"satisfied={self.satisfied_grade:g}"
        return f"{satisfied} {self.assessment.describe()}" if self.assessment.columns else satisfied

    def ratios(self, sums: Sequence[int], lists: int) -> Iterator[tuple[str, int, int]]:
        """Return the name of each metric with the two integers whose quotient it is, from the sums of its columns over lists."""
        for index, column in enumerate(self.columns[: self._first_bucket]):
            if column.kind == "sum":
                yield str(column.metric), sums[index], lists << column.scale_bits
            elif column.kind == "numerator":
                yield str(column.metric), sums[index], sums[index + 1]
        for metric in self._engagement:
            if metric.name in QUANTILES:
                yield str(metric), *_quantile(sums[self._first_bucket : self._first_assessed], QUANTILES[metric.name])
        yield from self.assessment.ratios(sums[self._first_assessed :], lists)

    def value_max(self, items_max: int) -> int:
        """Return the greatest value of a column for one list of at most `items_max` items."""
        return items_max * VALUE_MAX << PURCHASE_BITS if any(metric.name == "value_per_list" for metric in self.metrics) else 1 << 40

    def rows(self, facts: EngagementFacts, assessed: Sequence[Sequence[int]] = ()) -> Ints:
        """Return the columns of each list: int64, shape (L, columns).

        assessed: the columns of assessment metrics of each list, empty for zeros. Shape (L, columns of assessment metrics).
        """
        columns = [column for metric in self._engagement for column in _ROWS[metric.name](facts, metric.k)]
        if self._first_bucket < self._first_assessed:
            bucket = np.where(facts.rank > 0, np.searchsorted(BOUNDS_MS, facts.delay_ms), -1)
            columns += [_whole(bucket == number) for number in range(len(BOUNDS_MS) + 1)]
        if self.assessment.columns:
            none = [0] * len(self.assessment.columns)
            columns += [
                *np.array([assessment or none for assessment in assessed or [none] * len(facts.items)], dtype=np.int64)
                .reshape(-1, len(none))
                .T
            ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(facts.items), 0), dtype=np.int64)
