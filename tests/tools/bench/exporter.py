"""The exporter at the default limit of series: what a second costs when no client asks, and what a response costs.

Simulated traffic runs through the engine and a store in memory, one second of event time after the other. Every second the worker commits
and the publisher reads, as in `run`. The numbers of a scrape are compared with the report.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from streammetrics.cli.demo.demo import DiscardedDeadLetters
from streammetrics.config import load
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.simulated import Traffic, generate
from streammetrics.connectors.simulated.source import SimulatedSource
from streammetrics.connectors.simulated.traffic import Variant
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.prometheus.exposition import Exposition, ExpositionLimits
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.publish.history_keeper import HistoryKeeper
from streammetrics.runtime.publish.publisher import Publisher
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_engine, build_worker_rules
from streammetrics.wiring.gc_tuning import tune_garbage_collection
from streammetrics.wiring.reports import build_report_builder, window_names
from tests.support.faults import HandClock
from tests.tools.bench.parts import WrongAnswerError, read_given, reply
from tests.tools.bench.truth import INPUTS

VARIANTS = 100
LISTS_PER_SECOND = 100.0
START_MS = 1_732_183_200_000
WARM_MS = 45 * 60_000
"""Until every window of both views has lists of every group."""
STEP_MS = 20_000
SECOND_MS = 1_000


class Stream:
    """Traffic, a worker and a publisher in one thread, on a clock that the benchmark moves."""

    def __init__(self, series_max: int) -> None:
        flags = {"windows.segments": "surface", "exporter.series_max": series_max, "experiments.variants_max": VARIANTS}
        settings = load(None, {}, flags).settings
        self.clock, status, store = HandClock(START_MS), ProcessStatus(), MemoryStore()
        traffic = Traffic(
            users=20_000,
            seed=7,
            start_ms=START_MS,
            impressions_per_second=LISTS_PER_SECOND,
            variants=tuple(Variant(f"variant-{number}", 1 / VARIANTS) for number in range(VARIANTS)),
            impressions_topic=INPUTS[0],
            feedback_topic=INPUTS[1],
        )
        engine = build_engine(settings, INPUTS)
        limits = ExpositionLimits(label_values_max=VARIANTS, series_max=series_max)
        self.answers = HttpAnswers(Exposition(engine.layout, window_names(settings), status, limits), self.clock.monotonic)
        self.reports: list[Report] = []
        history = HistoryKeeper(self.answers.show)

        def show(report: Report) -> None:
            self.reports[:] = [report]
            history.on_report(report)

        store.announce(1)
        self._worker = Worker(
            TaskRunner(
                engine=engine,
                decode=build_decoder(settings),
                source=SimulatedSource(generate(traffic), INPUTS, 1, self.clock),
                store=store,
                letters=DiscardedDeadLetters(),
                rules=build_worker_rules(settings),
                clock=self.clock,
                status=status,
            )
        )
        self.publisher = Publisher(
            builder=build_report_builder(settings, engine), store=store, publish_ms=1_000, clock=self.clock, status=status, on_report=show
        )

    def pass_time(self, ms: int) -> None:
        """Let time pass, and process and commit all events up to then."""
        self.clock.advance(ms / 1_000)
        before = -1
        while before != (before := sum(self._worker.status.records.values())):
            self._worker.turn(timeout_s=0)
        self._worker.turn(timeout_s=0)


def cpu_seconds(action: Callable[[], Any]) -> float:
    began = time.thread_time()
    action()
    return time.thread_time() - began


def check(stream: Stream, page: bytes) -> int:
    """Compare every shown mean of all traffic and variants with the report. Returns how many."""
    (report,) = stream.reports
    names = {window.window_ms: name for window, name in zip(report.windows, ("5m", "5m", "1h", "1h"), strict=True)}
    expected = {}
    for window in report.windows:
        prefix = "streammetrics_" if window.view == "final" else "streammetrics_live_"
        for values in window.groups:
            for metric, number in values.values.items() if not values.group.segment else ():
                name, _, k = metric.partition("@")
                expected[prefix + name, values.group.variant, k, names[window.window_ms]] = number
    series_values = {}
    for family in text_string_to_metric_families(page.decode()):
        for sample in family.samples:
            labels = sample.labels
            if {"variant", "k", "window"} <= labels.keys() and not labels.get("segments"):
                series_values[sample.name, labels["variant"], labels["k"], labels["window"]] = sample.value
    series_values = {key: value for key, value in series_values.items() if key in expected or "user_hit_rate" not in key[0]}
    if not expected or series_values != expected:
        raise WrongAnswerError(f"{len(series_values.items() ^ expected.items())} values of the metrics differ from the report")
    return len(expected)


def main() -> None:
    given = read_given()
    stream = Stream(given["series_max"])
    for _ in range(WARM_MS // STEP_MS):
        stream.pass_time(STEP_MS)
    stream.publisher.publish()
    page, _ = stream.answers.metrics("")
    checked = check(stream, page)
    tune_garbage_collection()
    seconds: dict[str, list[float]] = {"calm": [], "publish": [], "scrape": [], "repeat": [], "report": []}
    for number in range(2 * given["seconds"]):
        is_calm = number < given["seconds"]
        stream.pass_time(SECOND_MS)
        seconds["calm" if is_calm else "publish"].append(cpu_seconds(stream.publisher.publish))
        if not is_calm:
            seconds["scrape"].append(cpu_seconds(lambda: stream.answers.metrics("")))
            seconds["repeat"].append(cpu_seconds(lambda: stream.answers.metrics("")))
            seconds["report"].append(cpu_seconds(stream.answers.report_json))
    page, _ = stream.answers.metrics("")
    checked += check(stream, page)
    series = sum(not line.startswith(b"#") for line in page.splitlines())
    reply({"series": series, "page_bytes": len(page), "checked": checked, **{name: sum(of) / len(of) for name, of in seconds.items()}})


if __name__ == "__main__":
    main()
