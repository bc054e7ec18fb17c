"""Every family of series that a dashboard may ask for: the product's own table, and what stands beside it on the same page. Pure data."""

from __future__ import annotations

from collections.abc import Iterator

from streammetrics.series import SERIES, Kind, Series

_OF_MEASURE = ("experiment", "variant", "metric", "k", "scope")

_EXPERIMENTS = (
    Series("streammetrics_experiment_mean", "gauge", "Mean of a measure over a variant.", _OF_MEASURE),
    Series("streammetrics_experiment_lift", "gauge", "Relative difference to the control.", _OF_MEASURE),
    Series("streammetrics_experiment_lift_lower", "gauge", "Least lift that the data allow.", _OF_MEASURE),
    Series("streammetrics_experiment_lift_upper", "gauge", "Greatest lift that the data allow.", _OF_MEASURE),
    Series("streammetrics_experiment_verdict", "gauge", "Verdict as a code.", _OF_MEASURE),
    Series("streammetrics_experiment_users", "gauge", "Users of a variant.", ("experiment", "variant", "scope")),
    Series("streammetrics_experiment_srm_p_value", "gauge", "Chance of so uneven a split.", ("experiment", "scope")),
    Series("streammetrics_experiment_multi_exposed_users", "gauge", "Users of several variants.", ("experiment", "scope")),
    Series("streammetrics_experiment_entered_timestamp_seconds", "gauge", "Event time up to which lists have entered.", unit="seconds"),
)
"""What `ExperimentReport.rows` gives, by its names, and up to when; where the table of series has one too, that counts."""


def _of_process(name: str, unit: str = "") -> Series:
    """A family that the client library adds for the process."""
    kind: Kind = "counter" if name.endswith("_total") else "gauge"
    return Series(name, kind, "Of the process.", unit="seconds" if unit == "seconds" else "", origin="loop")


_PROCESS = (
    _of_process("process_cpu_seconds_total", "seconds"),
    _of_process("process_resident_memory_bytes"),
    _of_process("process_open_fds"),
    _of_process("process_max_fds"),
    _of_process("process_start_time_seconds", "seconds"),
)

_PROMETHEUS = (
    Series("up", "gauge", "1 while Prometheus can scrape.", origin="loop"),
    Series("ALERTS", "gauge", "1 while an alert is pending or firing.", ("alertname", "alertstate", "severity"), origin="loop"),
)

FAMILIES = {series.name: series for series in (*_EXPERIMENTS, *_PROCESS, *_PROMETHEUS, *SERIES.values())}
"""By the name that a query says."""

BUCKET = "_bucket"


def sample_names() -> Iterator[str]:
    """Every name that a sample may have: of a histogram, those of its parts."""
    for series in FAMILIES.values():
        if series.kind == "histogram":
            yield from (series.name + suffix for suffix in (BUCKET, "_sum", "_count"))
        else:
            yield series.name
