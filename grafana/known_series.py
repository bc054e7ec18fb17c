"""All series that a dashboard may query: the table of the product, and series of the client library and of Prometheus. Pure data."""

from __future__ import annotations

from streammetrics.exporters.prometheus.family import Series, SeriesKind
from streammetrics.exporters.prometheus.series import SERIES


def _of_process(name: str, unit: str = "") -> Series:
    """A series that the client library adds for the process."""
    kind: SeriesKind = "counter" if name.endswith("_total") else "gauge"
    return Series(name, kind, "Added by the client library.", unit="seconds" if unit == "seconds" else "", origin="loop")


_PROCESS = (
    _of_process("process_cpu_seconds_total", "seconds"),
    _of_process("process_resident_memory_bytes"),
    _of_process("process_start_time_seconds", "seconds"),
)

_PROMETHEUS = (
    Series("up", "gauge", "1 if Prometheus can scrape the process.", origin="loop"),
    Series("ALERTS", "gauge", "1 for each pending or firing alert.", ("alertname", "alertstate", "severity"), origin="loop"),
)

KNOWN_SERIES = {series.name: series for series in (*_PROCESS, *_PROMETHEUS, *SERIES.values())}
"""The series by name."""

BUCKET = "_bucket"
