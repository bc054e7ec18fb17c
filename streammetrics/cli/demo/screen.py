"""The terminal output of `demo`: a live table of two variants; without a terminal, one line every two seconds.

Computes only the differences and rates that it shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from streammetrics.cli.demo.scenarios import CONTROL
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.cli.output.tables import VariantRow, counter_lines, main_metrics, number, window_rows
from streammetrics.cli.output.terminal import FittingTable
from streammetrics.cli.output.verdict_tables import verdict_summary
from streammetrics.config import Settings
from streammetrics.connectors.clock import Clock
from streammetrics.experiments.experiment_report import SINCE_START
from streammetrics.metrics import TallyLayout
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus, Rate
from streammetrics.windows.panes import WindowView
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted

TITLE = "streammetrics demo: a simulated A/B test in time-lapse; stop it with Ctrl-C"
SHOWN_VIEWS: tuple[WindowView, WindowView] = ("live", "final")
LINE_SECONDS = 2.0


class Screen:
    """Shows the latest report: the control beside `treatment`.

    `on_report` may be called from any thread, `refresh` only from the main thread.
    """

    def __init__(self, settings: Settings, layout: TallyLayout, status: ProcessStatus, clock: Clock, treatment: str) -> None:
        self._windows = settings.windows.windows
        self._metrics = main_metrics(layout.scorer.metrics)
        self._status, self._clock = status, clock
        self._treatment = treatment
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=not standard_output().isatty())
        self._live: Live | None = None
        self._report: Report | None = None
        self._rate = Rate()
        self._events_per_second: float | None = None
        self._line_due = 0.0
        self._urls = ""

    def on_report(self, report: Report) -> None:
        """Set the report to show."""
        self._report = report

    @contextmanager
    def display(self, url: str) -> Iterator[None]:
        """Show the latest report and the addresses below `url` while the block runs."""
        self._urls = f"{url}/  {url}/metrics  {url}/api/report"
        if not self._console.is_terminal:
            self._print(f"streammetrics demo: {self._urls}")
            yield
            return
        with Live(self._picture(), console=self._console, auto_refresh=False) as self._live:
            yield
            self._live.update(self._picture(), refresh=True)
        self._live = None

    def refresh(self) -> None:
        """Update the table, or print a line if one is due."""
        now = self._clock.monotonic()
        self._events_per_second = self._rate.add(now, self._events)
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)
        elif now >= self._line_due:
            self._line_due = now + LINE_SECONDS
            self._print(self._line())

    def print_counts(self) -> None:
        """Print the counts of all events by outcome, after the demo has stopped."""
        if self._report is not None:
            for line in counter_lines(self._report.counts):
                self._print(line)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)
        self._console.file.flush()

    def _picture(self) -> Group:
        lines = [Text(TITLE, style="bold"), Text(self._urls, style="cyan")]
        if self._report is None:
            return Group(*lines, Text("starting …"))
        return Group(*lines, Text(self._status_line()), self._table(self._report), *verdict_summary(self._report.experiments))

    @property
    def _events(self) -> int:
        return sum(self._status.records.values())

    def _status_line(self) -> str:
        report, now_ms = self._report, self._clock.wall_ms()
        bounds = (("live", report.watermark_ms), ("final", report.final_ms)) if report else ()
        ages = [f"{view} up to {'-' if ms is None else f'{(now_ms - ms) / 1_000:.1f} s ago'}" for view, ms in bounds]
        rate = [] if self._events_per_second is None else [f"{self._events_per_second:,.0f} events/s"]
        return " · ".join([counted(self._events, "event"), *rate, *ages])

    def _table(self, report: Report) -> FittingTable:
        numbers = tuple(f"{view}\n{heading}" for view in SHOWN_VIEWS for heading in (CONTROL, self._treatment, "change"))
        table = FittingTable(("window\nmetric",), numbers)
        for window in self._windows:
            pairs = [self._pair(report, window.ms, view) for view in SHOWN_VIEWS]
            table.add_row(Text(f"last {window}", style="bold"))
            table.add_row("lists", *(cell for pair in pairs for cell in (*(f"{arm.lists:,}" if arm else "-" for arm in pair), "")))
            for metric in self._metrics:
                table.add_row(metric, *(cell for pair in pairs for cell in _compared(pair, metric)))
            table.add_section()
        return table

    def _line(self) -> str:
        """Return one line with the final values of the longest window."""
        if self._report is None:
            return "starting"
        window = max(self._windows, key=lambda length: length.ms)
        control, treatment = self._pair(self._report, window.ms, "final")
        metrics = [f"{metric} {_value(control, metric)} / {_value(treatment, metric)}" for metric in self._metrics]
        verdicts = [
            f"{fit(experiment.experiment)}: {experiment.verdict.word}"
            for experiment in self._report.experiments
            if experiment.scope == SINCE_START
        ]
        values = f"final, last {window}, {CONTROL} / {self._treatment}: {', '.join(metrics)}"
        return " · ".join([self._status_line(), values, *verdicts])

    def _pair(self, report: Report, window_ms: int, view: WindowView) -> tuple[VariantRow | None, VariantRow | None]:
        arms = {arm.variant: arm for arm in window_rows(report, window_ms, view)}
        return arms.get(CONTROL), arms.get(self._treatment)


def _value(arm: VariantRow | None, metric: str) -> str:
    return number(arm.values.get(metric) if arm else None)


def _compared(pair: tuple[VariantRow | None, VariantRow | None], metric: str) -> tuple[str, str, Text]:
    """Return the metric of both variants, and the relative change from control to treatment."""
    control, treatment = (arm.values.get(metric) if arm else None for arm in pair)
    if not control or treatment is None:
        return number(control), number(treatment), Text("-")
    change = treatment / control - 1
    return number(control), number(treatment), Text(f"{100 * change:+.1f} %", style="red" if change < 0 else "green")
