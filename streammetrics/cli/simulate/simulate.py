"""`simulate`: sends traffic to files, standard output or Kafka, with a progress bar. `simulate_plan` decides which events."""

from __future__ import annotations

import gzip
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Protocol, cast

from rich.progress import TaskProgressColumn, TextColumn, TimeElapsedColumn

from streammetrics.cli.output.progress import progress_bar
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.cli.process.signals import stop_on_signals
from streammetrics.cli.simulate.plan import STDOUT, SimulateOptions, SimulatePlan, plan_of
from streammetrics.config import Settings
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import StreammetricsError
from streammetrics.reports.text import counted
from streammetrics.wiring.logs import configure_quiet_logs

NATIVE_TOPICS = ("impressions", "feedback", "exposures")
PROGRESS_EVERY_RECORDS = 500
WAIT_SECONDS_MAX = 0.2


class Sink(Protocol):
    """A destination for records. `timestamp_ms` is the record timestamp for Kafka; None: now."""

    def write(self, sent: SimulatedRecord, timestamp_ms: int | None) -> None: ...

    def flush(self) -> None: ...


@dataclass(slots=True)
class SimulateProgress:
    """How much was sent: records, and the newest event time in ms (initially the start)."""

    records: int
    newest_ms: int


def simulate_traffic(settings: Settings, options: SimulateOptions) -> None:
    """Send the traffic, and print a summary on standard error. Raises ConfigError for invalid options."""
    configure_quiet_logs(settings.log.level, settings.log.format)
    plan = plan_of(options, settings.kafka.topics if options.kafka else NATIVE_TOPICS, SystemClock().wall_ms())
    with stop_on_signals() as stop, ExitStack() as stack:
        sink = stack.enter_context(_to_kafka(settings, plan) if options.kafka else _to_files(options.out))
        show_progress = stack.enter_context(_progress(plan))
        progress = _send(plan, sink, stop, show_progress)
        if stop.is_set() and any(path != STDOUT for path in options.out):
            raise StreammetricsError("interrupted; no file was written")
    span = timedelta(seconds=max(0, progress.newest_ms - plan.traffic.start_ms) // 1_000)
    print(
        f"streammetrics: {counted(progress.records, 'record')}, {span} of event time, to {_destination(settings, options)}", file=sys.stderr
    )


def _send(plan: SimulatePlan, sink: Sink, stop: threading.Event, show_progress: Callable[[SimulateProgress], None]) -> SimulateProgress:
    progress = SimulateProgress(0, plan.traffic.start_ms)
    for sent in _paced(plan, sink, stop):
        progress.records += 1
        progress.newest_ms = max(progress.newest_ms, sent.ts)
        sink.write(sent, None if plan.in_real_time else progress.newest_ms)
        if progress.records % PROGRESS_EVERY_RECORDS == 0 or plan.in_real_time:
            show_progress(progress)
        if stop.is_set():
            break
    show_progress(progress)
    return progress


def _paced(plan: SimulatePlan, sink: Sink, stop: threading.Event) -> Iterable[SimulatedRecord]:
    """Yield the records; in real time, each one when its event time has come, relative to the start."""
    if not plan.in_real_time:
        yield from plan.records()
        return
    began = time.monotonic() - plan.traffic.start_ms / 1_000
    for sent in plan.records():
        while (wait_seconds := began + sent.ts / 1_000 - time.monotonic()) > 0:
            sink.flush()
            if stop.wait(min(wait_seconds, WAIT_SECONDS_MAX)):
                return
        yield sent


class FileSink:
    """Writes one record per line, to the files of impressions, feedback and exposures, or of impressions and feedback, or to one."""

    def __init__(self, files: list[IO[bytes]]) -> None:
        self._file_of_topic = dict(zip(NATIVE_TOPICS, (files[0], files[min(1, len(files) - 1)], files[-1]), strict=True))

    def write(self, sent: SimulatedRecord, timestamp_ms: int | None) -> None:
        self._file_of_topic[sent.topic].write(sent.value + b"\n")

    def flush(self) -> None:
        for file in self._file_of_topic.values():
            file.flush()


@contextmanager
def _open_output(path: Path) -> Iterator[IO[bytes]]:
    if path == STDOUT:
        yield standard_output().buffer
        return
    with AtomicFile("--out", path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:  # without name and time, so that equal events give equal bytes
            yield cast(IO[bytes], compressed)


@contextmanager
def _to_files(paths: tuple[Path, ...]) -> Iterator[Sink]:
    with ExitStack() as stack:
        files = [stack.enter_context(_open_output(path)) for path in paths]
        sink = FileSink(files)
        yield sink
        sink.flush()


@contextmanager
def _to_kafka(settings: Settings, plan: SimulatePlan) -> Iterator[Sink]:
    from streammetrics.connectors.kafka.sink import KafkaSink  # noqa: PLC0415  files need no Kafka client
    from streammetrics.wiring.connections import kafka_connection  # noqa: PLC0415

    with KafkaSink(kafka_connection(settings), sorted(plan.topics)) as sink:
        yield sink


@contextmanager
def _progress(plan: SimulatePlan) -> Iterator[Callable[[SimulateProgress], None]]:
    """Show a progress bar by records if their number is limited, else by event time."""
    columns = (TaskProgressColumn(), TextColumn("{task.fields[records]:,} records"), TimeElapsedColumn())
    total = plan.events_max if plan.events_max is not None else plan.span_ms
    with progress_bar("simulate", *columns, total=total, records=0) as update:

        def show_progress(progress: SimulateProgress) -> None:
            done = progress.records if plan.events_max is not None else progress.newest_ms - plan.traffic.start_ms
            update(completed=done, records=progress.records)

        yield show_progress


def _destination(settings: Settings, options: SimulateOptions) -> str:
    if options.kafka:
        return f"{', '.join(settings.kafka.topics)} at {', '.join(settings.kafka.bootstrap_servers)}"
    *others, last = ("standard output" if path == STDOUT else str(path) for path in options.out)
    return f"{', '.join(others)} and {last}" if others else last
