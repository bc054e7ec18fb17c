"""Which metric is asked for under which Spec. A name of trec_eval, such as `map_cut_10`, asks for trec_eval's definition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from streammetrics.metrics.names import Metric, MetricError, parse_metric
from streammetrics.metrics.presets import trec_eval
from streammetrics.metrics.spec import Spec

_TREC_NAME: Final = re.compile(
    r"(P|recall|success|ndcg_cut|map_cut|unj)_[0-9]+|iprec_at_recall_[0-9.]+|set_(P|F|recall|map)|num_(q|ret|rel|rel_ret)"
    r"|recip_rank|Rprec|gm_map|11pt_avg",
    re.ASCII,
)

_ALL: Final = ("relevance_threshold", "no_relevant")
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ndcg": ("gain", "discount", "ideal"),
    "ndcg_exp": ("discount", "ideal"),
    "dcg": ("gain", "discount"),
    "dcg_exp": ("discount",),
    "cg": ("gain",),
    "map": ("ap_denominator",),
    "gm_map": ("ap_denominator",),
    "precision": ("precision_denominator",),
    "recall": ("recall_denominator",),
    "f1": ("precision_denominator", "recall_denominator"),
    "f_beta": ("precision_denominator", "recall_denominator"),
    "rbp": ("rbp_persistence",),
    "err": ("err_grade_max",),
}
"""The fields of a Spec that a metric depends on, beside those in `_ALL`."""


@dataclass(frozen=True, slots=True)
class Request:
    """A metric and the definitions to compute it with."""

    metric: Metric
    spec: Spec

    @property
    def meaning(self) -> dict[str, Any]:
        """The fields of the Spec that this metric depends on."""
        return {field: getattr(self.spec, field) for field in (*_FIELDS.get(self.metric.name, ()), *_ALL)}


def requests_of(metrics: Iterable[str | Metric], spec: Spec | None) -> tuple[Request, ...]:
    """One request per metric. spec: the definitions of all metrics, or None: trec_eval's for its names and the defaults for all others.

    Raises MetricError for no or unknown names, a metric asked for twice, and a name of trec_eval with other definitions.

    >>> [request.spec.ap_denominator for request in requests_of(["map@10", "map_cut_20"], None)]
    ['min(R,k)', 'R']
    """
    if isinstance(metrics, str | Metric):
        raise MetricError("metrics", f"got {metrics!r}; allowed is a sequence of names such as ['ndcg@10']")
    made = tuple(request_of(metric, spec) for metric in metrics)
    check_requests(made)
    return made


def request_of(name: str | Metric, spec: Spec | None) -> Request:
    """One request; see `requests_of`."""
    metric = name if isinstance(name, Metric) else parse_metric(name)
    if isinstance(name, str) and _TREC_NAME.fullmatch(name):
        return trec_request(metric, name, spec)
    return Request(metric, Spec() if spec is None else spec)


def trec_request(metric: Metric, label: str, spec: Spec | None, persistence: float | None = None) -> Request:
    """A request for a measure of trec_eval. Raises MetricError if `spec` gives this metric another meaning.

    label: its name in trec_eval, for messages. The relevance threshold of `spec` is kept, like that of trec_eval's -l.
    persistence: the parameter p of trec_eval's `rbp`.
    """
    theirs = trec_eval() if spec is None else replace(trec_eval(), relevance_threshold=spec.relevance_threshold)
    if persistence is not None:
        theirs = replace(theirs, rbp_persistence=persistence)
    asked = Request(metric, theirs)
    if spec is not None:
        meant = Request(metric, spec)
        for field, value in asked.meaning.items():
            if meant.meaning[field] != value and not (field == "rbp_persistence" and persistence is not None):
                raise MetricError(
                    "metric",
                    f"got {label}, a name of trec_eval, with {field} {meant.meaning[field]!r}; allowed are the spec trec_eval, or {metric}",
                )
    return asked


def check_requests(requests: tuple[Request, ...]) -> None:
    """Raise MetricError for no requests, and for a metric asked for twice."""
    if not requests:
        raise MetricError("metrics", "got none; allowed is at least one")
    seen: dict[Metric, Request] = {}
    for request in requests:
        if request.metric in seen:
            before = seen[request.metric]
            differing = [field for field, value in request.meaning.items() if before.meaning[field] != value]
            why = f" with two values of {differing[0]}" if differing else ""
            raise MetricError("metrics", f"got {request.metric} twice{why}; allowed is each metric once")
        seen[request.metric] = request
