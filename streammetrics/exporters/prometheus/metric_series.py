"""The series of metrics over lists: means of windows, and sums over final lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from streammetrics.exporters.prometheus.family import Series
from streammetrics.metrics.assessment import assessment_kinds
from streammetrics.metrics.engagement import engagement_kinds
from streammetrics.metrics.names import METRIC_NAMES

RATIO_METRIC = "item_hit_rate"
"""The only metric that is a ratio of sums. All others are means over lists."""

_MEANINGS = {
    "ndcg": "Normalised discounted cumulative gain at k",
    "ndcg_exp": "Normalised discounted cumulative gain at k, with gain 2^grade - 1",
    "dcg": "Discounted cumulative gain at k",
    "cg": "Cumulative gain at k",
    "mrr": "Reciprocal rank at k: 1 / rank of the first relevant item, 0 if it ranks below k",
    "hit_rate": "Hit rate at k by list: 1 if any of the first k items is relevant, else 0",
    "item_hit_rate": "Hit rate at k by item: relevant items among the first k / items shown there",
    "precision": "Precision at k: relevant items among the first k / k",
    "recall": "Recall at k: relevant items among the first k / relevant items of the list",
    "map": "Average precision at k",
    "f1": "Harmonic mean of precision and recall at k",
    "r_precision": "Relevant items among the first R / R, with R relevant items of the list (no k)",
    "rbp": "Rank-biased precision at k, with the persistence metrics.rbp_persistence",
    "err": "Expected reciprocal rank at k, on the scale metrics.err_grade_max",
}
ENGAGEMENT_MEANINGS = {
    "zero_result_rate": "Share of lists without items",
    "abandonment_rate": "Share of lists with items that have no grade above 0",
    "first_click_share": "Share of first clicks at rank k or better, of lists with a click",
    "first_click_rank": "Mean rank of the first click of a list, of lists with a click",
    "time_to_first_click": "Mean seconds from a list to its first click, of lists with a click",
    **{
        f"time_to_first_click_p{quantile}": f"Seconds within which {quantile} % of first clicks come, to the next bound of a histogram"
        for quantile in (50, 90, 99)
    },
    "satisfied_rate": "Share of lists with an item of engagement.satisfied_grade or above",
    "reformulation_rate": "Share of lists without a grade above 0 that another list follows within engagement.reformulation_ms",
    "lists_per_session": "Lists per session, of sessions that begin with a list of the group",
    "purchases_per_list": "Purchased items per list",
    "value_per_list": "Value of the purchased items per list",
}
ASSESSMENT_MEANINGS = {
    "diversity": "Mean share of attributes that differ, over all pairs of the first k items that the catalogue has",
    "novelty": "Mean of log2(all users / users of the item), over the first k items",
    "popularity_share": "Mean share of an item in all earlier interactions, over the first k items",
    "catalogue_share": "Share of the first k items that the catalogue has",
    "fallback_share": "Share of lists that came from a fallback",
}

_VIEWS = (("final", "final lists of the window"), ("live", "lists in the window so far"))
_VALUE_LABELS = ("experiment", "variant", "k", "window", "segments")


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
    for view, lists in _VIEWS:
        for metric in METRIC_NAMES:
            how = "Ratio of sums over" if metric == RATIO_METRIC else "Mean over"
            yield Series(
                value_series(metric, view),
                "gauge",
                f"{_MEANINGS[metric]}. {how} the {lists}.",
                _VALUE_LABELS,
                listed=value_series("<metric>", view),
                listed_help=f"Mean of the metric at k over the {lists} ({RATIO_METRIC}: ratio of sums).",
            )


def sum_counters() -> Iterator[Series]:
    labels = ("experiment", "variant", "k")
    for metric in METRIC_NAMES:
        if metric == RATIO_METRIC:
            yield Series(sum_series(metric, "hits"), "counter", "Relevant items among the first k items of final lists.", labels)
            yield Series(sum_series(metric, "places"), "counter", "Items shown at the first k ranks of final lists.", labels)
        else:
            yield Series(
                sum_series(metric, "sum"),
                "counter",
                f"{_MEANINGS[metric]}. Sum over final lists.",
                labels,
                listed=sum_series("<metric>", "sum"),
                listed_help=f"Sum of the metric at k over final lists (not {RATIO_METRIC}). Its increase by that of the lists is a mean.",
            )


def engagement_series() -> Iterator[Series]:
    """Gauges and counters of engagement metrics. Only `first_click_share` has a k."""
    return _series_of_kind(ENGAGEMENT_MEANINGS, engagement_kinds)


def assessment_series() -> Iterator[Series]:
    """Gauges and counters of assessment metrics. Only `fallback_share` has no k."""
    return _series_of_kind(ASSESSMENT_MEANINGS, assessment_kinds)


def _series_of_kind(meanings: Mapping[str, str], kinds_of: Callable[[str], Iterable[str]]) -> Iterator[Series]:
    for view, lists in _VIEWS:
        for metric, meaning in meanings.items():
            yield Series(
                value_series(metric, view),
                "gauge",
                f"{meaning}. Over the {lists}.",
                _VALUE_LABELS,
                listed=value_series("<metric>", view),
            )
    for metric, meaning in meanings.items():
        for kind in kinds_of(metric):
            of_what = "Sum" if kind == "sum" else f"Sum of the {kind}"
            yield Series(
                sum_series(metric, kind),
                "counter",
                f"{meaning}. {of_what} over final lists.",
                ("experiment", "variant", "k"),
                listed=sum_series("<metric>", kind),
                listed_help=f"{of_what} of the metric over final lists.",
            )
