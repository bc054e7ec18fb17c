"""The page that Prometheus scrapes: the table of series filled with rows, and kept as bytes for both text formats.

The part that a report decides is rendered once per report, in the publisher's thread; a scrape adds the vitals of the
process, a few dozen series, and sends. It asks neither the store nor the source.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.exposition import generate_latest as render_text
from prometheus_client.openmetrics.exposition import generate_latest as render_openmetrics
from prometheus_client.registry import Collector

from streammetrics.exporters.prometheus.experiments import ControlOf, control_by_convention
from streammetrics.exporters.prometheus.rows import ReportRows, SampleRow, status_rows
from streammetrics.exporters.prometheus.series import TABLE, Series
from streammetrics.metrics import TallyLayout
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus

ExpositionFormat: TypeAlias = Literal["text", "openmetrics"]

CONTENT_TYPES: Mapping[ExpositionFormat, str] = {
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "openmetrics": "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
_RENDER: Mapping[ExpositionFormat, Callable[[Collector], bytes]] = {"text": render_text, "openmetrics": render_openmetrics}
_END = b"# EOF\n"
"""What ends a page of OpenMetrics, and nothing else may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpositionLimits:
    """How much of what senders name may become series: values of one label, series in all."""

    label_values_max: int = 100
    series_max: int = 50_000


class SeriesCollector(Collector):
    """Some series of the table with the rows they have now; rows that are not given again are no more."""

    def __init__(self, table: Iterable[Series]) -> None:
        self._table = tuple(table)
        self.rows: Sequence[SampleRow] = ()

    def describe(self) -> Iterator[Metric]:
        """Every family that may be shown, without samples: what the registry checks for names that clash."""
        return map(_family, self._table)

    def collect(self) -> Iterator[Metric]:
        """The families that have samples, in the order of the table."""
        rows: defaultdict[str, list[SampleRow]] = defaultdict(list)
        for row in self.rows:
            rows[row.series].append(row)
        for series in self._table:
            if series.name in rows:
                yield _filled(series, rows[series.name])


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
    """The page of one process. `window_names` are the windows' lengths in ms with the text that the label shows.

    `loop` tells whether the process consumes; without it the series of the loop are absent. `control_of` names the control of an
    experiment of which nothing has been reported yet. `show` and `page` may be called
    from different threads. Metrics of the process itself (`process_...`) are added by the client library.
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
    ) -> None:
        self._limits = limits or ExpositionLimits()
        self.layout, self.status, self.loop = layout, status, loop
        self._report_rows = ReportRows(layout, window_names, self._limits.label_values_max, control_of)
        self._of_state = SeriesCollector(series for series in TABLE if series.origin == "state")
        self._of_process = SeriesCollector(series for series in TABLE if series.origin != "state")
        self._state, self._process = CollectorRegistry(), CollectorRegistry()
        self._state.register(self._of_state)
        self._process.register(self._of_process)
        ProcessCollector(registry=self._process)
        self._shown = _Shown({}, 0)
        self._wanted: set[ExpositionFormat] = set()
        self._left_out = 0
        self._left_out_total = 0
        self._rendering = threading.Lock()

    def show(self, report: Report) -> None:
        """Show this report from now on, in every format that anybody has asked for so far."""
        of_process = len(self._process_rows(0))
        room = self._limits.series_max - of_process
        kept, left_out = self._report_rows.take(report, max(0, room))
        left_out += max(0, -room)
        self._left_out_total += max(0, left_out - self._left_out)
        self._left_out = left_out
        with self._rendering:
            self._of_state.rows = kept
            self._shown = _Shown({wanted: _RENDER[wanted](self._state) for wanted in sorted(self._wanted)}, len(kept))

    def page(self, accept: str) -> tuple[bytes, str]:
        """The page and its content type: OpenMetrics for whoever accepts it at all, else the older text format.

        Whoever asks for a format first waits until it is rendered; from then on it is ready.
        """
        wanted = _preferred(accept)
        shown = self._shown
        if wanted not in shown.rendered:
            shown = self._render_first(wanted)
        self._of_process.rows = self._process_rows(shown.series)[: self._limits.series_max]
        return shown.rendered[wanted].removesuffix(_END) + _RENDER[wanted](self._process), CONTENT_TYPES[wanted]

    def _render_first(self, wanted: ExpositionFormat) -> _Shown:
        with self._rendering:
            self._wanted.add(wanted)
            rendered = {**self._shown.rendered, wanted: _RENDER[wanted](self._state)}
            self._shown = _Shown(rendered, self._shown.series)
            return self._shown

    def _process_rows(self, others: int) -> list[SampleRow]:
        """What the process tells of itself, and of this page, which has `others` series more."""
        rows = [
            SampleRow("streammetrics_series_limit", (), self._limits.series_max),
            SampleRow("streammetrics_series_left_out", (), self._left_out),
            SampleRow("streammetrics_series_folded_total", (), self._left_out_total),
            *status_rows(self.status, self.loop),
        ]
        return [SampleRow("streammetrics_series", (), min(len(rows) + 1 + others, self._limits.series_max)), *rows]


@dataclass(frozen=True, slots=True)
class _Shown:
    """A report as bytes, and how many series it has."""

    rendered: Mapping[ExpositionFormat, bytes]
    series: int


def _preferred(accept: str) -> ExpositionFormat:
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no version
        return "text"
    return "openmetrics" if content_type.startswith("application/openmetrics-text") else "text"
