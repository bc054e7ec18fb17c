"""Metric names such as `ndcg@10`: the only module that parses and prints them. Also defines the columns of scores."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from streammetrics.errors import CallerError

Cutoff: TypeAlias = Literal["required", "optional", "none"]
Parameter: TypeAlias = Literal["", "beta", "recall level"]


@dataclass(frozen=True, slots=True)
class MetricForm:
    """How a metric's name is written: with a cut-off or without, and with a number before or after the name.

    cutoff: whether `@k` is required, optional or not allowed. parameter: what the number in the name means, as in `f2@10` (beta) and
    `iprec@0.1` (recall level); empty for most metrics.
    """

    cutoff: Cutoff
    parameter: Parameter = ""


_STREAM: Final = {
    "ndcg": MetricForm("optional"),
    "ndcg_exp": MetricForm("optional"),
    "dcg": MetricForm("optional"),
    "cg": MetricForm("optional"),
    "mrr": MetricForm("optional"),
    "hit_rate": MetricForm("required"),
    "item_hit_rate": MetricForm("required"),
    "precision": MetricForm("required"),
    "recall": MetricForm("required"),
    "map": MetricForm("optional"),
    "f1": MetricForm("required"),
    "r_precision": MetricForm("none"),
    "rbp": MetricForm("optional"),
    "err": MetricForm("optional"),
}
_SCORER: Final = {"dcg_exp": MetricForm("optional")}
_EVALUATE: Final = {
    "f_beta": MetricForm("required", "beta"),
    "hits": MetricForm("required"),
    "judged": MetricForm("required"),
    "unjudged": MetricForm("required"),
    "bpref": MetricForm("none"),
    "iprec": MetricForm("none", "recall level"),
    "iprec_mean": MetricForm("none"),
    "iprec_at_recall": MetricForm("none", "recall level"),
    "11pt_avg": MetricForm("none"),
    "gm_map": MetricForm("none"),
    "set_precision": MetricForm("none"),
    "set_recall": MetricForm("none"),
    "set_f": MetricForm("none", "beta"),
    "set_map": MetricForm("none"),
    "num_q": MetricForm("none"),
    "num_ret": MetricForm("none"),
    "num_rel": MetricForm("none"),
    "num_rel_ret": MetricForm("none"),
}
_ENGAGEMENT: Final = {
    "zero_result_rate": MetricForm("none"),
    "abandonment_rate": MetricForm("none"),
    "first_click_share": MetricForm("required"),
    "first_click_rank": MetricForm("none"),
    "time_to_first_click": MetricForm("none"),
    "time_to_first_click_p50": MetricForm("none"),
    "time_to_first_click_p90": MetricForm("none"),
    "time_to_first_click_p99": MetricForm("none"),
    "satisfied_rate": MetricForm("none"),
    "reformulation_rate": MetricForm("none"),
    "lists_per_session": MetricForm("none"),
    "purchases_per_list": MetricForm("none"),
    "value_per_list": MetricForm("none"),
}

_ASSESSMENT: Final = {
    "diversity": MetricForm("required"),
    "novelty": MetricForm("required"),
    "popularity_share": MetricForm("required"),
    "catalogue_share": MetricForm("required"),
    "fallback_share": MetricForm("none"),
}

CLICK_TIME_BUCKET: Final = "time_to_first_click_bucket"
"""Lists whose first click came within k ms, and not within the bound before. Without k: after the last bound."""

METRIC_NAMES: Final = tuple(_STREAM)
"""The metrics that the stream publishes, in display order."""

ALL_METRIC_NAMES: Final = (*_STREAM, *_SCORER)
"""The metrics of `Scorer`: they need the grades of a list and nothing else. In display order."""

EVALUATE_NAMES: Final = tuple(_EVALUATE)
"""Further metrics of `evaluate`. Most need to know which items were judged at all, or are no means over lists."""

ENGAGEMENT_NAMES: Final = tuple(_ENGAGEMENT)
"""The engagement metrics, which only the stream computes."""

ASSESSMENT_NAMES: Final = tuple(_ASSESSMENT)
"""The metrics of what lists show, whatever users do. In the stream; offline, `assess_lists` has them."""

FORMS: Final = {**_STREAM, **_SCORER, **_EVALUATE, **_ENGAGEMENT, **_ASSESSMENT, CLICK_TIME_BUCKET: MetricForm("optional")}
"""Name -> form, for all metrics."""

WHOLE_LIST_NAMES: Final = tuple(name for name in ALL_METRIC_NAMES if FORMS[name].cutoff != "required")
"""The metrics of `Scorer` that may have no cut-off; `r_precision` never has one."""

LOWER_IS_BETTER: Final = ("zero_result_rate", "abandonment_rate", "first_click_rank", "time_to_first_click", "reformulation_rate")
"""The engagement metrics that get better when they fall."""

UNBOUNDED: Final = (
    *("dcg", "dcg_exp", "cg", "novelty"),
    *("first_click_rank", "time_to_first_click", "lists_per_session", "purchases_per_list", "value_per_list"),
)
"""The metrics of a list that may be above 1. All others are shares, or normalised."""

ALIASES: Final = {
    "ap": "map",
    "averageprecision": "map",
    "f": "f1",
    "gmap": "gm_map",
    "hit": "hit_rate",
    "hitratio": "hit_rate",
    "hr": "hit_rate",
    "meanaverageprecision": "map",
    "meanreciprocalrank": "mrr",
    "numhits": "hits",
    "p": "precision",
    "r": "recall",
    "reciprank": "mrr",
    "reciprocalrank": "mrr",
    "rprec": "r_precision",
    "rr": "mrr",
    "setp": "set_precision",
    "success": "hit_rate",
    "unj": "unjudged",
}
"""The name of a metric in other tools, without case and separators -> its name here."""

K_MAX: Final = 1_000_000
"""The largest cut-off. Tables have one entry per rank, so this bounds their size."""

BETA_MAX: Final = 1_000.0
"""The largest beta: beyond it, F-beta and recall are the same number."""

ColumnKind: TypeAlias = Literal["sum", "hits", "places", "numerator", "denominator", "bucket"]

_SEPARATORS: Final = re.compile(r"[-_ ]")
_SPELLINGS: Final = {**{_SEPARATORS.sub("", name): name for name in FORMS}, **ALIASES}

_PATTERN = re.compile(r"([A-Za-z0-9]+(?:[-_ ][A-Za-z0-9]+)*?)(?:(?:@|[-_]cut[-_.]|[-_ ]at[-_ ]|[-_])([1-9][0-9]{0,6}))?", re.ASCII)
_BETA = re.compile(r"(set_f|f)_?([0-9]+(?:\.[0-9]+)?)(?:(?:@|_at_)([1-9][0-9]{0,6}))?", re.ASCII | re.IGNORECASE)
_RECALL_LEVEL = re.compile(r"(iprec(?=@)|iprec_at_recall)[@_]([01]?\.?[0-9]+)", re.ASCII | re.IGNORECASE)


class MetricError(CallerError):
    """A metric name, a Spec or an input breaks a rule. The message names the rule, the value, the place and the allowed values."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric at a cut-off: only the first `k` ranks count. With k = 0 (no cut-off) every rank counts.

    parameter: beta > 0 of `f_beta` and `set_f`, the recall level 0..1 of `iprec` and `iprec_at_recall`, and None for all others.

    Raises MetricError for an unknown name, a cut-off outside 1..K_MAX, a missing or superfluous cut-off, and a missing, superfluous
    or invalid parameter.

    >>> str(Metric("ndcg", 10)), str(Metric("map")), str(Metric("f_beta", 5, 0.5)), str(Metric("iprec", parameter=0.1))
    ('ndcg@10', 'map', 'f0.5@5', 'iprec@0.1')
    """

    name: str
    k: int = 0
    parameter: float | None = None

    def __post_init__(self) -> None:
        if self.name not in FORMS:
            near = difflib.get_close_matches(self.name, FORMS, 1, 0.7)
            meant = f", perhaps for {near[0]!r}" if near else ""
            raise MetricError("metric name", f"got {self.name!r}{meant}; allowed are {', '.join(FORMS)}")
        if type(self.k) is not int or not 0 <= self.k <= K_MAX:
            raise MetricError(f"cut-off of {self.name}", f"got {self.k!r}; allowed are whole numbers 1..{K_MAX}")
        cutoff = FORMS[self.name].cutoff
        if self.k == 0 and cutoff == "required":
            raise MetricError(f"cut-off of {self.name}", f"got none; allowed are whole numbers 1..{K_MAX}, as in {self._example()}")
        if self.k and cutoff == "none":
            reason = ", its cut-off is the number of relevant items" if self.name == "r_precision" else ""
            raise MetricError(f"cut-off of {self.name}", f"got {self.k!r}; allowed is none{reason}")
        self._check_parameter(FORMS[self.name].parameter)

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric gets better when it falls."""
        return self.name in LOWER_IS_BETTER

    @property
    def ceiling(self) -> int | None:
        """The greatest value of a list, or of an item shown: 1, or None if there is no bound."""
        return None if self.name in UNBOUNDED else 1

    @property
    def counts_hits(self) -> bool:
        """Whether it is above 0 exactly if the first k items have a hit."""
        return self.name in ALL_METRIC_NAMES

    def _example(self) -> str:
        return "f0.5@10" if self.name == "f_beta" else f"{self.name}@10"

    def _check_parameter(self, meaning: Parameter) -> None:
        value = self.parameter
        if not meaning:
            if value is not None:
                raise MetricError(f"parameter of {self.name}", f"got {value!r}; allowed is none")
            return
        top = 1.0 if meaning == "recall level" else BETA_MAX
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= top or (meaning == "beta" and value == 0):  # type: ignore[operator]
            allowed = "0 <= level <= 1" if meaning == "recall level" else f"0 < beta <= {BETA_MAX:g}"
            raise MetricError(f"{meaning} of {self.name}", f"got {value!r}; allowed are {allowed}")
        object.__setattr__(self, "parameter", float(value))  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.parameter is None:
            return f"{self.name}@{self.k}" if self.k else self.name
        if FORMS[self.name].parameter == "recall level":
            return f"{self.name}@{self.parameter:g}"
        return f"f{self.parameter:g}@{self.k}" if self.k else f"set_f{self.parameter:g}"


