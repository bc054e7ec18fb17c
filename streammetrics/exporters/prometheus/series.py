"""The table of all series on `/metrics`. The collector, the page `streammetrics/exporters/README.md` and the tests use it.

Pure data. `python -m streammetrics.exporters.prometheus.series` prints the table for that page.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

from streammetrics.exporters.prometheus.experiment_series import experiment_gauges
from streammetrics.exporters.prometheus.family import Series, counter, gauge
from streammetrics.exporters.prometheus.metric_series import column_counters, value_gauges
from streammetrics.metrics.records import METRICS

METRIC_PAGES = (
    "[`metrics.names`](../metrics/README.md#names), [`engagement.names`](../windows/engagement.md)"
    " or [`assessment.names`](../windows/assessment.md)"
)
_GROUP_LABELS = ("experiment", "variant", "window", "segments", "view")

TABLE: tuple[Series, ...] = (
    *value_gauges(),
    gauge("window_lists", "Lists in the window.", *_GROUP_LABELS),
    gauge("window_lists_with_feedback", "Final lists in the window with a grade above 0.", *_GROUP_LABELS),
    gauge("window_end_timestamp_seconds", "Event time at which the newest complete window ends.", "window", "view", unit="seconds"),
    gauge("window_users", "Distinct users with final lists in the window.", "experiment", "variant", "window"),
    gauge("user_hit_rate", f"{METRICS['user_hit_rate'].help}.", "experiment", "variant", "k", "window"),
    gauge("window_users_end_timestamp_seconds", "Event time at which the newest complete window of users ends.", "window", unit="seconds"),
    counter("windows_withheld", "Windows that were not published because a task no longer has all their panes."),
    counter("final_lists", "Final lists.", "experiment", "variant"),
    counter("final_lists_with_feedback", "Final lists with a grade above 0.", "experiment", "variant"),
    *column_counters(),
    Series(
        "streammetrics_variant_info",
        "info",
        "Role of a variant: control, treatment, holdout or interleaved.",
        ("experiment", "variant", "role"),
    ),
    *experiment_gauges(),
    counter("events", "Events read, including refused ones.", "topic"),
    counter("dropped", "Events refused, by reason: malformed, future, late (also in _late_total) or over a limit.", "reason", "topic"),
    counter(
        "labels_dropped",
        "Experiments and segments left out of a list, by reason; too_many_groups counts lists with a segment folded into _other.",
        "reason",
        "topic",
    ),
    counter("variants_as_text", "Variants of lists that were sent as a number or a boolean and are read as text.", "topic"),
    counter("late", "Events older than the watermark minus the allowed lateness.", "topic"),
    counter("duplicates", "Impressions that repeat an earlier one of their session, and exposures that were sent before.", "topic"),
    counter("list_ids_reused", "Whole lists with the id of another list of their session, but other items. They are not used.", "topic"),
    counter("place_conflicts", "Lists in parts of which two items claim one place.", "topic"),
    counter("ignored", "Records that a reader leaves out, and exposures to experiments that are not read.", "topic"),
    counter("exposures", "Exposures that were used, duplicates included.", "topic"),
    counter("lists_exposed", "With exposures: lists of ended sessions that have a variant of some experiment.", "topic"),
    counter("lists_unexposed", "With exposures: lists of ended sessions without any variant.", "topic"),
    counter("feedback_matched", "Feedback that counts for a list, repeats included.", "topic"),
    counter("feedback_repeated", "Matched feedback that repeats the same list, item and action.", "topic"),
    counter("feedback_unmatched", "Feedback that counts for no list, by reason: orphan, out_of_list or too_old.", "reason", "topic"),
    counter("feedback_unknown_action", "Feedback with an action that has no grade.", "topic"),
    counter("events_ahead", "Events that were ahead of the other events of their input and moved no watermark.", "topic"),
    gauge("users_on_several_partitions_ratio", "Share of sampled users with events on several partitions; 0 if fewer than 3."),
    counter(
        "key_mismatch", "Events on another partition than Kafka's default partitioner gives the user id. No problem by itself.", "topic"
    ),
    counter(
        "experiment_lists_full", "Final lists left out of an experiment because their user has too many. Counted once per scope.", "topic"
    ),
    counter("interleaving_too_many_teams", "Interleaved lists not compared because they have too many teams or pairs of teams.", "topic"),
    gauge(
        "watermark_timestamp_seconds",
        "Watermark of an input: the event time up to which it has been read.",
        "topic",
        "partition",
        unit="seconds",
    ),
    gauge(
        "tasks_watermark_timestamp_seconds",
        "Lowest watermark of all tasks; idle inputs are ignored.",
        unit="seconds",
    ),
    gauge("tasks", "Tasks of the namespace. It is the number of partitions of each topic."),
    gauge("open_sessions", "Open sessions."),
    gauge("users_open", "Users with an open session."),
    gauge("lag_records", "Records that this worker has not read yet.", "topic", "partition", origin="loop", unit="records"),
    gauge("lag_seconds", "Age of the last record read; 0 at the end of the input.", "topic", "partition", origin="loop", unit="seconds"),
    gauge(
        "standstill_offset",
        "The next offset of a partition that has not moved for a minute although it has records. Absent for all others.",
        "topic",
        "partition",
        origin="loop",
    ),
    Series("streammetrics_commit_seconds", "histogram", "Duration of a commit.", unit="seconds", origin="loop"),
    counter("commits", "Commits by result: written, already, fenced, conflict or failed.", "status", origin="loop"),
    counter("state_written_bytes", "Bytes of state that commits wrote, without names and keys.", origin="loop"),
    counter("rebalances", "Rebalances: changes of the tasks that this worker owns.", origin="loop"),
    counter("client_rebuilds", "Kafka clients replaced because they stalled.", origin="loop"),
    counter("dead_letters", "Refused records written to the dead-letter topic. After a crash some are written again.", origin="loop"),
    counter(
        "dead_letters_lost",
        "Refused records that the dead-letter topic refuses too. They are in the input topic only.",
        "topic",
        origin="loop",
    ),
    gauge("cached_users", "Users cached in memory.", origin="loop"),
    gauge("paused_inputs", "Inputs that are paused.", origin="loop"),
    gauge("source_up", "1 if the event source answers, 0 while this process retries it.", origin="loop"),
    gauge("readers_up", "1 if no input waits until its reader can read the next record, else 0.", origin="loop"),
    gauge("store_up", "1 if the state store answers, 0 while this process retries it.", origin="exporter"),
    gauge("store_memory_bytes", "Memory used by a server of the state store.", "node", origin="exporter", unit="bytes"),
    gauge(
        "store_memory_limit_bytes", "Memory limit of a server of the state store; 0 for no limit.", "node", origin="exporter", unit="bytes"
    ),
    gauge("store_evicts", "1 if a server may delete state when memory is full, else 0.", "node", origin="exporter"),
    gauge("store_forgets", "1 if a server loses its state at a restart, else 0.", "node", origin="exporter"),
    counter("results", "Records sent to the topic of results, and failed writes (failed).", "status", origin="exporter"),
    gauge("series", "Series of streammetrics on /metrics.", origin="exporter"),
    gauge("series_limit", "Largest number of series that /metrics may have.", origin="exporter"),
    gauge("series_left_out", "Series that are now folded into _other or left out.", origin="exporter"),
    counter("series_folded", "Increases of streammetrics_series_left_out, summed.", origin="exporter"),
    Series("streammetrics_build_info", "info", "Version of streammetrics.", ("version",), origin="exporter"),
)

SERIES: Mapping[str, Series] = MappingProxyType({series.name: series for series in TABLE})
"""The table by name."""


def markdown() -> str:
    """Return the table as Markdown, with one line for families that differ only by the metric or the bound. Ends with a newline.

    The kind is left out: suffixes show it, and the page names the only histogram.
    """
    listed: dict[str, Series] = {}
    for series in TABLE:
        listed.setdefault(series.listed or series.name, series)
    lines = ["| series | labels | meaning |", "|---|---|---|"]
    for name, series in listed.items():
        lines.append(f"| `{name}` | {', '.join(series.labels)} | {series.listed_help or series.help} |")
    lines += ["", "`<bound>` is `lower` or `upper`.", f"`<metric>` is a metric of {METRIC_PAGES}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
