"""Read the committed dashboards: panels, queries, and queries with values for their variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import promql_parser

from streammetrics.exporters.prometheus.series import SERIES
from streammetrics.metrics.records import METRICS
from tests.support.paths import ROOT

FOLDER = ROOT / "grafana"
NAMES = ("experiment", "ranking", "pipeline")
OF_METRIC = re.compile(r"streammetrics_(\w*)\$\{metric\}(\w*)")
VARIABLE = re.compile(r"\$(?:\{(\w+)(?::\w+)?\}|(\w+))")
STEPS = {"__rate_interval": "4m11s", "__range": "4m12s", "__interval": "4m13s"}
"""Unusual spans, to recognise them in queries."""
CHOICES = {"experiment": "ranker", "variant": ".+", "metric": "ndcg", "k": "10", "window": "1m", "segments": "()", "scope": "start"}
LIBRARY_LABELS: Mapping[str, tuple[str, ...]] = {
    "process_cpu_seconds_total": (),
    "process_resident_memory_bytes": (),
    "process_start_time_seconds": (),
    "up": (),
}
"""The series that the client library and Prometheus add, with their labels."""
LABELS: Mapping[str, tuple[str, ...]] = {
    **{
        f"{series.name}{part}": (*series.labels, *(("le",) if part == "_bucket" else ()))
        for series in SERIES.values()
        for part in (("_bucket", "_sum", "_count") if series.kind == "histogram" else ("",))
    },
    **LIBRARY_LABELS,
}
"""The labels of each series that a query may name. Prometheus adds job and instance."""


_OF_ONE_METRIC = tuple(rf"streammetrics_\1{name}\2" for name in METRICS)


class PanelQuery(NamedTuple):
    """One query of a panel, with its dashboard and panel."""

    dashboard: str
    panel: Mapping[str, Any]
    target: Mapping[str, Any]

    @property
    def expr(self) -> str:
        return str(self.target["expr"])

    def __str__(self) -> str:
        return f"{self.dashboard} / {self.panel['title']} / {self.target['refId']}"


@cache
def committed(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def panels(dashboard: Mapping[str, Any], *, rows: bool = False) -> Iterator[dict[str, Any]]:
    """Yield every panel, also in collapsed rows. `rows` includes the rows themselves."""
    for panel in dashboard["panels"]:
        if panel["type"] != "row" or rows:
            yield panel
        yield from panel.get("panels", ())


def queries(name: str) -> Iterator[PanelQuery]:
    for panel in panels(committed(name)):
        for target in panel.get("targets", ()):
            yield PanelQuery(name, panel, target)


def every_query() -> list[PanelQuery]:
    return [query for name in NAMES for query in queries(name)]


def filled(expr: str, choices: Mapping[str, str]) -> str:
    """Fill in the variables of a query, as Grafana does. Raises KeyError for a variable without a value."""
    return VARIABLE.sub(lambda match: choices[match[1] or match[2]], expr)


def parsed_form(expr: str, **chosen: str) -> str:
    """Fill in all variables except job. `chosen` have other values than those of `CHOICES`.

    Without a chosen metric, a series of metrics becomes that of the first metric that has it.
    """
    if "metric" not in chosen:
        expr = OF_METRIC.sub(lambda match: next(filter(SERIES.__contains__, map(match.expand, _OF_ONE_METRIC)), match[0]), expr)
    return filled(expr, {**STEPS, **CHOICES, "job": "$job", "datasource": "prometheus", **chosen})


def value_mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the words of the values, of every panel and override."""
    if isinstance(value, dict):
        if value.get("type") == "value" and isinstance(value.get("options"), dict):
            yield value["options"]
        value = [*value.values()]
    for inside in value if isinstance(value, list) else ():
        yield from value_mappings(inside)


def selectors(expr: str) -> list[Any]:
    return [node for node in nodes(promql_parser.parse(expr)) if isinstance(node, promql_parser.VectorSelector)]


def nodes(node: Any) -> Iterator[Any]:
    """Yield a PromQL expression and all expressions inside it."""
    yield node
    for inside in children(node):
        yield from nodes(inside)


def children(node: Any) -> list[Any]:
    """The PromQL expressions directly inside an expression."""
    inside = [getattr(node, part, None) for part in ("lhs", "rhs", "expr", "param", "vector_selector")]
    inside += getattr(node, "args", None) or ()
    return [part for part in inside if isinstance(part, promql_parser.Expr | promql_parser.VectorSelector)]
