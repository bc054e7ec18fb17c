"""Alerts about the input and the pipeline. `@name` stands for an option or a threshold."""

from __future__ import annotations

from streammetrics.exporters.prometheus.rules.model import Alert
from streammetrics.exporters.prometheus.rules.templates import down, failing, listed, rates, risk

_COMMITS = "sum by (status) (rate(streammetrics_commits_total{job='%s'}[5m])) > 0"
"""The commits of all workers by result. Each worker counts its own."""
_SILENT = "job_topic:streammetrics_events:rate15m == 0\nunless on (job, topic) sum by (job, topic) (streammetrics_lag_records) > 0"

PIPELINE_ALERTS = (
    # --- input
    Alert(
        "StreammetricsJoinUnhealthy",
        "warning",
        "15m",
        "job:streammetrics_feedback_unmatched:rate30m / (job:streammetrics_feedback:rate30m > 0) > @unmatched_share\n"
        "and job:streammetrics_feedback:rate30m * 1800 >= @unmatched_least",
        "{{ $value | humanizePercentage }} of the feedback counts for no list",
        "Lists look worse than they are, in every variant. Events per second by reason:"
        f"{rates('feedback_unmatched_total', 'reason', '30m')}.",
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
        f"{_SILENT}\nand on (job, topic) job_topic:streammetrics_events:rate15m offset 1w * 900 >= @silent_least",
        "Topic {{ $labels.topic }} has no events",
        "No event came for a quarter of an hour, and none is waiting. There was traffic at this time last week: "
        "@silent_least events or more.",
    ),
    Alert(
        "StreammetricsNoTraffic",
        "warning",
        "5m",
        f"{_SILENT}\nand on (job, topic) (\n"
        "  job_topic:streammetrics_events:rate15m offset 1d\n"
        "  or max_over_time(job_topic:streammetrics_events:rate15m[1d])\n"
        ") * 900 >= @silent_least\n"
        "unless on (job, topic) job_topic:streammetrics_events:rate15m offset 1w",
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
        f"{rates('dropped_total', 'reason', '15m')}.",
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
        'No {{ $labels.part }} has series under job="@job". {{ if eq $labels.part "exporter" }}No numbers are shown, and no alert about '
        "rankings or inputs can fire.{{ else }}Nothing is read, so the numbers stand still.{{ end }} Nothing is lost while Kafka keeps the "
        "records.",
    ),
    Alert(
        "StreammetricsTargetDown",
        "warning",
        "5m",
        'up{job="@job"} == 0',
        "{{ $labels.instance }} cannot be scraped",
        "This process does not respond to Prometheus. If it was a worker, the other workers take over its tasks.",
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
        f"Events without a commit are not shown, and they are read again. Commits per second by status:{listed(_COMMITS, 'status')}.",
    ),
    Alert(
        "StreammetricsRedisDown",
        "critical",
        "2m",
        "count by (job) (streammetrics_store_up == 0)",
        "Redis does not answer processes of streammetrics: {{ $value }}",
        f"Nothing is committed, and no new numbers are shown. Workers retry and lose nothing. Affected:{down('store_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsRedisAtRisk",
        "warning",
        "10m",
        f"{risk('memory', 'streammetrics_store_memory_bytes / (streammetrics_store_memory_limit_bytes > 0)', '> @store_share')}\n"
        f"or {risk('eviction', 'streammetrics_store_evicts', '== 1')}\n"
        f"or {risk('persistence', 'streammetrics_store_forgets', '== 1')}",
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
        f"Nothing is read. Workers retry and lose nothing. Affected:{down('source_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsRegistryDown",
        "critical",
        "2m",
        "count by (job) (streammetrics_registry_up == 0)",
        "Workers of streammetrics wait for the schema registry: {{ $value }}",
        f"Inputs with a schema that is not known yet are paused. Nothing is lost. Affected:{down('registry_up')}.",
        keeps="10m",
    ),
    Alert(
        "StreammetricsWebhookFailing",
        "warning",
        "5m",
        "label_replace(\n"
        "  time() - min by (job) (streammetrics_webhooks_oldest_timestamp_seconds) > @webhook_seconds,\n"
        '  "problem", "waiting", "", ""\n'
        ")\n"
        'or label_replace(sum by (job) (increase(streammetrics_webhooks_total{status="given_up"}[1h])) > 0, "problem", "given up", "", "")',
        '{{ if eq $labels.problem "waiting" }}The webhook has not sent a change of a verdict for {{ $value | humanizeDuration }}'
        "{{ else }}The webhook has given up messages about changed verdicts: {{ $value | humanize }}{{ end }}",
        '{{ if eq $labels.problem "waiting" }}The receiver refuses the messages or does not answer. They are tried again, in their order, '
        "until webhook.give_up_ms.{{ else }}The receiver accepted no try within webhook.give_up_ms, so these messages are lost.{{ end }} "
        "Verdicts and gates are right; only these messages are affected.",
    ),
    Alert(
        "StreammetricsResultsFailing",
        "warning",
        "15m",
        f"{failing('topic', 'results_total')}\n"
        f"or {failing('files', 'result_files_total')}\n"
        'or label_replace(max by (job) (streammetrics_result_files_lag_seconds) > @results_seconds, "problem", "behind", "", "")',
        '{{ if eq $labels.problem "topic" }}Results cannot be sent to their topic{{ else if eq $labels.problem "files" }}'
        "Results cannot be written to files{{ else }}Files of results are {{ $value | humanizeDuration }} behind{{ end }}",
        '{{ if eq $labels.problem "behind" }}So much event time of final panes is in no file yet.{{ else }}Each try has failed for a '
        "quarter of an hour. Tries go on.{{ end }} Nothing is lost while Redis keeps the panes, which is as long as the longest window. "
        "The page, series, verdicts and gates are right.",
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
