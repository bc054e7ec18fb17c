"""The table of all series on `/metrics`. The collector, the page `streammetrics/exporters/README.md` and the tests use it.

Pure data. `python -m streammetrics.exporters.prometheus.series` prints the table for that page. `origin` says where a number
comes from: the committed state of all tasks (the same in every process), the loop of this process, or its exporter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from streammetrics.metrics.engagement import engagement_kinds
from streammetrics.metrics.names import METRIC_NAMES

SeriesKind: TypeAlias = Literal["gauge", "counter", "histogram", "info"]
Origin: TypeAlias = Literal["state", "loop", "exporter"]
Unit: TypeAlias = Literal["", "seconds", "records", "bytes"]

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
_ENGAGEMENT = {
    "zero_result_rate": "Share of lists without items",
    "abandonment_rate": "Share of lists with items that have no grade above 0",
    "first_click_share": "Share of first clicks at rank k or better, of lists with a click",
    "first_click_rank": "Mean rank of the first click of a list, of lists with a click",
    "time_to_first_click": "Mean seconds from a list to its first click, of lists with a click",
    **{
        f"time_to_first_click_p{each}": f"Seconds within which {each} % of first clicks come, to the next bound of a histogram"
        for each in (50, 90, 99)
    },
    "satisfied_rate": "Share of lists with an item of engagement.satisfied_grade or above",
    "reformulation_rate": "Share of lists without a grade above 0 that another list follows within engagement.reformulation_ms",
    "lists_per_session": "Lists per session, of sessions that begin with a list of the group",
    "purchases_per_list": "Purchased items per list",
    "value_per_list": "Value of the purchased items per list",
}
_VALUE_LABELS = ("experiment", "variant", "k", "window", "segments")
_GROUP_LABELS = ("experiment", "variant", "window", "segments", "view")
_MEASURE_LABELS = ("experiment", "variant", "metric", "k", "scope")
_STAGE_LABELS = ("experiment", "stage", "scope")
_TEAM_LABELS = ("experiment", "team", "against", "scope")


@dataclass(frozen=True, slots=True)
class Series:
    """One family of series.

    `name` is the name to query, with `_total` or `_info`; a histogram's has no suffix. `listed` is its name in the Markdown
    table, where families that differ only by the metric share one line.
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
        """The name without the suffix of its kind, as OpenMetrics and the client library use it.

        >>> SERIES["streammetrics_events_total"].family
        'streammetrics_events'
        """
        return self.name.removesuffix({"counter": "_total", "info": "_info"}.get(self.kind, ""))


def value_series(metric: str, view: str, with_feedback: bool) -> str:
    """Return the name of the gauge for a metric in a view ("final" or "live").

    >>> value_series("ndcg", "live", True)
    'streammetrics_live_ndcg_with_feedback'
    """
    return f"streammetrics_{'' if view == 'final' else 'live_'}{metric}{'_with_feedback' if with_feedback else ''}"


def sum_series(metric: str, kind: str) -> str:
    """Return the name of the counter that sums a column over final lists. `kind` is the column's, such as sum or places.

    >>> sum_series("item_hit_rate", "places")
    'streammetrics_final_item_hit_rate_places_total'
    """
    return f"streammetrics_final_{metric}_{kind}_total"


def _value_gauges() -> Iterator[Series]:
    for view, lists in (("final", "final lists of the window"), ("live", "lists in the window so far")):
        for with_feedback in (False, True):
            over = lists + (" that have a grade above 0" if with_feedback else "")
            for metric in METRIC_NAMES:
                how = "Ratio of sums over" if metric == RATIO_METRIC else "Mean over"
                yield Series(
                    value_series(metric, view, with_feedback),
                    "gauge",
                    f"{_MEANINGS[metric]}. {how} the {over}.",
                    _VALUE_LABELS,
                    listed=value_series("<metric>", view, with_feedback),
                    listed_help=f"Mean of the metric at k over the {over} ({RATIO_METRIC}: ratio of sums).",
                )


def _sum_counters() -> Iterator[Series]:
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


