"""Every family of series that a dashboard may ask for: the product's own table, and what stands beside it on the same page. Pure data."""

from __future__ import annotations

from collections.abc import Iterator

from streammetrics.exporters.prometheus.series import SERIES, Series, SeriesKind


def _of_process(name: str, unit: str = "") -> Series:
    """A family that the client library adds for the process."""
    kind: SeriesKind = "counter" if name.endswith("_total") else "gauge"
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

FAMILIES = {series.name: series for series in (*_PROCESS, *_PROMETHEUS, *SERIES.values())}
"""By the name that a query says."""

BUCKET = "_bucket"


def sample_names() -> Iterator[str]:
    """Every name that a sample may have: of a histogram, those of its parts."""
    for series in FAMILIES.values():
        if series.kind == "histogram":
            yield from (series.name + suffix for suffix in (BUCKET, "_sum", "_count"))
        else:
            yield series.name
