"""The table of alerts: thresholds, recorded series, alerts, and inhibitions between them. Pure data.

`generate` turns it into rule files and the configuration of Alertmanager. The package must not import it. `@name` stands for a
threshold of the table below. The pages in deploy/runbooks say what to do for each alert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["critical", "warning"]
Dashboard: TypeAlias = Literal["experiment", "ranking", "pipeline"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number to compare with. `is_seconds` marks a span of time; tests shorten all spans by the same factor."""

    name: str
    value: float
    meaning: str
    is_seconds: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recording rule. The name has three parts: labels, series, and operation."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule. An alert with two severities has two entries with one name, and the critical one silences the other.

    The expression must hold for the span `waits`. The alert then stays for `keeps` after the expression held last. A cause stays
    longer than its consequences, so that these do not page after its end.
    """

    name: str
    severity: Severity
    waits: str
    expression: str
    summary: str
    description: str
    dashboard: Dashboard = "pipeline"
    keeps: str = ""


@dataclass(frozen=True, slots=True)
class Inhibition:
    """While `source` fires, its consequences in `targets` are silent, if their `equal` labels are the same."""

    source: str
    targets: tuple[str, ...]
    equal: tuple[str, ...] = ("job",)


JOB = "streammetrics"
"""The scrape job of workers and exporters. Only rules for missing series need it."""
METRIC = "ndcg@10"
"""The metric for the quality of the ranking as a whole."""

THRESHOLDS = (
    Threshold("regressed_critical", 0.05, "A regression is critical when the upper bound of the lift is below minus this number."),
    Threshold("fell_warning", 0.10, "Drop of all traffic that warns, against the lower of the same hours yesterday and last week."),
    Threshold("fell_critical", 0.25, "Drop of all traffic that is critical."),
    Threshold("fell_lists_least", 500, "Final lists that an hour needs for the comparison."),
    Threshold("sample_ratio_p", 0.01, "p-value of the sample ratio check. The product has the same limit."),
    Threshold("multi_exposed_share", 0.01, "Share of users who saw several variants. The product has the same limit."),
    Threshold("unmatched_share", 0.25, "Share of feedback that counts for no list. The product has the same limit."),
    Threshold("unmatched_least", 100, "Feedback in half an hour that the share needs."),
    Threshold("users_on_several_share", 0.01, "Share of users on several partitions. The product has the same limit."),
    Threshold("refused_share", 0.01, "Share of refused events."),
    Threshold("refused_least", 100, "Events in a quarter of an hour that the share needs."),
    Threshold("lag_seconds", 300, "Age of the newest record read.", is_seconds=True),
    Threshold("commits_failing_share", 0.1, "Share of commits that failed or found unexpected state."),
    Threshold("rebalances", 5, "Changes of a worker's tasks in a quarter of an hour. A start makes two."),
    Threshold("store_share", 0.8, "Share of its maxmemory that a Redis uses."),
    Threshold("series_share", 0.9, "Share of the largest number of series."),
)

RECORDED = (
    Recorded("job_topic:streammetrics_events:rate15m", "max by (job, topic) (rate(streammetrics_events_total[15m]))"),
    Recorded(
        "job:streammetrics_refused:ratio_rate15m",
        "sum by (job) (max by (job, topic, reason) (rate(streammetrics_dropped_total[15m])))\n"
        "/ (sum by (job) (job_topic:streammetrics_events:rate15m) > 0)",
    ),
    Recorded(
        "job:streammetrics_feedback_unmatched:rate30m",
        "sum by (job) (max by (job, topic, reason) (rate(streammetrics_feedback_unmatched_total[30m])))",
    ),
    Recorded(
        "job:streammetrics_feedback:rate30m",
        "sum by (job) (max by (job, topic) (rate(streammetrics_feedback_matched_total[30m])))\n"
        "+ job:streammetrics_feedback_unmatched:rate30m",
    ),
    Recorded("job:streammetrics_lag_seconds:max", "max by (job) (streammetrics_lag_seconds)"),
    Recorded("job:streammetrics_tasks_watermark_timestamp_seconds:max", "max by (job) (streammetrics_tasks_watermark_timestamp_seconds)"),
    Recorded(
        "job:streammetrics_commits_failing:ratio_rate5m",
        'sum by (job) (rate(streammetrics_commits_total{status=~"failed|conflict"}[5m]))\n'
        "/ (sum by (job) (rate(streammetrics_commits_total[5m])) > 0)",
    ),
    Recorded("job:streammetrics_final_lists:increase1h", 'max by (job) (increase(streammetrics_final_lists_total{experiment=""}[1h]))'),
    Recorded(
        "job:streammetrics_final_quality:mean1h",
        'max by (job) (increase(streammetrics_final_@{metric}_sum_total{experiment="", k="@k"}[1h]))\n'
        "/ (job:streammetrics_final_lists:increase1h > 0)",
    ),
    Recorded(
        "job:streammetrics_final_quality:reference1h",
        "(job:streammetrics_final_quality:mean1h offset 1d <= job:streammetrics_final_quality:mean1h offset 1w)\n"
        "or job:streammetrics_final_quality:mean1h offset 1w\n"
        "or job:streammetrics_final_quality:mean1h offset 1d",
    ),
    Recorded(
        "job_experiment:streammetrics_experiment_verdict:min",
        'min by (job, experiment, scope) (streammetrics_experiment_verdict{variant="", metric="", k=""})',
    ),
)


def _rates(counter: str, label: str, span: str) -> str:
    """Return an annotation template with the current rates of a counter by a label, without zeros, sorted by the label.

    Every process that publishes shows the same counters of events, so the template takes their `max`.
    """
    return _listed(f"sum by ({label}) (max by (topic, {label}) (rate(streammetrics_{counter}{{job='%s'}}[{span}]))) > 0", label)


def _listed(query: str, label: str) -> str:
    entry = f'{{{{ .Labels.{label} }}}} {{{{ printf "%.2g" .Value }}}}'
    return f'{{{{ range query (printf "{query}" $labels.job) | sortByLabel "{label}" }}}} {entry}{{{{ end }}}}'


def _down(gauge: str) -> str:
    """Return an annotation template with the instances where a gauge is 0."""
    query = f"streammetrics_{gauge}{{job='%s'}} == 0"
    return f'{{{{ range query (printf "{query}" $labels.job) | sortByLabel "instance" }}}} {{{{ .Labels.instance }}}}{{{{ end }}}}'


def _risk(risk: str, value: str, bound: str) -> str:
    """Return an expression for Redis servers with a value beyond a bound. `risk` becomes a label."""
    return f'label_replace(max by (job, node) ({value}) {bound}, "risk", "{risk}", "", "")'


_COMMITS = "sum by (status) (rate(streammetrics_commits_total{job='%s'}[5m])) > 0"
"""The commits of all workers by result. Each worker counts its own."""
_REGRESSED_MEASURES = (
    'streammetrics_experiment_verdict{variant!=""} == -1\n'
    "  and on (job, instance, experiment, metric, k, scope) streammetrics_experiment_paging == 1"
)
"""The paging measures that regressed."""
_REGRESSED = "and on (job, experiment, scope) job_experiment:streammetrics_experiment_verdict:min == -1"
_INVALID = "and on (job, experiment, scope) job_experiment:streammetrics_experiment_verdict:min == -2"
_SCOPE = '{{ if eq $labels.scope "day" }}since midnight UTC{{ else }}since it began{{ end }}'
_EXPLAINS = "Streammetrics(NoTraffic|JoinUnhealthy|RankingRegressed)"
"""Alerts that explain a bad hour, even when they end before the hour does."""
_SILENT = "job_topic:streammetrics_events:rate15m == 0\nunless on (job, topic) sum by (job, topic) (streammetrics_lag_records) > 0"
_FELL = (
    "job:streammetrics_final_quality:mean1h < (1 - @{drop}) * job:streammetrics_final_quality:reference1h\n"
    "and job:streammetrics_final_lists:increase1h >= @fell_lists_least\n"
    f'unless on (job) count by (job) (\n  count_over_time(ALERTS{{alertname=~"{_EXPLAINS}", alertstate="firing"}}[1h])\n)'
)
_FELL_SUMMARY = 'Ranking quality of all traffic fell to a mean @metric@@@k of {{ printf "%.3f" $value }}'
_FELL_DESCRIPTION = (
    "The final lists of the last hour are worse than in the same hours yesterday and last week "
    "({{ range query (printf \"job:streammetrics_final_quality:reference1h{job='%s'}\" $labels.job) }}"
    '{{ printf "%.3f" .Value }}{{ end }}), '
    "by more than @{drop}. No variant regressed against its control."
)

ALERTS = (
    # --- ranking
    Alert(
        "StreammetricsRankingRegressed",
        "critical",
        "5m",
        "min by (job, experiment, variant, scope) (\n"
        "  streammetrics_experiment_judged_lift_upper\n"
        f"  and on (job, instance, experiment, variant, metric, k, scope) {_REGRESSED_MEASURES}\n"
        f") < -@regressed_critical\n{_REGRESSED}",
        "{{ $labels.variant }} of {{ $labels.experiment }} ranks worse than control by more than @regressed_critical",
        f"Counted {_SCOPE}, the lift of at least one paging measure is below {{{{ $value | humanizePercentage }}}}. "
        "This is the upper bound of its interval. It is safe to check at any time.",
        "experiment",
        keeps="15m",
    ),
    Alert(
        "StreammetricsRankingRegressed",
        "warning",
        "5m",
        "count by (job, experiment, variant, scope) (count by (job, experiment, variant, metric, k, scope) (\n"
        f"  {_REGRESSED_MEASURES}\n))\n{_REGRESSED}",
        "{{ $labels.variant }} of {{ $labels.experiment }} ranks worse than control",
        f"Counted {_SCOPE}, paging measures worse than control by more than the margin: {{{{ $value }}}}.",
        "experiment",
        keeps="15m",
    ),
    Alert(
        "StreammetricsAllVariantsFell",
        "critical",
        "30m",
        _FELL.replace("{drop}", "fell_critical"),
        _FELL_SUMMARY,
        _FELL_DESCRIPTION.replace("@{drop}", "@fell_critical"),
        "ranking",
    ),
    Alert(
        "StreammetricsAllVariantsFell",
        "warning",
        "30m",
        _FELL.replace("{drop}", "fell_warning"),
        _FELL_SUMMARY,
        _FELL_DESCRIPTION.replace("@{drop}", "@fell_warning"),
        "ranking",
    ),
    # --- invalid experiments
    Alert(
        "StreammetricsSampleRatioMismatch",
        "warning",
        "10m",
        f"min by (job, experiment, scope) (streammetrics_experiment_srm_p_value) < @sample_ratio_p\n{_INVALID}",
        "Users of {{ $labels.experiment }} are not split as configured",
        f"Counted {_SCOPE}, the p-value of the split is {{{{ $value }}}}. Its verdicts are invalid, and it does not page.",
        "experiment",
    ),
    Alert(
        "StreammetricsMultiExposure",
        "warning",
        "10m",
        "max by (job, experiment, scope) (streammetrics_experiment_multi_exposed_users)\n"
        "/ (\n"
        "  max by (job, experiment, scope) (streammetrics_experiment_multi_exposed_users)\n"
        '  + sum by (job, experiment, scope) (max by (job, experiment, scope, variant) (streammetrics_experiment_users{variant!=""}))\n'
        f") > @multi_exposed_share\n{_INVALID}",
        "{{ $value | humanizePercentage }} of the users of {{ $labels.experiment }} saw more than one variant",
        f"Counted {_SCOPE}. They are excluded. So many make the experiment invalid, and it does not page.",
        "experiment",
    ),
    Alert(
        "StreammetricsExperimentInvalid",
        "warning",
        "30m",
        "job_experiment:streammetrics_experiment_verdict:min == -2",
        "The numbers of {{ $labels.experiment }} cannot be trusted",
        f"Counted {_SCOPE}, its verdict is invalid, and no other alert explains it. It does not page.",
        "experiment",
    ),
    Alert(
        "StreammetricsVerdictMixed",
        "warning",
        "30m",
        "job_experiment:streammetrics_experiment_verdict:min == -3",
        "The measures of {{ $labels.experiment }} contradict each other",
        f"Counted {_SCOPE}, one deciding measure is better than control and another worse. It does not page as a regression.",
        "experiment",
    ),
    # --- input
    Alert(
        "StreammetricsJoinUnhealthy",
        "warning",
        "15m",
        "job:streammetrics_feedback_unmatched:rate30m / (job:streammetrics_feedback:rate30m > 0) > @unmatched_share\n"
        "and job:streammetrics_feedback:rate30m * 1800 >= @unmatched_least",
        "{{ $value | humanizePercentage }} of the feedback counts for no list",
        "Lists look worse than they are, in every variant. Events per second by reason:"
        f"{_rates('feedback_unmatched_total', 'reason', '30m')}.",
    ),
    Alert(
        "StreammetricsUsersOnSeveralPartitions",
        "warning",
        "15m",
        "max by (job) (streammetrics_users_on_several_partitions_ratio) > @users_on_several_share",
        "{{ $value | humanizePercentage }} of the users have events on several partitions",
        "Their feedback may miss its list, so lists look worse than they are. A producer does not use the user id as key, or producers "
        "use different partitioners.",
    ),
    Alert(
        "StreammetricsNoTraffic",
        "critical",
        "5m",
        f"{_SILENT}\nand on (job, topic) job_topic:streammetrics_events:rate15m offset 1w > 0",
        "Topic {{ $labels.topic }} has no events",
        "No event came for a quarter of an hour, and none is waiting. There was traffic at this time last week.",
    ),
    Alert(
        "StreammetricsNoTraffic",
        "warning",
        "5m",
        f"{_SILENT}\nunless on (job, topic) job_topic:streammetrics_events:rate15m offset 1w",
        "Topic {{ $labels.topic }} has no events",
        "No event came for a quarter of an hour, and none is waiting. There is no data from last week to compare with.",
    ),
    Alert(
        "StreammetricsEventsRefused",
        "warning",
        "15m",
        "job:streammetrics_refused:ratio_rate15m > @refused_share\n"
        "and sum by (job) (job_topic:streammetrics_events:rate15m) * 900 >= @refused_least",
        "{{ $value | humanizePercentage }} of the events are refused",
        "They are in no number. Most of them are in the dead-letter topic. Events per second by reason:"
        f"{_rates('dropped_total', 'reason', '15m')}.",
        keeps="30m",
    ),
    # --- the pipeline
    Alert(
        "StreammetricsAbsent",
        "critical",
        "5m",
        'label_replace(absent(streammetrics_tasks{job="@job"}), "part", "exporter", "", "")\n'
        'or label_replace(absent(streammetrics_source_up{job="@job"}), "part", "worker", "", "")',
        "Prometheus sees no {{ $labels.part }} of streammetrics",
        'No {{ $labels.part }} has series under job="@job". Nothing is measured, and no other alert can fire.',
    ),
    Alert(
        "StreammetricsTargetDown",
        "warning",
        "5m",
        'up{job="@job"} == 0',
        "{{ $labels.instance }} cannot be scraped",
        "This process does not respond to Prometheus. If it was a worker, others have taken over its tasks.",
    ),
    Alert(
        "StreammetricsWatermarkStalled",
        "critical",
        "5m",
        "changes(job:streammetrics_tasks_watermark_timestamp_seconds:max[15m]) == 0\n"
        "or (max by (job) (streammetrics_tasks) unless on (job) job:streammetrics_tasks_watermark_timestamp_seconds:max)",
        "The numbers stand still",
        "The lowest watermark of all tasks has not moved for a quarter of an hour. One input is not read, or its event time does not "
        "move. Idle inputs are ignored.",
    ),
    Alert(
        "StreammetricsLagGrowing",
        "warning",
        "10m",
        "job:streammetrics_lag_seconds:max > @lag_seconds\nand deriv(job:streammetrics_lag_seconds:max[5m]) > 0",
        "Workers are {{ $value | humanizeDuration }} behind, and the lag grows",
        "More events arrive than the workers read. Numbers are right, but late.",
    ),
    Alert(
        "StreammetricsCommitsFailing",
        "critical",
        "5m",
        "job:streammetrics_commits_failing:ratio_rate5m > @commits_failing_share",
        "{{ $value | humanizePercentage }} of the commits fail",
        f"Events without a commit are not shown, and they are read again. Commits per second by status:{_listed(_COMMITS, 'status')}.",
    ),
    Alert(
        "StreammetricsRedisDown",
        "critical",
        "2m",
        "count by (job) (streammetrics_store_up == 0)",
        "Redis does not answer processes of streammetrics: {{ $value }}",
        f"Nothing is committed, and no new numbers are shown. Workers retry and lose nothing. Affected:{_down('store_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsRedisAtRisk",
        "warning",
        "10m",
        f"{_risk('memory', 'streammetrics_store_memory_bytes / (streammetrics_store_memory_limit_bytes > 0)', '> @store_share')}\n"
        f"or {_risk('eviction', 'streammetrics_store_evicts', '== 1')}\n"
        f"or {_risk('persistence', 'streammetrics_store_forgets', '== 1')}",
        "Redis at {{ $labels.node }} puts state at risk: {{ $labels.risk }}",
        '{{ if eq $labels.risk "memory" }}It uses {{ $value | humanizePercentage }} of its maxmemory. A full Redis '
        'refuses commits, and the numbers stand still.{{ else if eq $labels.risk "eviction" }}Its maxmemory-policy is not noeviction. '
        "When memory is full, it deletes state, and numbers become wrong.{{ else }}It has neither appendonly nor snapshots. "
        "After a restart all state is lost.{{ end }}",
        keeps="10m",
    ),
    Alert(
        "StreammetricsKafkaDown",
        "critical",
        "2m",
        "count by (job) (streammetrics_source_up == 0)",
        "Kafka does not answer workers of streammetrics: {{ $value }}",
        f"Nothing is read. Workers retry and lose nothing. Affected:{_down('source_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsRebalanceStorm",
        "warning",
        "5m",
        "max by (job) (increase(streammetrics_rebalances_total[15m])) > @rebalances",
        "Tasks move between workers again and again",
        "The tasks of a worker changed {{ $value | humanize }} times in a quarter of an hour. After each change up to a second of records "
        "is read again.",
    ),
    Alert(
        "StreammetricsClientDeaf",
        "warning",
        "2m",
        "sum by (job) (increase(streammetrics_client_rebuilds_total[30m])) > 0\n"
        "unless on (job) min by (job) (min_over_time(streammetrics_source_up[30m])) == 0",
        "A Kafka client stalled and was replaced",
        "Brokers answered and records were waiting, but the client returned none. The new client continues, and nothing is lost.",
    ),
    Alert(
        "StreammetricsSeriesLimit",
        "warning",
        "10m",
        "max by (job) (streammetrics_series / streammetrics_series_limit) > @series_share\n"
        "or max by (job) (streammetrics_series_left_out) > 0",
        "/metrics is near its limit of series, or over it",
        "Label values over the limit are folded into _other, and series over the limit are left out. /api/report has everything.",
    ),
)

INHIBITIONS = (
    Inhibition(
        "StreammetricsAbsent",
        (
            "StreammetricsTargetDown",
            "StreammetricsWatermarkStalled",
            "StreammetricsLagGrowing",
            "StreammetricsNoTraffic",
            "StreammetricsRebalanceStorm",
        ),
    ),
    Inhibition(
        "StreammetricsRedisDown",
        (
            "StreammetricsAbsent",
            "StreammetricsWatermarkStalled",
            "StreammetricsLagGrowing",
            "StreammetricsCommitsFailing",
            "StreammetricsNoTraffic",
            "StreammetricsRebalanceStorm",
        ),
    ),
    Inhibition(
        "StreammetricsKafkaDown",
        (
            "StreammetricsWatermarkStalled",
            "StreammetricsLagGrowing",
            "StreammetricsNoTraffic",
            "StreammetricsRebalanceStorm",
            "StreammetricsClientDeaf",
        ),
    ),
    Inhibition("StreammetricsClientDeaf", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing")),
    Inhibition("StreammetricsRebalanceStorm", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing", "StreammetricsCommitsFailing")),
    Inhibition("StreammetricsCommitsFailing", ("StreammetricsWatermarkStalled", "StreammetricsLagGrowing")),
    Inhibition("StreammetricsNoTraffic", ("StreammetricsJoinUnhealthy", "StreammetricsAllVariantsFell")),
    Inhibition("StreammetricsEventsRefused", ("StreammetricsJoinUnhealthy",)),
    Inhibition("StreammetricsUsersOnSeveralPartitions", ("StreammetricsJoinUnhealthy",)),
    Inhibition("StreammetricsJoinUnhealthy", ("StreammetricsAllVariantsFell", "StreammetricsExperimentInvalid")),
    Inhibition("StreammetricsRankingRegressed", ("StreammetricsAllVariantsFell",)),
    Inhibition("StreammetricsSampleRatioMismatch", ("StreammetricsExperimentInvalid",), ("job", "experiment")),
    Inhibition("StreammetricsMultiExposure", ("StreammetricsExperimentInvalid",), ("job", "experiment")),
)
