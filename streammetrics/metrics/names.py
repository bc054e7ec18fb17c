"""Metric names such as `ndcg@10`: the only module that parses and prints them. Also defines the columns of scores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from streammetrics.errors import CallerError

METRIC_NAMES: Final = ("ndcg", "ndcg_exp", "dcg", "cg", "mrr", "hit_rate", "item_hit_rate", "precision", "recall", "map")
"""The metrics that the stream publishes, in display order."""

ALL_METRIC_NAMES: Final = (*METRIC_NAMES, "dcg_exp", "f1", "r_precision", "rbp", "err")
"""All metrics, in display order."""

WHOLE_LIST_NAMES: Final = ("ndcg", "ndcg_exp", "dcg", "dcg_exp", "cg", "mrr", "map", "rbp", "err", "r_precision")
"""The metrics that may have no cut-off; `r_precision` never has one."""

ENGAGEMENT_NAMES: Final = (
    "zero_result_rate",
    "abandonment_rate",
    "first_click_share",
    "first_click_rank",
    "time_to_first_click",
    "satisfied_rate",
    "reformulation_rate",
    "lists_per_session",
    "purchases_per_list",
    "value_per_list",
)
"""The engagement metrics, which only the stream computes. All but `first_click_share` never have a cut-off."""

ALIASES: Final = {
    "ap": "map",
    "average_precision": "map",
    "f": "f1",
    "hit": "hit_rate",
    "hits": "hit_rate",
    "hr": "hit_rate",
    "p": "precision",
    "r": "recall",
    "recip_rank": "mrr",
    "rprec": "r_precision",
    "rr": "mrr",
    "success": "hit_rate",
}
"""The name of a metric in other tools, in lower case -> its name here."""

K_MAX: Final = 1_000_000
"""The largest cut-off. Tables have one entry per rank, so this bounds their size."""

ColumnKind: TypeAlias = Literal["sum", "hits", "places", "numerator", "denominator"]

_PATTERN = re.compile(r"([A-Za-z][A-Za-z_]*?1?)(?:(?:@|_cut_|_)([1-9][0-9]{0,6}))?", re.ASCII)


class MetricError(CallerError):
    """A metric name, a Spec or an input breaks a rule. The message names the rule, the value, the place and the allowed values."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric at a cut-off: only the first `k` ranks count. With k = 0 (no cut-off) every rank counts.

    Raises MetricError for an unknown name, a cut-off outside 1..K_MAX, a missing cut-off, and a cut-off for `r_precision`.

    >>> str(Metric("ndcg", 10)), str(Metric("map"))
    ('ndcg@10', 'map')
    """

    name: str
    k: int = 0

    def __post_init__(self) -> None:
        if self.name in ENGAGEMENT_NAMES:
            self._check_engagement()
            return
        if self.name not in ALL_METRIC_NAMES:
            raise MetricError("metric name", f"got {self.name!r}; allowed are {', '.join(ALL_METRIC_NAMES)}")
        if type(self.k) is not int or not 0 <= self.k <= K_MAX:
            raise MetricError(f"cut-off of {self.name}", f"got {self.k!r}; allowed are whole numbers 1..{K_MAX}")
        if self.k == 0:
            if self.name not in WHOLE_LIST_NAMES:
                raise MetricError(f"cut-off of {self.name}", f"got none; allowed are whole numbers 1..{K_MAX}, as in {self.name}@10")
        elif self.name == "r_precision":
            raise MetricError("cut-off of r_precision", f"got {self.k!r}; allowed is none, its cut-off is the number of relevant items")

    def _check_engagement(self) -> None:
        has_cutoff = self.name == "first_click_share"
        if type(self.k) is not int or not (1 <= self.k <= K_MAX if has_cutoff else self.k == 0):
            allowed = f"whole numbers 1..{K_MAX}" if has_cutoff else "none"
            raise MetricError(f"cut-off of {self.name}", f"got {self.k!r}; allowed is {allowed}")

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.k else self.name


def parse_metric(text: str) -> Metric:
    """Parse a metric name: `ndcg@10`, `map`, or a name of other tools (`P@10`, `RR@10`, `Rprec`, `ndcg_cut_10`).

    Case is ignored. `str` of the result is the spelling used everywhere in streammetrics.
    Raises MetricError for text that is not `<name>`, `<name>@<k>`, `<name>_<k>` or `<name>_cut_<k>` with a known name and a
    cut-off in 1..K_MAX without leading zeros.

    >>> parse_metric("item_hit_rate@5")
    Metric(name='item_hit_rate', k=5)
    >>> [str(parse_metric(text)) for text in ("nDCG@10", "P_5", "recip_rank", "Success@1", "Rprec")]
    ['ndcg@10', 'precision@5', 'mrr', 'hit_rate@1', 'r_precision']
    >>> parse_metric("ndgc@5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    streammetrics.metrics.names.MetricError: metric name: got 'ndgc'; allowed are ndcg, ...
    """
    match = _PATTERN.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        allowed = f"<name> or <name>@<k> such as ndcg@10, with k in 1..{K_MAX} and a name of {', '.join(ALL_METRIC_NAMES)}"
        raise MetricError("metric", f"got {text!r}; allowed is {allowed}")
    name = match[1].lower()
    return Metric(ALIASES.get(name, name), int(match[2] or 0))


@dataclass(frozen=True, slots=True)
class Column:
    """One int64 column of scores. The value of a list is the integer divided by 2**scale_bits.

    kind: `sum` for metrics that are means over lists; `hits` and `places` for the two sums of `item_hit_rate`; `numerator` and
        `denominator` for those of an engagement metric that is a ratio.
    """

    metric: Metric
    kind: ColumnKind
    scale_bits: int
