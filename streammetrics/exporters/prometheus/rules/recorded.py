"""Recording rules. `@name` stands for an option or a threshold."""

from __future__ import annotations

from streammetrics.exporters.prometheus.rules.model import Recorded
from streammetrics.exporters.prometheus.rules.templates import REGRESSED_MEASURES

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
        "job_experiment:streammetrics_experiment_verdict:min",
        'min by (job, experiment, scope) (streammetrics_experiment_verdict{variant="", metric="", k=""})',
    ),
    Recorded(
        "job:streammetrics_final_quality:regressed1h",  # the part of the quality that variants with an alert of their own cost
        "sum by (job) (\n"
        "  clamp_max(min by (job, experiment, variant) (\n"
        '    streammetrics_experiment_lift{metric="@metric", k="@k"}\n'
        f"    and on (job, instance, experiment, variant, scope) (\n  {REGRESSED_MEASURES}\n)\n"
        "  ), 0)\n"
        '  * on (job, experiment, variant) max by (job, experiment, variant) (increase(streammetrics_final_lists_total{variant!=""}[1h]))\n'
        ") / (job:streammetrics_final_lists:increase1h > 0)",
    ),
    Recorded(
        "job:streammetrics_final_quality:unexplained1h",
        "job:streammetrics_final_quality:mean1h / clamp_min(1 + job:streammetrics_final_quality:regressed1h, 0.1)\n"
        "or job:streammetrics_final_quality:mean1h",
    ),
    Recorded(
        "job:streammetrics_final_quality:reference1h",
        "(job:streammetrics_final_quality:unexplained1h offset 1d <= job:streammetrics_final_quality:unexplained1h offset 1w)\n"
        "or job:streammetrics_final_quality:unexplained1h offset 1w\n"
        "or job:streammetrics_final_quality:unexplained1h offset 1d",
    ),
    Recorded(
        "job:streammetrics_final_zero_results:ratio1h",
        'max by (job) (increase(streammetrics_final_zero_result_rate_sum_total{experiment=""}[1h]))\n'
        "/ (job:streammetrics_final_lists:increase1h > 0)",
    ),
)