def _engagement_series() -> Iterator[Series]:
    """Gauges and counters of engagement metrics. Only `first_click_share` has a k."""
    for view, lists in (("final", "final lists of the window"), ("live", "lists in the window so far")):
        for metric, meaning in _ENGAGEMENT.items():
            yield Series(
                value_series(metric, view, False),
                "gauge",
                f"{meaning}. Over the {lists}.",
                _VALUE_LABELS,
                listed=value_series("<engagement metric>", view, False),
                listed_help=f"An engagement metric over the {lists}. Only first_click_share has a k.",
            )
    for metric, meaning in _ENGAGEMENT.items():
        for kind in engagement_kinds(metric):
            of_what = "Sum" if kind == "sum" else f"Sum of the {kind}"
            yield Series(
                sum_series(metric, kind),
                "counter",
                f"{meaning}. {of_what} over final lists.",
                ("experiment", "variant", "k"),
                listed=sum_series("<engagement metric>", kind),
                listed_help=f"{of_what} of an engagement metric over final lists.",
            )


def _experiment_gauges() -> Iterator[Series]:
    """Gauges of experiments. `ExperimentReport.rows` makes their rows; labels without a value are left out."""
    of_measure = {
        "mean": "Mean of a measure over the final lists (or users) of a variant.",
        "lift": "Relative difference between the variant's mean and the control's.",
        "lift_lower": "Lower bound of the lift, at 95 % confidence by default. Safe to check at any time.",
        "lift_upper": "Upper bound of the lift, at 95 % confidence by default. Safe to check at any time.",
        "verdict": (
            "Verdict: 2 improved, 1 safe, 0 inconclusive, -1 regressed, -2 invalid, -3 mixed. "
            "The whole experiment's has no variant, metric and k."
        ),
    }
    reduced = " With CUPED: variance reduced by the users' earlier behaviour."
    of_measure |= {f"reduced_{name}": of_measure[name] + reduced for name in ("mean", "lift", "lift_lower", "lift_upper")}
    of_measure["judged_lift_upper"] = (
        "The upper bound that decides the verdict of a paging measure: lift_upper, or with cuped_verdict reduced_lift_upper. "
        "For measures that get better when they fall, the upper bound of minus the lift."
    )
    of_measure["variance_reduction"] = "Share of the variance of the variant's mean that CUPED removes."
    for name, says in of_measure.items():
        yield _gauge(f"experiment_{name}", says, *_MEASURE_LABELS)
    yield _gauge("experiment_paging", "1 for each measure that decides the verdict and may page.", "experiment", "metric", "k", "scope")
    yield _gauge(
        "experiment_gate",
        "Gate of a rollout: 1 pass, 0 wait, -1 fail. The whole experiment's has no variant. It counts only while the watermark is recent.",
        "experiment",
        "variant",
        "scope",
    )
    yield _gauge("experiment_users", "Users who saw only this variant.", "experiment", "variant", "scope")
    yield _gauge(
        "experiment_effective_users",
        "Users of a variant, weighted by their lists: few if a few users have most lists.",
        "experiment",
        "variant",
        "scope",
    )
    yield _gauge(
        "experiment_largest_user_share_max",
        "Largest share of a variant's lists that one user can have.",
        "experiment",
        "variant",
        "scope",
    )
    yield _gauge(
        "experiment_srm_p_value",
        "p-value of the sample ratio check: is the split of users as configured? Absent without configured shares. "
        "Safe to check at any time.",
        "experiment",
        "scope",
    )
    yield _gauge("experiment_multi_exposed_users", "Users who saw several variants. They are excluded.", "experiment", "scope")
    yield _gauge("experiment_stage_current", "1 for the stage of a rollout that runs now, 0 for the others.", *_STAGE_LABELS)
    yield _gauge("experiment_stage_srm_p_value", "p-value of the split within a stage, against its own shares.", *_STAGE_LABELS)
    yield _gauge("experiment_stage_users", "Users of a variant in one stage of a rollout.", "experiment", "stage", "variant", "scope")
    of_team = {
        "credit": "Share of interleaved lists that a team won, minus the share that it lost against the other team.",
        "credit_lower": "Lower bound of the credit, at 95 % confidence by default. Safe to check at any time.",
        "credit_upper": "Upper bound of the credit, at 95 % confidence by default. Safe to check at any time.",
        "users": "Users of the interleaved lists that compare both teams.",
        "lists": "Interleaved lists that compare both teams.",
        "verdict": "Verdict: 2 preferred, 0 inconclusive, -1 the other team is preferred, -2 invalid.",
    }
    for name, says in of_team.items():
        yield _gauge(f"interleaving_{name}", says, *_TEAM_LABELS)
    yield _gauge("experiment_entered_timestamp_seconds", "Event time up to which all final lists count in the experiments.", unit="seconds")