def parse_metric(text: str) -> Metric:
    """Parse a metric name: `ndcg@10`, `map`, or a name of other tools (`P@10`, `HitRate@5`, `recall_at_5`, `r-precision`, `ndcg_cut_10`).

    Case, and `-`, `_` and blanks between words, are ignored. `str` of the result is the spelling used everywhere in streammetrics.
    Raises MetricError for text that is not `<name>`, `<name>@<k>`, `<name>_at_<k>`, `<name>_<k>` or `<name>_cut_<k>` with a known name
    and a cut-off in 1..K_MAX without leading zeros; for F-beta `f<beta>@<k>`, and for interpolated precision `iprec@<recall level>`.

    >>> parse_metric("item_hit_rate@5")
    Metric(name='item_hit_rate', k=5, parameter=None)
    >>> [str(parse_metric(text)) for text in ("nDCG@10", "P_5", "recip_rank", "Success@1", "Rprec", "F2@10")]
    ['ndcg@10', 'precision@5', 'mrr', 'hit_rate@1', 'r_precision', 'f2@10']
    >>> parse_metric("ndgc@5")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    streammetrics.metrics.names.MetricError: metric name: got 'ndgc', perhaps for 'ndcg'; allowed are ndcg, ...
    """
    if isinstance(text, str):
        if found := _BETA.fullmatch(text):
            return _f_beta(found)
        if found := _RECALL_LEVEL.fullmatch(text):
            return Metric(found[1].lower(), parameter=float(found[2]))
        if found := _PATTERN.fullmatch(text):
            squashed = _SEPARATORS.sub("", found[1]).lower()
            name = _SPELLINGS.get(squashed, found[1].lower())
            return Metric(name, int(found[2] or 0), 1.0 if squashed == "setf" else None)
    names = ", ".join(name for name in FORMS if not FORMS[name].parameter)
    allowed = f"<name> or <name>@<k> such as ndcg@10, with k in 1..{K_MAX} and a name of {names}; or f0.5@10, iprec@0.1"
    raise MetricError("metric", f"got {text!r}; allowed is {allowed}")


def _f_beta(found: re.Match[str]) -> Metric:
    """F-beta at a cut-off (with beta 1 it is `f1`), or of the whole list."""
    beta, k = float(found[2]), int(found[3] or 0)
    if found[1].lower() == "set_f":
        return Metric("set_f", k, beta)
    return Metric("f1", k) if beta == 1 else Metric("f_beta", k, beta)


@dataclass(frozen=True, slots=True)
class Column:
    """One int64 column of scores. The value of a list is the integer divided by 2**scale_bits.

    kind: `sum` for metrics that are means over lists; `hits` and `places` for the two sums of `item_hit_rate`; `numerator` and
        `denominator` for those of an engagement metric that is a ratio; `bucket` for the lists in one bucket of a histogram.
    """

    metric: Metric
    kind: ColumnKind
    scale_bits: int
