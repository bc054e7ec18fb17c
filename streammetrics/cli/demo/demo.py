"""`demo`: all of streammetrics in one process, with simulated traffic, an in-memory store, the HTTP port and a live table.

It uses the same parts as `run`, except that a simulation replaces Kafka and memory replaces Redis. Simulated time runs ten times as
fast as real time, so that final results follow live ones within seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from streammetrics.cli.demo.scenarios import DEFAULT_SCENARIO, EXPERIMENT, SCENARIOS, Scenario
from streammetrics.cli.demo.screen import Screen
from streammetrics.cli.threads import StoppableThread
from streammetrics.config import LoadedSettings, Settings, load
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.connectors.simulated.source import SimulatedSource, time_lapse
from streammetrics.engine.engine import Engine
from streammetrics.errors import ConfigError
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.server import HttpServer
from streammetrics.exporters.prometheus.exposition import Exposition, ExpositionLimits
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.publish.history_keeper import HistoryKeeper
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_engine, build_worker_rules
from streammetrics.wiring.http import http_server
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.wiring.reports import build_report_builder, window_names

DEMO_DEFAULTS: Mapping[str, str] = {
    "join.gap_ms": "10000",
    "join.attribution_ms": "8000",
    "join.lateness_ms": "500",
    "experiments.patience_ms": "3000",
    "join.out_of_orderness_ms": "500",
    "join.idle_ms": "3000",
    "join.support_users": "1",
    "windows.pane_ms": "1000",
    "windows.windows": "1m",
    "windows.segments": "surface",
    "worker.commit_ms": "250",
    "worker.commit_behind_ms": "250",
    "exporter.publish_ms": "500",
}
"""Defaults of the demo. With them, final results follow live ones after about ten seconds. No simulated clock is wrong, so each event
sets the time: with times so short, a busy machine would look like a wrong clock."""

TIME_FACTOR = 10
"""How much faster than real time the simulated users act."""
HISTORY_MS = 150_000
"""How long before now the traffic begins, so that the windows are full from the start."""
RETENTION_MS = 300_000
"""How long panes stay beyond the longest window, so that memory stays bounded in a demo that runs for days."""
TASKS = 2
TOPICS = ("impressions", "feedback")
REFRESH_SECONDS = 0.5
_OPTIONS = {"http.host": "--host", "http.port": "--port"}
"""Options that set a key, for error messages."""


class DiscardedDeadLetters:
    """A dead-letter sink that drops everything. Refused events are still counted."""

    def write(self, letters: object) -> None:
        """Drop the letters."""

    def close(self) -> None:
        """Do nothing."""


def load_demo(
    path: Path | None, environ: Mapping[str, str], flags: Mapping[str, object], scenario: str = DEFAULT_SCENARIO
) -> LoadedSettings:
    """Load the settings of a demo, with `DEMO_DEFAULTS` and those of the scenario as defaults. Raises ConfigError.

    If the default windows do not fit panes that the operator set, the default windows of `run` apply.
    """
    defaults = {**DEMO_DEFAULTS, **SCENARIOS[scenario].defaults}
    try:
        return load(path, environ, flags, defaults)
    except ConfigError as error:
        if all(problem.key != "windows.windows" or problem.value != DEMO_DEFAULTS["windows.windows"] for problem in error.problems):
            raise
    return load(path, environ, flags, {key: value for key, value in defaults.items() if key != "windows.windows"})


def run_demo(
    settings: Settings, stop: threading.Event, *, scenario: str = DEFAULT_SCENARIO, seed: int, rate: float, seconds: float
) -> None:
    """Run until `stop` is set or `seconds` have passed (0: no limit), then stop cleanly.

    Raises ConfigError if the port is in use, and the error of a thread that failed.
    """
    configure_quiet_logs(settings.log.level, settings.log.format)
    clock = SystemClock()
    start_ms = clock.wall_ms() - HISTORY_MS
    settings = _demo_settings(settings)
    status = ProcessStatus(started_seconds=clock.monotonic())
    engine, store = build_engine(settings, TOPICS), MemoryStore()
    answers = _answers(settings, engine, status, clock)
    screen = Screen(settings, engine.layout, status, clock, SCENARIOS[scenario].treatment)
    store.announce(TASKS)
    history = HistoryKeeper(answers.show)

    def show(report: Report) -> None:
        history.on_report(report)
        screen.on_report(report)

    publisher = Publisher(
        builder=build_report_builder(settings, engine),
        store=store,
        publish_ms=settings.exporter.publish_ms,
        clock=clock,
        status=status,
        on_report=show,
    )
    if stop.is_set():  # a signal arrived during start-up
        return
    with ExitStack() as stack:
        server = _http_server(answers, settings)
        stack.callback(server.stop)
        server.start()
        publishing = stack.enter_context(StoppableThread("publisher", publisher.run, stop))
        working = stack.enter_context(
            StoppableThread(
                "worker",
                _worker(settings, engine, store, status, clock, demo_traffic(SCENARIOS[scenario], start_ms, seed, rate)).run,
                stop,
            )
        )
        deadline = clock.monotonic() + seconds if seconds else None
        with screen.display(server.url):
            while not stop.wait(REFRESH_SECONDS) and (deadline is None or clock.monotonic() < deadline):
                screen.refresh()
        working.end()
        publishing.end()
        screen.print_counts()


def _demo_settings(settings: Settings) -> Settings:
    """Set what every demo needs: the native event format, and a retention that bounds memory."""
    longest_ms = max(window.ms for window in settings.windows.windows)
    behind_ms = settings.join.attribution_ms + settings.join.lateness_ms
    retention_ms = min(settings.windows.retention_ms, longest_ms + behind_ms + RETENTION_MS)
    return settings.model_copy(
        update={
            "events": settings.events.model_copy(update={"format": "native"}),
            "windows": settings.windows.model_copy(update={"retention_ms": retention_ms}),
        }
    )


def demo_traffic(scenario: Scenario, start_ms: int, seed: int, rate: float) -> Traffic:
    """Return the traffic of a scenario with delivery faults. `rate` is in lists per second of real time."""
    return Traffic(
        users=max(100, round(100 * rate)),
        seed=seed,
        start_ms=start_ms,
        impressions_per_second=rate / TIME_FACTOR,
        experiment=EXPERIMENT,
        variants=scenario.variants,
        ramps=() if scenario.ramp is None else (scenario.ramp._replace(after_ms=scenario.ramp.after_ms * TIME_FACTOR),),
        duplicate_rate=0.005,
        late_rate=0.002,
        malformed_rate=0.002,
        impressions_topic=TOPICS[0],
        feedback_topic=TOPICS[1],
    )


def _worker(settings: Settings, engine: Engine, store: MemoryStore, status: ProcessStatus, clock: SystemClock, traffic: Traffic) -> Worker:
    return Worker(
        TaskRunner(
            engine=engine,
            decode=build_decoder(settings),
            source=SimulatedSource(time_lapse(generate(traffic), traffic.start_ms, TIME_FACTOR), TOPICS, TASKS, clock),
            store=store,
            letters=DiscardedDeadLetters(),
            rules=build_worker_rules(settings),
            clock=clock,
            status=status,
        )
    )


def _answers(settings: Settings, engine: Engine, status: ProcessStatus, clock: SystemClock) -> HttpAnswers:
    limits = ExpositionLimits(label_values_max=settings.exporter.label_values_max, series_max=settings.exporter.series_max)
    return HttpAnswers(Exposition(engine.layout, window_names(settings), status, limits), clock.monotonic)


def _http_server(answers: HttpAnswers, settings: Settings) -> HttpServer:
    try:
        return http_server(answers, settings.http)
    except ConfigError as error:
        raise ConfigError([replace(problem, key=_OPTIONS.get(problem.key, problem.key)) for problem in error.problems]) from None