def _counter(name: str, says: str, *labels: str, origin: Origin = "state") -> Series:
    return Series(f"streammetrics_{name}_total", "counter", says, labels, origin=origin)


def _gauge(name: str, says: str, *labels: str, origin: Origin = "state", unit: Unit = "") -> Series:
    return Series(f"streammetrics_{name}", "gauge", says, labels, unit, origin)


TABLE: tuple[Series, ...] = (
    *_value_gauges(),
    _gauge("window_lists", "Lists in the window.", *_GROUP_LABELS),
    _gauge("window_lists_with_feedback", "Lists in the window with a grade above 0.", *_GROUP_LABELS),
    _gauge("window_end_timestamp_seconds", "Event time at which the newest complete window ends.", "window", "view", unit="seconds"),
    _gauge("window_users", "Distinct users with final lists in the window.", "experiment", "variant", "window"),
    _gauge(
        "user_hit_rate",
        "Hit rate at k by user: users with a hit among the first k items / users of the window.",
        "experiment",
        "variant",
        "k",
        "window",
    ),
    _gauge("window_users_end_timestamp_seconds", "Event time at which the newest complete window of users ends.", "window", unit="seconds"),
    _counter("windows_withheld", "Windows that were not published because a task no longer has all their panes."),
    _counter("final_lists", "Final lists.", "experiment", "variant"),
    _counter("final_lists_with_feedback", "Final lists with a grade above 0.", "experiment", "variant"),
    *_sum_counters(),
    *_engagement_series(),
    Series(
        "streammetrics_variant_info", "info", "Role of a variant: control, treatment or interleaved.", ("experiment", "variant", "role")
    ),
    *_experiment_gauges(),
    _counter("events", "Events read, including refused ones.", "topic"),
    _counter("dropped", "Events refused, by reason: malformed, future, late (also in _late_total) or over a limit.", "reason", "topic"),
    _counter(
        "labels_dropped",
        "Experiments and segments left out of a list, by reason; too_many_groups counts lists with a segment folded into _other.",
        "reason",
        "topic",
    ),
    _counter("late", "Events older than the watermark minus the allowed lateness.", "topic"),
    _counter("duplicates", "Impressions that repeat an earlier one of their session.", "topic"),
    _counter("ignored", "Records that a mapping with kind = ignore leaves out.", "topic"),
    _counter("feedback_matched", "Feedback that counts for a list, repeats included.", "topic"),
    _counter("feedback_repeated", "Matched feedback that repeats the same list, item and action.", "topic"),
    _counter("feedback_unmatched", "Feedback that counts for no list, by reason: orphan, out_of_list or too_old.", "reason", "topic"),
    _counter("feedback_unknown_action", "Feedback with an action that has no grade.", "topic"),
    _counter("events_ahead", "Events that were ahead of the other events of their input and moved no watermark.", "topic"),
    _gauge("users_on_several_partitions_ratio", "Share of sampled users with events on several partitions; 0 if fewer than 3."),
    _counter(
        "key_mismatch", "Events on another partition than Kafka's default partitioner gives the user id. No problem by itself.", "topic"
    ),
    _counter(
        "experiment_lists_full", "Final lists left out of an experiment because their user has too many. Counted once per scope.", "topic"
    ),
    _counter("experiment_lists_unstaged", "Final lists left out of an experiment because they are in none of its stages.", "topic"),
    _counter("interleaving_too_many_teams", "Interleaved lists not compared because they have too many teams or pairs of teams.", "topic"),
    _gauge(
        "watermark_timestamp_seconds",
        "Watermark of an input: the event time up to which it has been read.",
        "topic",
        "partition",
        unit="seconds",
    ),
    _gauge(
        "tasks_watermark_timestamp_seconds",
        "Lowest watermark of all tasks; idle inputs are ignored.",
        unit="seconds",
    ),
    _gauge("tasks", "Tasks of the namespace. It is the number of partitions of each topic."),
    _gauge("open_sessions", "Open sessions."),
    _gauge("users_open", "Users with an open session."),
    _gauge("lag_records", "Records that this worker has not read yet.", "topic", "partition", origin="loop", unit="records"),
    _gauge("lag_seconds", "Age of the last record read; 0 at the end of the input.", "topic", "partition", origin="loop", unit="seconds"),
    Series("streammetrics_commit_seconds", "histogram", "Duration of a commit.", unit="seconds", origin="loop"),
    _counter("commits", "Commits by result: written, already, fenced, conflict or failed.", "status", origin="loop"),
    _counter("state_written_bytes", "Bytes of state that commits wrote, without names and keys.", origin="loop"),
    _counter("rebalances", "Rebalances: changes of the tasks that this worker owns.", origin="loop"),
    _counter("client_rebuilds", "Kafka clients replaced because they stalled.", origin="loop"),
    _counter("dead_letters", "Refused records written to the dead-letter topic. After a crash some are written again.", origin="loop"),
    _gauge("cached_users", "Users cached in memory.", origin="loop"),
    _gauge("paused_inputs", "Inputs that are paused.", origin="loop"),
    _gauge("source_up", "1 if the event source answers, 0 while this process retries it.", origin="loop"),
    _gauge("registry_up", "1 if no input waits for a schema registry that does not answer, else 0.", origin="loop"),
    _gauge("store_up", "1 if the state store answers, 0 while this process retries it.", origin="exporter"),
    _gauge("store_memory_bytes", "Memory used by a server of the state store.", "node", origin="exporter", unit="bytes"),
    _gauge(
        "store_memory_limit_bytes", "Memory limit of a server of the state store; 0 for no limit.", "node", origin="exporter", unit="bytes"
    ),
    _gauge("store_evicts", "1 if a server may delete state when memory is full, else 0.", "node", origin="exporter"),
    _gauge("store_forgets", "1 if a server loses its state at a restart, else 0.", "node", origin="exporter"),
    _counter("webhooks", "Messages of the webhook by outcome: sent, failed (tries) or given_up.", "status", origin="exporter"),
    _counter("results", "Records sent to the topic of results, and failed writes (failed).", "status", origin="exporter"),
    _counter(
        "result_files",
        "Files of results by outcome: written, unchanged (found with the same content) or failed (tries).",
        "status",
        origin="exporter",
    ),
    _counter("result_rows", "Rows in the files of results that were written.", origin="exporter"),
    _gauge(
        "result_files_lag_seconds",
        "Event time of final panes that are in no file yet. It grows to results.file_ms, and after a start it counts all stored panes.",
        origin="exporter",
        unit="seconds",
    ),
    _gauge("webhooks_waiting", "Changes of verdicts that wait to be sent by the webhook of any process.", origin="exporter"),
    _gauge(
        "webhooks_oldest_timestamp_seconds",
        "Time of the oldest change that waits to be sent. Absent if none waits.",
        origin="exporter",
        unit="seconds",
    ),
    _gauge("series", "Series of streammetrics on /metrics.", origin="exporter"),
    _gauge("series_limit", "Largest number of series that /metrics may have.", origin="exporter"),
    _gauge("series_left_out", "Series that are now folded into _other or left out.", origin="exporter"),
    _counter("series_folded", "Increases of streammetrics_series_left_out, summed.", origin="exporter"),
    _gauge(
        "mark_timestamp_seconds",
        "Time of a deploy or an alert posted to /api/marks.",
        "kind",
        "experiment",
        "text",
        origin="exporter",
        unit="seconds",
    ),
    Series("streammetrics_build_info", "info", "Version of streammetrics.", ("version",), origin="exporter"),
)

SERIES: Mapping[str, Series] = MappingProxyType({series.name: series for series in TABLE})
"""The table by name."""


def markdown() -> str:
    """Return the table as Markdown, with one line for families that differ only by the metric. Ends with a newline."""
    listed: dict[str, Series] = {}
    for series in TABLE:
        listed.setdefault(series.listed or series.name, series)
    lines = ["| series | kind | labels | meaning |", "|---|---|---|---|"]
    for name, series in listed.items():
        labels = ", ".join(series.labels) or "–"  # noqa: RUF001 (a dash marks an empty cell)
        lines.append(f"| `{name}` | {series.kind} | {labels} | {series.listed_help or series.help} |")
    metrics = ", ".join(f"`{metric}`" for metric in METRIC_NAMES)
    engagement = ", ".join(f"`{metric}`" for metric in _ENGAGEMENT)
    return "\n".join([*lines, "", f"`<metric>` is one of {metrics}.", "", f"`<engagement metric>` is one of {engagement}."]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
