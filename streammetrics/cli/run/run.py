"""The `run` process: the HTTP port around what the process does, and the log of what a new installation waits for.

The port opens first and closes last, so that start-up and shutdown can be monitored.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from streammetrics.cli.run.service import serve
from streammetrics.cli.run.worker_pool import WorkerPool
from streammetrics.config import Settings
from streammetrics.config.results import NATIVE
from streammetrics.connectors.clock import Clock, SystemClock
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.prometheus.exposition import Exposition, ExpositionLimits
from streammetrics.reports.freshness import FirstEvents
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from streammetrics.runtime.status import ProcessStatus
from streammetrics.version import __version__
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from streammetrics.wiring.http import http_server
from streammetrics.wiring.logs import configure_logs
from streammetrics.wiring.reports import control_of, first_verdict_wait, window_names

QUIET_SECONDS = 10.0
"""How long there may be no events before the log says what it waits for."""
log = structlog.get_logger("streammetrics.cli.run.run")


def run(settings: Settings, stop: threading.Event) -> None:
    """Run until `stop` is set. Raises StreammetricsError for failures that retries do not fix."""
    configure_logs(settings.log.level, settings.log.format)
    tune_garbage_collection()
    clock, status = SystemClock(), ProcessStatus()
    status.started_seconds = status.beat_seconds = clock.monotonic()
    engine = build_engine(settings, settings.kafka.topics)
    role = settings.worker.role
    limits = ExpositionLimits(label_values_max=settings.exporter.label_values_max, series_max=settings.exporter.series_max)
    pool = WorkerPool(settings, clock, status) if role != "exporter" and settings.worker.processes > 1 else None
    exposition = Exposition(
        engine.layout,
        window_names(settings),
        status,
        limits,
        loop=role != "exporter",
        control_of=control_of(settings),
        worker_pids=tuple if pool is None else pool.pids,
    )
    first_events = FirstEvents(settings.kafka.topics, settings.events.reader != NATIVE, first_verdict_wait(settings))
    answers = HttpAnswers(
        exposition,
        clock.monotonic,
        publishes=role != "worker",
        first_events=first_events,
        wall_ms=clock.wall_ms,
        stale_ms=settings.exporter.gate_stale_ms,
    )

    server = http_server(answers, settings.http)
    server.start()
    log.info("started", version=__version__, role=role, http=server.url, topics=settings.kafka.topics)
    try:
        serve(
            settings,
            engine,
            clock,
            status,
            stop,
            FirstEventsLog(first_events, clock, answers.show).on_report,
            None if pool is None else pool.run,
        )
    finally:
        server.stop()
    log.info("stopped")


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
