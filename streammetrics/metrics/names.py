"""Metric names such as `ndcg@10`: the only module that parses and prints them. Also defines the columns of scores."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from streammetrics.errors import CallerError
from streammetrics.metrics.records import METRICS, ColumnKind, Cutoff, MetricRecord

METRIC_NAMES: Final = tuple(name for name, record in METRICS.items() if record.kind == "judged" and record.is_streamed)
"""The metrics of grades that the stream publishes, in display order."""

ALL_METRIC_NAMES: Final = tuple(name for name, record in METRICS.items() if record.kind == "judged")
"""The metrics of `Scorer`: they need the grades of a list and nothing else. In display order."""

ENGAGEMENT_NAMES: Final = tuple(name for name, record in METRICS.items() if record.kind == "engagement")
"""The engagement metrics, which only the stream computes."""

ASSESSMENT_NAMES: Final = tuple(name for name, record in METRICS.items() if record.kind == "assessment")
"""The metrics of what lists show, whatever users do, which only the stream computes."""

CUTOFFS: Final[Mapping[str, Cutoff]] = {name: record.cutoff for name, record in METRICS.items() if record.kind != "users"}
"""Name -> whether `@k` is required, optional or not allowed, for all metrics that have columns or are read from them."""

WHOLE_LIST_NAMES: Final = tuple(name for name in ALL_METRIC_NAMES if CUTOFFS[name] != "required")
"""The metrics of `Scorer` that may have no cut-off; `r_precision` never has one."""

K_MAX: Final = 1_000_000
"""The largest cut-off. Tables have one entry per rank, so this bounds their size."""

_PATTERN: Final = re.compile(r"([A-Za-z0-9_-]+)(?:@([1-9][0-9]{0,6}))?", re.ASCII)


class MetricError(CallerError):
    """A metric name, a Spec or an input breaks a rule. The message names the rule, the value, the place and the allowed values."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric at a cut-off: only the first `k` ranks count. With k = 0 (no cut-off) every rank counts.

    Raises MetricError for an unknown name, a cut-off outside 1..K_MAX, and a missing or superfluous cut-off.

    >>> str(Metric("ndcg", 10)), str(Metric("map"))
    ('ndcg@10', 'map')
    """

    name: str
    k: int = 0

    def __post_init__(self) -> None:
        if self.name not in CUTOFFS:
            near = difflib.get_close_matches(self.name.lower(), CUTOFFS, 1, 0.7)
            meant = f", perhaps for {near[0]!r}" if near else ""
            raise MetricError("metric name", f"got {self.name!r}{meant}; allowed are {', '.join(CUTOFFS)}")
        if type(self.k) is not int or not 0 <= self.k <= K_MAX:
            raise MetricError(f"cut-off of {self.name}", f"got {self.k!r}; allowed are whole numbers 1..{K_MAX}")
        cutoff = CUTOFFS[self.name]
        if self.k == 0 and cutoff == "required":
            raise MetricError(f"cut-off of {self.name}", f"got none; allowed are whole numbers 1..{K_MAX}, as in {self.name}@10")
        if self.k and cutoff == "none":
            reason = ", its cut-off is the number of relevant items" if self.name == "r_precision" else ""
            raise MetricError(f"cut-off of {self.name}", f"got {self.k!r}; allowed is none{reason}")

    @property
    def record(self) -> MetricRecord:
        """All facts of the metric beside its formula."""
        return METRICS[self.name]

    def __str__(self) -> str:
        return metric_text(self.name, self.k)


def metric_text(name: str, k: int) -> str:
    """The text of a metric, also of one that only experiments measure. Without a cut-off, k = 0.

    >>> metric_text("user_hit_rate", 10), metric_text("r_precision", 0)
    ('user_hit_rate@10', 'r_precision')
    """
    return f"{name}@{k}" if k else name


def split_metric(text: str) -> tuple[str, str]:
    """The name of such a text, and the rest: `@` with the cut-off, or nothing. Nothing is checked.

    >>> split_metric("user_hit_rate@10"), split_metric("r_precision")
    (('user_hit_rate', '@10'), ('r_precision', ''))
    """
    name, at, k = text.partition("@")
    return name, at + k


def parse_metric(text: str) -> Metric:
    """Parse a metric name such as `ndcg@10` or `map`.

    Raises MetricError for text that is not `<name>` or `<name>@<k>` with a name of `CUTOFFS` and a cut-off in 1..K_MAX without leading
    zeros.

    >>> parse_metric("item_hit_rate@5")
    Metric(name='item_hit_rate', k=5)
    >>> parse_metric("NDCG@5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    streammetrics.metrics.names.MetricError: metric name: got 'NDCG', perhaps for 'ndcg'; allowed are ndcg, ...
    """
    if isinstance(text, str) and (match := _PATTERN.fullmatch(text)):
        return Metric(match[1], int(match[2] or 0))
    allowed = f"<name> or <name>@<k> such as ndcg@10, with k in 1..{K_MAX} and a name of {', '.join(CUTOFFS)}"
    raise MetricError("metric", f"got {text!r}; allowed is {allowed}")


@dataclass(frozen=True, slots=True)
class Column:
    """One int64 column of scores. The value of a list is the integer divided by 2**scale_bits.

    kind: `sum` for metrics that are means over lists; `hits` and `places` for the two sums of `item_hit_rate`; `numerator` and
        `denominator` for those of an engagement metric that is a ratio; `bucket` for the lists in one bucket of a histogram.
    """

    metric: Metric
    kind: ColumnKind
    scale_bits: int


def columns_of(metric: Metric) -> tuple[Column, ...]:
    """Return the columns of a metric, none for a quantile. Only a sum and a numerator have a scale.

    >>> [(column.kind, column.scale_bits) for column in columns_of(Metric("novelty", 10))]
    [('numerator', 32), ('denominator', 0)]
    """
    record = metric.record
    return tuple(Column(metric, kind, record.scale_bits if kind in ("sum", "numerator") else 0) for kind in record.columns)
