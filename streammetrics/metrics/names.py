"""How metrics are named, `ndcg@10`: read and printed here and nowhere else. Which column holds what is said here too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from streammetrics.errors import StreammetricsError

METRIC_NAMES: Final = ("ndcg", "ndcg_exp", "dcg", "cg", "mrr", "hit_rate", "item_hit_rate", "precision", "recall", "map")
"""Every metric name, in the order in which they are listed to people."""

K_MAX: Final = 1_000_000
"""The largest cut-off: deeper lists than this are no ranked lists, and every table has one entry per rank."""

Kind: TypeAlias = Literal["sum", "hits", "places"]

_PATTERN = re.compile(r"([a-z][a-z0-9_]*)@([1-9][0-9]{0,6})", re.ASCII)


class MetricError(StreammetricsError, ValueError):
    """The caller's fault: a name, a spec or an input breaks a rule. The message gives the rule, the place and the value."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A ranking-quality function at a cut-off: only the first `k` ranks earn anything.

    Raises MetricError for an unknown name or a cut-off outside 1..K_MAX.

    >>> str(Metric("ndcg", 10))
    'ndcg@10'
    """

    name: str
    k: int

    def __post_init__(self) -> None:
        if self.name not in METRIC_NAMES:
            raise MetricError(f"metric name: got {self.name!r}; allowed are {', '.join(METRIC_NAMES)}")
        if type(self.k) is not int or not 1 <= self.k <= K_MAX:
            raise MetricError(f"cut-off of {self.name}: got {self.k!r}; allowed are whole numbers 1..{K_MAX}")

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"


def parse_metric(text: str) -> Metric:
    """Read a metric as people write it; `str` of the result is the same text again.

    Raises MetricError for anything that is not `<name>@<k>` with a known name and a cut-off in 1..K_MAX without leading zeros.

    >>> parse_metric("item_hit_rate@5")
    Metric(name='item_hit_rate', k=5)
    >>> parse_metric("ndgc@5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    streammetrics.metrics.names.MetricError: metric name: got 'ndgc'; allowed are ndcg, ...
    """
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise MetricError(
            f"metric: got {text!r}; allowed is <name>@<k> such as ndcg@10, with k in 1..{K_MAX} and a name of {', '.join(METRIC_NAMES)}"
        )
    return Metric(match[1], int(match[2]))


@dataclass(frozen=True, slots=True)
class Column:
    """One int64 column of scores: the value of a list is the integer divided by 2**scale_bits.

    `kind` is `sum` where the mean over lists is the metric, `hits` and `places` for the two halves of a ratio of sums.
    """

    metric: Metric
    kind: Kind
    scale_bits: int
