"""What pages, and from which number on: thresholds, recorded series, alerts, and which alert silences which. Pure data.

`generate` makes the rule files and Alertmanager's configuration of it. Nothing of the package may import this. `@name` stands for
a threshold of the table below. What a promise needs is said here once: the pages in deploy/runbooks tell what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["critical", "warning"]
Dashboard: TypeAlias = Literal["experiment", "ranking", "pipeline"]


@dataclass(frozen=True, slots=True)
class Threshold:
    """A number to alert on. `is_seconds`: it is a span of time, which a test may shorten with all the other spans."""

    name: str
    value: float
    says: str
    is_seconds: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """A series that Prometheus computes. The name says by which labels, of what, and how."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class Alert:
    """One alerting rule. An alert with two severities is two entries of one name, and the critical one silences the other.

    `waits` is how long the expression must hold, `keeps` how long the alert stays after it held last; both as Prometheus writes spans.
    A cause stays longer than its consequences remember it, or these would page when it is over.
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
    """While `source` fires, its `targets` with the same `equal` labels say nothing: they are its consequences."""

    source: str
    targets: tuple[str, ...]
    equal: tuple[str, ...] = ("job",)


JOB = "streammetrics"
"""The job that workers and exporters are scraped as. Only what is missing altogether must be asked for by it."""
METRIC = "ndcg@10"
"""What tells whether the ranking as a whole is as good as it was."""

THRESHOLDS = (
    Threshold(
        "regressed_critical", 0.05, "A regression is critical when the drop is certainly greater than this (the lift's upper bound)."
    ),
    Threshold("fell_warning", 0.10, "Tolerated drop of all traffic against the same hour yesterday and last week, the lower of the two."),
    Threshold("fell_critical", 0.25, "From this drop on it is critical."),
    Threshold("fell_lists_least", 500, "Final lists that an hour needs to be compared."),
    Threshold("sample_ratio_p", 0.01, "p-value of the split; the product's own limit."),
    Threshold("multi_exposed_share", 0.01, "Users seen in several variants, by users; the product's own limit."),
    Threshold("unmatched_share", 0.25, "Feedback that counts for no list, by feedback; the product's own limit."),
    Threshold("unmatched_least", 100, "Feedback of half an hour that the share needs."),
    Threshold("refused_share", 0.01, "Refused events, by events."),
    Threshold("refused_least", 100, "Events of a quarter of an hour that the share needs."),
    Threshold("lag_seconds", 300, "Age of the record that is read now.", is_seconds=True),
    Threshold("commits_failing_share", 0.1, "Commits that failed or found other state than they expected, by commits."),
    Threshold("rebalances", 5, "Changes of a worker's tasks within a quarter of an hour; a start makes two."),
    Threshold("store_share", 0.8, "Memory that a Redis uses, by its maxmemory."),
    Threshold("series_share", 0.9, "Series of a page, by its limit."),
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
    """What an annotation says of a counter of events now: its rates by a label that are not 0, in the order of the label.

    Every process that shows committed state shows the same counters of events.
    """
    return _told(f"sum by ({label}) (max by (topic, {label}) (rate(streammetrics_{counter}{{job='%s'}}[{span}]))) > 0", label)


def _told(query: str, label: str) -> str:
    said = f'{{{{ .Labels.{label} }}}} {{{{ printf "%.2g" .Value }}}}'
    return f'{{{{ range query (printf "{query}" $labels.job) | sortByLabel "{label}" }}}} {said}{{{{ end }}}}'


def _down(gauge: str) -> str:
    """The processes whose gauge is 0."""
    query = f"streammetrics_{gauge}{{job='%s'}} == 0"
    return f'{{{{ range query (printf "{query}" $labels.job) | sortByLabel "instance" }}}} {{{{ .Labels.instance }}}}{{{{ end }}}}'


def _risk(risk: str, told: str, bound: str) -> str:
    """What a server of Redis says of itself, where it says too much; `risk` becomes a label."""
    return f'label_replace(max by (job, node) ({told}) {bound}, "risk", "{risk}", "", "")'


_COMMITS = "sum by (status) (rate(streammetrics_commits_total{job='%s'}[5m])) > 0"
"""The commits of all workers, by what came of them: each tells of its own."""
_REGRESSED_MEASURES = (
    'streammetrics_experiment_verdict{variant!=""} == -1\n'
    "  and on (job, instance, experiment, metric, k, scope) streammetrics_experiment_paging == 1"
)
"""The measures that certainly regressed, of those that may page."""
_REGRESSED = "and on (job, experiment, scope) job_experiment:streammetrics_experiment_verdict:min == -1"
_INVALID = "and on (job, experiment, scope) job_experiment:streammetrics_experiment_verdict:min == -2"
_SCOPE = '{{ if eq $labels.scope "day" }}since midnight UTC{{ else }}since it began{{ end }}'
_EXPLAINS = "Streammetrics(NoTraffic|JoinUnhealthy|RankingRegressed)"
"""What lets an hour look bad, also when it is over before the hour is."""
_SILENT = "job_topic:streammetrics_events:rate15m == 0\nunless on (job, topic) sum by (job, topic) (streammetrics_lag_records) > 0"
_FELL = (
    "job:streammetrics_final_quality:mean1h < (1 - @{drop}) * job:streammetrics_final_quality:reference1h\n"
    "and job:streammetrics_final_lists:increase1h >= @fell_lists_least\n"
    f'unless on (job) count by (job) (\n  count_over_time(ALERTS{{alertname=~"{_EXPLAINS}", alertstate="firing"}}[1h])\n)'
)
_FELL_SUMMARY = 'Ranking quality of all traffic fell to a mean @metric@@@k of {{ printf "%.3f" $value }}'
_FELL_DESCRIPTION = (
    "The final lists of the last hour are worse than those of the same hour yesterday and last week "
    "({{ range query (printf \"job:streammetrics_final_quality:reference1h{job='%s'}\" $labels.job) }}"
    '{{ printf "%.3f" .Value }}{{ end }}), '
    "by more than @{drop}. No single variant explains it."
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
        "{{ $labels.variant }} of {{ $labels.experiment }} certainly ranks worse than control, by more than @regressed_critical",
        f"Counted {_SCOPE}, its lift of at least one paging measure is certainly below {{{{ $value | humanizePercentage }}}}. "
        "Certain means at all looks together.",
        "experiment",
        keeps="15m",
    ),
    Alert(
        "StreammetricsRankingRegressed",
        "warning",
        "5m",
        "count by (job, experiment, variant, scope) (count by (job, experiment, variant, metric, k, scope) (\n"
        f"  {_REGRESSED_MEASURES}\n))\n{_REGRESSED}",
        "{{ $labels.variant }} of {{ $labels.experiment }} certainly ranks worse than control",
        f"Counted {_SCOPE}, {{{{ $value }}}} of its paging measures are certainly worse than control by more than the tolerated margin.",
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
    # --- experiments that cannot be read
    Alert(
        "StreammetricsSampleRatioMismatch",
        "warning",
        "10m",
        f"min by (job, experiment, scope) (streammetrics_experiment_srm_p_value) < @sample_ratio_p\n{_INVALID}",
        "Users of {{ $labels.experiment }} are not split as they should be",
        f"Counted {_SCOPE}, such a split comes by chance with p = {{{{ $value }}}}. Its verdicts are invalid, and nothing of it pages.",
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
        f"Counted {_SCOPE}. They are excluded; so many make the experiment invalid, and nothing of it pages.",
        "experiment",
    ),
    Alert(
        "StreammetricsExperimentInvalid",
        "warning",
        "30m",
        "job_experiment:streammetrics_experiment_verdict:min == -2",
        "Nothing may be read from {{ $labels.experiment }}",
        f"Counted {_SCOPE}, its verdict is invalid, for a reason that no other alert tells. Nothing of it pages meanwhile.",
        "experiment",
    ),
    # --- what comes in
    Alert(
        "StreammetricsJoinUnhealthy",
        "warning",
        "15m",
        "job:streammetrics_feedback_unmatched:rate30m / (job:streammetrics_feedback:rate30m > 0) > @unmatched_share\n"
        "and job:streammetrics_feedback:rate30m * 1800 >= @unmatched_least",
        "{{ $value | humanizePercentage }} of the feedback counts for no list",
        "Lists look worse than they are, in every variant. By reason, in events a second:"
        f"{_rates('feedback_unmatched_total', 'reason', '30m')}.",
    ),
    Alert(
        "StreammetricsNoTraffic",
        "critical",
        "5m",
        f"{_SILENT}\nand on (job, topic) job_topic:streammetrics_events:rate15m offset 1w > 0",
        "No events come on topic {{ $labels.topic }}",
        "Nothing has come for a quarter of an hour, nothing is waiting to be read, and a week ago there was traffic at this time.",
    ),
    Alert(
        "StreammetricsNoTraffic",
        "warning",
        "5m",
        f"{_SILENT}\nunless on (job, topic) job_topic:streammetrics_events:rate15m offset 1w",
        "No events come on topic {{ $labels.topic }}",
        "Nothing has come for a quarter of an hour, and nothing is waiting to be read. A week ago nothing was measured, so nobody knows "
        "whether this is usual.",
    ),
    Alert(
        "StreammetricsEventsRefused",
        "warning",
        "15m",
        "job:streammetrics_refused:ratio_rate15m > @refused_share\n"
        "and sum by (job) (job_topic:streammetrics_events:rate15m) * 900 >= @refused_least",
        "{{ $value | humanizePercentage }} of the events are refused",
        "They are counted, and most are in the dead-letter topic, but they are in no number. By reason, in events a second:"
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
        "No {{ $labels.part }} of streammetrics is seen",
        'Prometheus has no series of any {{ $labels.part }} under job="@job". Nothing is measured and nothing else can page.',
    ),
    Alert(
        "StreammetricsTargetDown",
        "warning",
        "5m",
        'up{job="@job"} == 0',
        "{{ $labels.instance }} cannot be scraped",
        "Prometheus knows this process and gets no answer from it. If it was a worker, others have taken over its tasks.",
    ),
    Alert(
        "StreammetricsWatermarkStalled",
        "critical",
        "5m",
        "changes(job:streammetrics_tasks_watermark_timestamp_seconds:max[15m]) == 0\n"
        "or (max by (job) (streammetrics_tasks) unless on (job) job:streammetrics_tasks_watermark_timestamp_seconds:max)",
        "The shown numbers stand still",
        "The time up to which all tasks have come has not moved for a quarter of an hour: some input holds the watermark. "
        "Quiet inputs do not; events that are not read, or whose time stands still, do.",
    ),
    Alert(
        "StreammetricsLagGrowing",
        "warning",
        "10m",
        "job:streammetrics_lag_seconds:max > @lag_seconds\nand deriv(job:streammetrics_lag_seconds:max[5m]) > 0",
        "Records are read {{ $value | humanizeDuration }} late, and later and later",
        "More comes in than the workers take. Numbers stay right and get older.",
    ),
    Alert(
        "StreammetricsCommitsFailing",
        "critical",
        "5m",
        "job:streammetrics_commits_failing:ratio_rate5m > @commits_failing_share",
        "{{ $value | humanizePercentage }} of the commits fail",
        f"What is not committed is shown nowhere and is read again. By status, in commits a second:{_told(_COMMITS, 'status')}.",
    ),
    Alert(
        "StreammetricsRedisDown",
        "critical",
        "2m",
        "count by (job) (streammetrics_store_up == 0)",
        "Redis does not serve {{ $value }} processes of streammetrics",
        f"Nothing is committed or shown anew; workers keep trying and lose nothing. Asked in vain by{_down('store_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsRedisAtRisk",
        "warning",
        "10m",
        f"{_risk('memory', 'streammetrics_store_memory_bytes / (streammetrics_store_memory_limit_bytes > 0)', '> @store_share')}\n"
        f"or {_risk('eviction', 'streammetrics_store_evicts', '== 1')}\n"
        f"or {_risk('persistence', 'streammetrics_store_forgets', '== 1')}",
        "Redis at {{ $labels.node }} is a risk to state, by its {{ $labels.risk }}",
        '{{ if eq $labels.risk "memory" }}It uses {{ $value | humanizePercentage }} of its maxmemory; when that is full, commits are '
        'refused and numbers stand still.{{ else if eq $labels.risk "eviction" }}Its maxmemory-policy is not noeviction: when memory is '
        "short it deletes sessions and tallies, and numbers are wrong.{{ else }}It has neither appendonly nor snapshots: when it restarts, "
        "all state is lost.{{ end }}",
        keeps="10m",
    ),
    Alert(
        "StreammetricsKafkaDown",
        "critical",
        "2m",
        "count by (job) (streammetrics_source_up == 0)",
        "Kafka does not serve {{ $value }} workers of streammetrics",
        f"Nothing is read; workers keep trying and lose nothing. Asked in vain by{_down('source_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsRebalanceStorm",
        "warning",
        "5m",
        "max by (job) (increase(streammetrics_rebalances_total[15m])) > @rebalances",
        "Tasks change hands again and again",
        "A worker's tasks changed {{ $value | humanize }} times within a quarter of an hour. Each change costs reading a second again.",
    ),
    Alert(
        "StreammetricsClientDeaf",
        "warning",
        "2m",
        "sum by (job) (increase(streammetrics_client_rebuilds_total[30m])) > 0\n"
        "unless on (job) min by (job) (min_over_time(streammetrics_source_up[30m])) == 0",
        "A Kafka client went deaf and was replaced",
        "Brokers answered and records waited, but the client brought none. The replacement goes on where it stood; nothing is lost.",
    ),
    Alert(
        "StreammetricsSeriesLimit",
        "warning",
        "10m",
        "max by (job) (streammetrics_series / streammetrics_series_limit) > @series_share\n"
        "or max by (job) (streammetrics_series_left_out) > 0",
        "The page has as many series as it may have, or nearly",
        "Variants, segments or cut-offs beyond the limits are folded into _other or left out of /metrics; the report has them all.",
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
    Inhibition("StreammetricsJoinUnhealthy", ("StreammetricsAllVariantsFell", "StreammetricsExperimentInvalid")),
    Inhibition("StreammetricsRankingRegressed", ("StreammetricsAllVariantsFell",)),
    Inhibition("StreammetricsSampleRatioMismatch", ("StreammetricsExperimentInvalid",), ("job", "experiment")),
    Inhibition("StreammetricsMultiExposure", ("StreammetricsExperimentInvalid",), ("job", "experiment")),
)
