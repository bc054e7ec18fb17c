"""The table of all series on `/metrics`. The collector, the page `streammetrics/exporters/README.md` and the tests use it.

Pure data: first the series of experiments and of interleaved teams, which are made of parts, then the table of all.
`python -m streammetrics.exporters.prometheus.series` prints the table for that page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from streammetrics.exporters.prometheus.family import Series, bounds, counter, gauge
from streammetrics.exporters.prometheus.metric_series import column_counters, value_gauges
from streammetrics.metrics.records import METRICS

METRIC_PAGES = (
    "[`metrics.names`](../metrics/README.md#names), [`engagement.names`](../windows/engagement.md)"
    " or [`assessment.names`](../windows/assessment.md)"
)
_GROUP_LABELS = ("experiment", "variant", "window", "segments", "view")
_MEASURE_LABELS = ("experiment", "variant", "metric", "k", "scope")
_TEAM_LABELS = ("experiment", "team", "against", "scope")

_OF_LIFT = "of the lift, at 95 % confidence by default. Safe to check at any time."
_CUPED = "With CUPED: variance reduced by the users' earlier behaviour."


def experiment_gauges() -> Iterator[Series]:
    """Gauges of experiments. `experiment_rows` makes their rows; labels without a value are left out."""
    yield from _measure_gauges()
    yield from _user_gauges()
    yield from _team_gauges()
    yield gauge("experiment_entered_timestamp_seconds", "Event time up to which all final lists count in the experiments.", unit="seconds")


def _measure_gauges() -> Iterator[Series]:
    mean = "Mean of a measure over the final lists (or users) of a variant."
    lift = "Relative difference between the variant's mean and the control's."
    yield gauge("experiment_mean", mean, *_MEASURE_LABELS)
    yield gauge("experiment_lift", lift, *_MEASURE_LABELS)
    yield from bounds("experiment_lift", _OF_LIFT, *_MEASURE_LABELS)
    yield gauge(
        "experiment_verdict",
        "Verdict: 2 improved, 1 safe, 0 inconclusive, -1 regressed, -2 invalid, -3 mixed. "
        "The whole experiment's has no variant, metric and k.",
        *_MEASURE_LABELS,
    )
    yield gauge("experiment_reduced_mean", f"{mean} {_CUPED}", *_MEASURE_LABELS)
    yield gauge("experiment_reduced_lift", f"{lift} {_CUPED}", *_MEASURE_LABELS)
    yield from bounds("experiment_reduced_lift", f"{_OF_LIFT} {_CUPED}", *_MEASURE_LABELS)
    yield gauge(
        "experiment_judged_lift_upper",
        "The upper bound that decides the verdict of a paging measure: lift_upper, or with cuped_verdict reduced_lift_upper. "
        "For measures that get better when they fall, the upper bound of minus the lift.",
        *_MEASURE_LABELS,
    )
    yield gauge("experiment_variance_reduction", "Share of the variance of the variant's mean that CUPED removes.", *_MEASURE_LABELS)


def _user_gauges() -> Iterator[Series]:
    """The gauges of whole experiments and of the users of their variants."""
    yield gauge("experiment_paging", "1 for each measure that decides the verdict and may page.", "experiment", "metric", "k", "scope")
    yield gauge(
        "experiment_gate",
        "Gate of a rollout: 1 pass, 0 wait, -1 fail. The whole experiment's has no variant. It counts only while the watermark is recent.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_warning",
        "1 for each thing that bends the numbers of an experiment or withholds its verdict. The page says it in a sentence.",
        "experiment",
        "variant",
        "scope",
        "warning",
    )
    yield gauge(
        "experiment_running",
        "1 while new lists can change the verdict. 0: the variant or its control has stopped, the experiment is silent, or it has ended. "
        "The whole experiment's has no variant.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_last_list_timestamp_seconds",
        "Event time of the last list of a variant. The whole experiment's has no variant.",
        "experiment",
        "variant",
        "scope",
        unit="seconds",
    )
    yield gauge("experiment_users", "Users who saw this variant.", "experiment", "variant", "scope")
    yield gauge(
        "experiment_exposed_users",
        "Users whose first exposure was to this variant, whether they saw a list or not. Absent without exposures.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_effective_users",
        "Users of a variant, weighted by their lists: few if a few users have most lists.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_largest_user_share_max",
        "Largest share of a variant's lists that one user can have.",
        "experiment",
        "variant",
        "scope",
    )
    yield gauge(
        "experiment_srm_p_value",
        "p-value of the sample ratio check: is the split of users as configured? Absent without configured shares. "
        "Safe to check at any time.",
        "experiment",
        "scope",
    )


def _team_gauges() -> Iterator[Series]:
    won = "Share of interleaved lists that a team won, minus the share that it lost against the other team."
    yield gauge("interleaving_credit", won, *_TEAM_LABELS)
    yield from bounds("interleaving_credit", "of the credit, at 95 % confidence by default. Safe to check at any time.", *_TEAM_LABELS)
    yield gauge("interleaving_users", "Users of the interleaved lists that compare both teams.", *_TEAM_LABELS)
    yield gauge("interleaving_lists", "Interleaved lists that compare both teams.", *_TEAM_LABELS)
    verdict = "Verdict: 2 preferred, 0 inconclusive, -1 the other team is preferred, -2 invalid."
    yield gauge("interleaving_verdict", verdict, *_TEAM_LABELS)


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
