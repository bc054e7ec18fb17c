"""Render the series for Prometheus, in both text formats.

A report is rendered when a client first asks for it, once per format. Further scrapes of the same report send the same bytes. Every scrape
adds the current few dozen series of the process. It does no I/O to the store or the source.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.exposition import generate_latest as render_text
from prometheus_client.openmetrics.exposition import generate_latest as render_openmetrics
from prometheus_client.registry import Collector

from streammetrics.exporters.prometheus.experiments import ControlOf, control_by_convention
from streammetrics.exporters.prometheus.family import Series
from streammetrics.exporters.prometheus.process_rows import ProcessGroupCollector, status_rows
from streammetrics.exporters.prometheus.rows import ReportRows, SampleRow
from streammetrics.exporters.prometheus.series import TABLE
from streammetrics.metrics import TallyLayout
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus

log = structlog.get_logger("streammetrics.exporters.prometheus.exposition")

ExpositionFormat: TypeAlias = Literal["text", "openmetrics"]

CONTENT_TYPES: Mapping[ExpositionFormat, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
_RENDER: Mapping[ExpositionFormat, Callable[[Collector], bytes]] = {"text": render_text, "openmetrics": render_openmetrics}
_END = b"# EOF\n"
"""The end marker of OpenMetrics. Nothing may follow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpositionLimits:
    """Limits on series: values of one label, and series in total."""

    label_values_max: int = 100
    series_max: int = 50_000


class SeriesCollector(Collector):
    """Collects some series of the table with their current `rows`."""

    def __init__(self, table: Iterable[Series]) -> None:
        self._table = tuple(table)
        self.rows: Sequence[SampleRow] = ()

    def describe(self) -> Iterator[Metric]:
        """Yield every family without samples. The registry checks them for name clashes."""
        return map(_family, self._table)

    def collect(self) -> Iterator[Metric]:
        """Yield the families that have samples, in the order of the table."""
        rows: defaultdict[str, list[SampleRow]] = defaultdict(list)
        for row in self.rows:
            rows[row.series].append(row)
        for series in self._table:
            if series.name in rows:
                yield _filled(series, rows[series.name])


class _Family(Collector):
    """A family without samples, for its head."""

    def __init__(self, series: Series) -> None:
        self._series = series

    def collect(self) -> Iterator[Metric]:
        yield _family(self._series)


def _family(series: Series) -> Metric:
    return Metric(series.family, series.help, series.kind, series.unit)


def _filled(series: Series, rows: Iterable[SampleRow]) -> Metric:
    family = _family(series)
    if series.kind != "histogram":
        for row in rows:
            family.add_sample(series.name, dict(zip(series.labels, row.labels, strict=True)), row.value)
        return family
    for row in rows:
        *labels, suffix, bound = row.labels
        bucket = {"le": bound} if suffix == "_bucket" else {}
        family.add_sample(series.name + suffix, dict(zip(series.labels, labels, strict=True)) | bucket, row.value)
    return family


class Exposition:
    """The series of one process as text. `window_names` maps window lengths in ms to label values.

    `loop` says if the process consumes; without it the series of the loop are absent. `control_of` returns the control of an
    experiment without a report. All methods may run in any thread. The
    `process_...` series include the processes of `worker_pids`.
    """

    def __init__(
        self,
        layout: TallyLayout,
        window_names: Mapping[int, str],
        status: ProcessStatus,
        limits: ExpositionLimits | None = None,
        *,
        loop: bool = True,
        control_of: ControlOf = control_by_convention,
        worker_pids: Callable[[], Sequence[int]] = tuple,
    ) -> None:
        self._limits = limits or ExpositionLimits()
        self.layout, self.status, self.loop = layout, status, loop
        self._report_rows = ReportRows(layout, window_names, self._limits.label_values_max, control_of)
        self._state_collector = SeriesCollector(series for series in TABLE if series.origin == "state")
        self._process_collector = SeriesCollector(series for series in TABLE if series.origin != "state")
        self._state, self._process = CollectorRegistry(), CollectorRegistry()
        self._state.register(self._state_collector)
        self._process.register(self._process_collector)
        self._process.register(ProcessGroupCollector(worker_pids))
        self._report: Report | None = None
        self._rendered = _RenderedReport(None, 0)
        self._left_out = 0
        self._left_out_total = 0
        self._rendering = threading.Lock()

    def show(self, report: Report) -> None:
        """Show this report from now on. Costs nothing until a client asks."""
        self._report = report

    def page(self, accept: str) -> tuple[bytes, str]:
        """Return the text and its content type: OpenMetrics if the client accepts it, else the older text format.

        Rendering tens of thousands of series takes the time of many requests. So one client renders, and others wait for its bytes.
        """
        format_ = _preferred(accept)
        with self._rendering:
            report, rendered = self._report, self._rendered
            if rendered.report is not report and report is not None:
                rendered = self._rendered = self._collect(report)
            if format_ not in rendered.pages:
                rendered.pages[format_] = _RENDER[format_](self._state).removesuffix(_END) + self._value_text(rendered.lines, format_)
            self._process_collector.rows = self._process_rows(rendered.series)[: self._limits.series_max]
            return rendered.pages[format_] + _RENDER[format_](self._process), CONTENT_TYPES[format_]

    def _collect(self, report: Report) -> _RenderedReport:
        """Make the rows of a report."""
        room = self._limits.series_max - len(self._process_rows(0))
        kept = self._report_rows.update(report, max(0, room))
        left_out = kept.left_out + max(0, -room)
        if left_out and not self._left_out:
            fix = "raise exporter.series_max, or count fewer segments, windows, metrics or cut-offs; /api/report has everything"
            log.warning("series are left out of /metrics, or folded into _other", series=left_out, fix=fix)
        self._left_out_total += max(0, left_out - self._left_out)
        self._left_out = left_out
        self._state_collector.rows = [*kept.rows.values()]
        return _RenderedReport(report, len(kept), kept.lines)

    def _value_text(self, lines: Mapping[str, Sequence[str]], format_: ExpositionFormat) -> bytes:
        """Return the families of the values of windows."""
        families = [series for series in TABLE if series.name in lines]
        heads = [_RENDER[format_](_Family(series)).removesuffix(_END).decode() for series in families]
        return "".join(text for head, family in zip(heads, families, strict=True) for text in (head, *lines[family.name])).encode()

    def _process_rows(self, others: int) -> list[SampleRow]:
        """Return the rows of the process. `others` is the number of series of the report."""
        rows = [
            SampleRow("streammetrics_series_limit", (), self._limits.series_max),
            SampleRow("streammetrics_series_left_out", (), self._left_out),
            SampleRow("streammetrics_series_folded_total", (), self._left_out_total),
            *status_rows(self.status, self.loop),
        ]
        return [SampleRow("streammetrics_series", (), min(len(rows) + 1 + others, self._limits.series_max)), *rows]


@dataclass(frozen=True, slots=True)
class _RenderedReport:
    """A report, its number of series, the lines of its windows by series, and its bytes in each format that a client has asked for."""

    report: Report | None
    series: int
    lines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pages: dict[ExpositionFormat, bytes] = field(default_factory=dict)


def _preferred(accept: str) -> ExpositionFormat:
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # an invalid version in the header
        return "text"
    return "openmetrics" if content_type.startswith("application/openmetrics-text") else "text"
