"""Every series that `/metrics` shows of streammetrics, in one table: the collector, the README and the tests are driven by it.

Pure data. `python -m streammetrics.exporters.prometheus.series` prints the table as the README holds it. Where the numbers come from is told by
`origin`: from the committed state of all tasks (a global truth), from the loop of this process, or from its exporter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from streammetrics.metrics.names import METRIC_NAMES

SeriesKind: TypeAlias = Literal["gauge", "counter", "histogram", "info"]
Origin: TypeAlias = Literal["state", "loop", "exporter"]
Unit: TypeAlias = Literal["", "seconds", "records", "bytes"]

RATIO_METRIC = "item_hit_rate"
"""The one metric that is a ratio of sums and not a mean over lists."""

_MEANINGS = {
    "ndcg": "Normalised discounted cumulative gain at k",
    "ndcg_exp": "Normalised discounted cumulative gain at k with the gain 2^grade - 1",
    "dcg": "Discounted cumulative gain at k",
    "cg": "Cumulative gain at k",
    "mrr": "1 / rank of the first relevant item, 0 beyond k",
    "hit_rate": "Whether any of the first k items is relevant",
    "item_hit_rate": "Relevant items among the first k, by items shown there",
    "precision": "Relevant items among the first k, by k",
    "recall": "Relevant items among the first k, by relevant items of the list",
    "map": "Average precision at k",
}
_VALUE_LABELS = ("experiment", "variant", "k", "window", "segments")
_GROUP_LABELS = ("experiment", "variant", "window", "segments", "view")
_MEASURE_LABELS = ("experiment", "variant", "metric", "k", "scope")
_TEAM_LABELS = ("experiment", "team", "against", "scope")


@dataclass(frozen=True, slots=True)
class Series:
    """One family of series. `name` is what a query says (`..._total` and `..._info` included; a histogram without suffix).

    `listed` is the name under which the README shows it: families that differ by the metric alone share one line.
    """

    name: str
    kind: SeriesKind
    help: str
    labels: tuple[str, ...] = ()
    unit: Unit = ""
    origin: Origin = "state"
    listed: str = ""
    listed_help: str = ""

    @property
    def family(self) -> str:
        """The name without the suffix of its kind, as the OpenMetrics format and the client library say it.

        >>> SERIES["streammetrics_events_total"].family
        'streammetrics_events'
        """
        return self.name.removesuffix({"counter": "_total", "info": "_info"}.get(self.kind, ""))


def value_series(metric: str, view: str, with_feedback: bool) -> str:
    """The gauge that shows a metric in a view ("final" or "live").

    >>> value_series("ndcg", "live", True)
    'streammetrics_live_ndcg_with_feedback'
    """
    return f"streammetrics_{'' if view == 'final' else 'live_'}{metric}{'_with_feedback' if with_feedback else ''}"


def sum_series(metric: str, kind: str) -> str:
    """The counter that sums a column of final lists; `kind` is that of the column: sum, hits or places.

    >>> sum_series("item_hit_rate", "places")
    'streammetrics_final_item_hit_rate_places_total'
    """
    return f"streammetrics_final_{metric}_{kind}_total"


def _value_gauges() -> Iterator[Series]:
    for view, lists in (("final", "final lists of the window"), ("live", "lists of the window so far")):
        for with_feedback in (False, True):
            over = lists + (", those with a grade above 0" if with_feedback else "")
            for metric in METRIC_NAMES:
                how = "ratio of sums over" if metric == RATIO_METRIC else "mean over"
                yield Series(
                    value_series(metric, view, with_feedback),
                    "gauge",
                    f"{_MEANINGS[metric]}: {how} the {over}.",
                    _VALUE_LABELS,
                    listed=value_series("<metric>", view, with_feedback),
                    listed_help=f"The metric at k: mean ({RATIO_METRIC}: ratio of sums) over the {over}.",
                )


def _sum_counters() -> Iterator[Series]:
    labels = ("experiment", "variant", "k")
    for metric in METRIC_NAMES:
        if metric == RATIO_METRIC:
            yield Series(sum_series(metric, "hits"), "counter", "Relevant items among the first k of final lists.", labels)
            yield Series(sum_series(metric, "places"), "counter", "Items shown among the first k of final lists.", labels)
        else:
            yield Series(
                sum_series(metric, "sum"),
                "counter",
                f"{_MEANINGS[metric]}: sum over final lists.",
                labels,
                listed=sum_series("<metric>", "sum"),
                listed_help=f"The metric at k (all but {RATIO_METRIC}): sum over final lists; by final lists, a mean over any time.",
            )


def _experiment_gauges() -> Iterator[Series]:
    """What is known of experiments; the rows are those of `ExperimentReport.rows`, whose absent labels are left out here."""
    of_measure = {
        "mean": "Mean of a measure over the final lists (or users) of a variant.",
        "lift": "Relative difference of a variant's mean to the control's.",
        "lift_lower": "Least lift that the data allow, at all looks together.",
        "lift_upper": "Greatest lift that the data allow, at all looks together.",
        "verdict": "2 improved, 1 safe, 0 inconclusive, -1 regressed, -2 invalid; without variant, metric and k: of the whole experiment.",
    }
    reduced = ", with the variance reduced by what users did before the experiment."
    of_measure |= {f"reduced_{name}": of_measure[name].removesuffix(".") + reduced for name in ("mean", "lift", "lift_lower", "lift_upper")}
    of_measure["judged_lift_upper"] = (
        "Of a measure that may page: the lift_upper that its verdict goes by, the plain one or, with cuped_verdict, the reduced one."
    )
    of_measure["variance_reduction"] = "Share of the variance of a variant's mean that what users did before the experiment explains."
    for name, says in of_measure.items():
        yield _gauge(f"experiment_{name}", says, *_MEASURE_LABELS)
    yield _gauge(
        "experiment_paging", "1 for each measure that decides about its experiment and may page.", "experiment", "metric", "k", "scope"
    )
    yield _gauge("experiment_users", "Users who saw this variant and no other.", "experiment", "variant", "scope")
    yield _gauge("experiment_srm_p_value", "Chance of so uneven a split of users, at all looks together.", "experiment", "scope")
    yield _gauge("experiment_multi_exposed_users", "Users who saw several variants, and are excluded.", "experiment", "scope")
    of_team = {
        "credit": "Interleaved lists that a team won less those it lost against the other, by lists.",
        "credit_lower": "Least mean credit that the data allow, at all looks together.",
        "credit_upper": "Greatest mean credit that the data allow, at all looks together.",
        "users": "Users of interleaved lists that compare both teams.",
        "lists": "Interleaved lists that compare both teams.",
        "verdict": "2 preferred, 0 inconclusive, -1 the other is preferred, -2 invalid.",
    }
    for name, says in of_team.items():
        yield _gauge(f"interleaving_{name}", says, *_TEAM_LABELS)
    yield _gauge("experiment_entered_timestamp_seconds", "Event time up to which all lists are in the experiments.", unit="seconds")


def _counter(name: str, says: str, *labels: str, origin: Origin = "state") -> Series:
    return Series(f"streammetrics_{name}_total", "counter", says, labels, origin=origin)


def _gauge(name: str, says: str, *labels: str, origin: Origin = "state", unit: Unit = "") -> Series:
    return Series(f"streammetrics_{name}", "gauge", says, labels, unit, origin)


TABLE: tuple[Series, ...] = (
    *_value_gauges(),
    _gauge("window_lists", "Lists of the window.", *_GROUP_LABELS),
    _gauge("window_lists_with_feedback", "Lists of the window with a grade above 0.", *_GROUP_LABELS),
    _gauge("window_end_timestamp_seconds", "Event time at which the shown window ends.", "window", "view", unit="seconds"),
    _gauge("window_users", "Distinct users of the final lists of the window.", "experiment", "variant", "window"),
    _gauge("user_hit_rate", "Users with a hit among the first k, by users of the window.", "experiment", "variant", "k", "window"),
    _gauge("window_users_end_timestamp_seconds", "Event time at which the window of users ends.", "window", unit="seconds"),
    _counter("windows_withheld", "Windows not shown because some task no longer holds all of their panes."),
    _counter("final_lists", "Final lists.", "experiment", "variant"),
    _counter("final_lists_with_feedback", "Final lists with a grade above 0.", "experiment", "variant"),
    *_sum_counters(),
    Series(
        "streammetrics_variant_info", "info", "Role of a variant: control, treatment or interleaved.", ("experiment", "variant", "role")
    ),
    *_experiment_gauges(),
    _counter("events", "Events read, whatever became of them.", "topic"),
    _counter("dropped", "Events refused, by reason: malformed, future, late (in _late_total too) or beyond a limit.", "reason", "topic"),
    _counter("late", "Events older than the watermark less the allowed lateness.", "topic"),
    _counter("duplicates", "Impressions that repeat another one of their session.", "topic"),
    _counter("feedback_matched", "Feedback that counts for a list.", "topic"),
    _counter("feedback_repeated", "Matched feedback less distinct (list, item, action).", "topic"),
    _counter("feedback_unmatched", "Feedback that counts for no list, by reason: orphan, out_of_list or too_old.", "reason", "topic"),
    _counter("feedback_unknown_action", "Feedback whose action no grade rule names.", "topic"),
    _counter("key_mismatch", "Events of users whose id does not hash to the partition that they came on.", "topic"),
    _counter(
        "experiment_lists_full", "Final lists that a user had too many of to count in an experiment, once for each of its scopes.", "topic"
    ),
    _counter("interleaving_too_many_teams", "Interleaved lists of more teams, or pairs of teams, than are compared.", "topic"),
    _gauge("watermark_timestamp_seconds", "Event time up to which an input has been read.", "topic", "partition", unit="seconds"),
    _gauge(
        "tasks_watermark_timestamp_seconds",
        "Event time up to which all tasks have come; inputs that are silent hold none of them.",
        unit="seconds",
    ),
    _gauge("tasks", "Tasks of the namespace: partitions of each topic."),
    _gauge("open_sessions", "Sessions that are open."),
    _gauge("users_open", "Users who have an open session."),
    _gauge("lag_records", "Records that an input of this worker has ahead of it.", "topic", "partition", origin="loop", unit="records"),
    _gauge("lag_seconds", "Age of the last record read, 0 at the end of the input.", "topic", "partition", origin="loop", unit="seconds"),
    Series("streammetrics_commit_seconds", "histogram", "Time that a commit took.", unit="seconds", origin="loop"),
    _counter("commits", "Commits by what the store said: written, already, fenced, conflict or failed.", "status", origin="loop"),
    _counter("rebalances", "Changes of the tasks that this worker owns.", origin="loop"),
    _counter("client_rebuilds", "Kafka clients replaced because they had gone deaf.", origin="loop"),
    _counter("dead_letters", "Refused records written to the dead letters; repeated ones after a crash too.", origin="loop"),
    _gauge("cached_users", "Users held in memory.", origin="loop"),
    _gauge("paused_inputs", "Inputs that are paused now.", origin="loop"),
    _gauge("source_up", "1 while the event source serves, 0 while it is tried again.", origin="loop"),
    _gauge("store_up", "1 while the state store serves, 0 while it is tried again.", origin="exporter"),
    _gauge("store_memory_bytes", "Memory that a server of the state store uses.", "node", origin="exporter", unit="bytes"),
    _gauge("store_memory_limit_bytes", "Most memory that a server may use; 0 for no limit.", "node", origin="exporter", unit="bytes"),
    _gauge("store_evicts", "1 if a server may delete state when memory is short, else 0.", "node", origin="exporter"),
    _gauge("store_forgets", "1 if a restart of a server may begin empty, else 0.", "node", origin="exporter"),
    _gauge("series", "Series of streammetrics on this page.", origin="exporter"),
    _gauge("series_limit", "Most series that this page may have.", origin="exporter"),
    _gauge("series_left_out", "Series that are folded into _other or left out now.", origin="exporter"),
    _counter("series_folded", "Series that were folded into _other or left out, each time that more of them were.", origin="exporter"),
    Series("streammetrics_build_info", "info", "Version of streammetrics.", ("version",), origin="exporter"),
)

SERIES: Mapping[str, Series] = MappingProxyType({series.name: series for series in TABLE})
"""The table by name."""


def markdown() -> str:
    """The table as Markdown, one line for the families that differ by the metric alone; ends with a newline."""
    listed: dict[str, Series] = {}
    for series in TABLE:
        listed.setdefault(series.listed or series.name, series)
    lines = ["| series | kind | labels | what it says |", "|---|---|---|---|"]
    for name, series in listed.items():
        labels = ", ".join(series.labels) or "–"  # noqa: RUF001 (a dash says none)
        lines.append(f"| `{name}` | {series.kind} | {labels} | {series.listed_help or series.help} |")
    metrics = ", ".join(f"`{metric}`" for metric in METRIC_NAMES)
    return "\n".join([*lines, "", f"`<metric>` is one of {metrics}."]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
