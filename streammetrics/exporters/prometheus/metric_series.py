"""The series of metrics over lists: means of windows, and sums over final lists."""

from __future__ import annotations

from collections.abc import Iterator

from streammetrics.exporters.prometheus.family import Series
from streammetrics.metrics.records import METRICS, ColumnKind, MetricRecord

_VIEWS = (("final", "final lists of the window"), ("live", "lists in the window so far"))
_STREAMED = {name: record for name, record in METRICS.items() if record.is_streamed and record.kind not in ("users", "bucket")}
_OF_COLUMN = {
    "hits": "Relevant items among the first k items of final lists.",
    "places": "Items shown at the first k ranks of final lists.",
}


def value_series(metric: str, view: str) -> str:
    """Return the name of the gauge for a metric in a view ("final" or "live").

    >>> value_series("ndcg", "live")
    'streammetrics_live_ndcg'
    """
    return f"streammetrics_{'' if view == 'final' else 'live_'}{metric}"


def sum_series(metric: str, kind: str) -> str:
    """Return the name of the counter that sums a column over final lists. `kind` is the column's, such as sum or places.

    >>> sum_series("item_hit_rate", "places")
    'streammetrics_final_item_hit_rate_places_total'
    """
    return f"streammetrics_final_{metric}_{kind}_total"


def value_gauges() -> Iterator[Series]:
    """The value of each metric in windows. A metric without a cut-off has an empty k."""
    for view, lists in _VIEWS:
        for name, record in _STREAMED.items():
            yield Series(
                value_series(name, view),
                "gauge",
                f"{record.help}. {_how(record)} the {lists}.",
                ("experiment", "variant", "k", "window", "segments"),
                listed=value_series("<metric>", view),
                listed_help=f"Value of the metric at k over the {lists}: a mean, a ratio of sums, or a quantile.",
            )


def _how(record: MetricRecord) -> str:
    if record.kind != "judged":
        return "Over"
    return "Ratio of sums over" if record.is_per_item else "Mean over"


def column_counters() -> Iterator[Series]:
    """The sum of each column of each metric over final lists."""
    for name, record in _STREAMED.items():
        for kind in record.columns:
            yield Series(
                sum_series(name, kind),
                "counter",
                _OF_COLUMN.get(kind, f"{record.help}. {_sum(kind)} over final lists."),
                ("experiment", "variant", "k"),
                listed=sum_series("<metric>", kind),
                listed_help=_OF_COLUMN.get(kind, f"{_sum(kind)} of the metric at k over final lists.{_use(kind)}"),
            )


def _sum(kind: ColumnKind) -> str:
    return "Sum" if kind == "sum" else f"Sum of the {kind}"


def _use(kind: ColumnKind) -> str:
    return " Its increase by that of the lists is a mean." if kind == "sum" else ""
