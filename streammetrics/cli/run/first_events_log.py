"""Logs what a new installation waits for."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.reports.freshness import FirstEvents
from streammetrics.reports.history import History
from streammetrics.reports.report import Report

QUIET_SECONDS = 10.0
"""How long there may be no events before the log says what it waits for."""

log = structlog.get_logger("streammetrics.cli.run.first_events_log")


class FirstEventsLog:
    """Passes reports on, and logs once what is waited for if there are no events for a while, and once when they come."""

    def __init__(self, first_events: FirstEvents, clock: Clock, show: Callable[[Report, History], None]) -> None:
        self._first_events, self._clock, self._show = first_events, clock, show
        self._since_seconds: float | None = None
        self._logged = False

    def on_report(self, report: Report, history: History) -> None:
        """Show a report, and log a change."""
        self._show(report, history)
        sentences = self._first_events.sentences(report)
        now = self._clock.monotonic()
        if self._since_seconds is None:
            self._since_seconds = now
        if self._logged and not sentences:
            self._logged = False
            wait, at_ms = self._first_events.verdict, report.watermark_ms
            first = {} if wait is None or at_ms is None else {"first_verdict": f"between {wait.at_text(at_ms)}, or later if users are few"}
            log.info("the first events have come", **first)
        elif sentences and not self._logged and now - self._since_seconds >= QUIET_SECONDS:
            self._logged = True
            log.info(" ".join(sentences), example="\n".join(self._first_events.advice()))
