"""The numbers that alerts compare with, and what the rules measure by default."""

from __future__ import annotations

from streammetrics.exporters.prometheus.rules.model import Threshold

JOB = "streammetrics"
"""The scrape job of workers and exporters. Only rules for missing series need it."""
METRIC = "ndcg@10"
"""The metric for the quality of the ranking as a whole."""

THRESHOLDS = (
    Threshold("regressed_critical", 0.05, "A regression is critical when the upper bound of the lift is below minus this number."),
    Threshold("fell_warning", 0.10, "Drop of all traffic that warns, against the lower of the same hours yesterday and last week."),
    Threshold("fell_critical", 0.25, "Drop of all traffic that is critical."),
    Threshold("fell_lists_least", 500, "Final lists that an hour needs for the comparison."),
    Threshold("zero_results_factor", 2, "Rise of the zero-result rate of all traffic that warns, against the same hour last week."),
    Threshold("zero_results_share", 0.01, "Zero-result rate from which a rise counts."),
    Threshold("sample_ratio_p", 0.01, "p-value of the sample ratio check. The product has the same limit."),
    Threshold("multi_exposed_share", 0.01, "Share of users who saw several variants. The product has the same limit."),
    Threshold("unmatched_share", 0.25, "Share of feedback that counts for no list. The product has the same limit."),
    Threshold("unmatched_least", 100, "Feedback in half an hour that the share needs."),
    Threshold("users_on_several_share", 0.01, "Share of users on several partitions. The product has the same limit."),
    Threshold("silent_least", 20, "Events that a quarter of an hour had at this time last week, or its silence means nothing."),
    Threshold("refused_share", 0.01, "Share of refused events."),
    Threshold("refused_least", 100, "Events in a quarter of an hour that the share needs."),
    Threshold("lag_seconds", 300, "Age of the newest record read.", is_seconds=True),
    Threshold("commits_failing_share", 0.1, "Share of commits that failed or found unexpected state."),
    Threshold("rebalances", 5, "Changes of a worker's tasks in a quarter of an hour. A start makes two."),
    Threshold("store_share", 0.8, "Share of its maxmemory that a Redis uses."),
    Threshold("webhook_seconds", 600, "How long a change of a verdict may wait to be sent by the webhook.", is_seconds=True),
    Threshold(
        "results_seconds", 7_200, "Event time that may be in no file of results yet. It must be more than results.file_ms.", is_seconds=True
    ),
    Threshold("series_share", 0.9, "Share of the largest number of series."),
)
