"""`simulate` as its user sees it: traffic out to files, standard output or Kafka, with a progress bar. Makes no event itself."""

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

from streammetrics.cli.output.atomic_file import AtomicFile
from streammetrics.cli.output.output_paths import standard_output
from streammetrics.cli.output.progress import progress_bar
from streammetrics.cli.process.logs import configure_quiet_logs
from streammetrics.cli.process.signals import stopping
from streammetrics.cli.simulate_plan import STDOUT, SimulateOptions, SimulatePlan, plan_of
from streammetrics.config import Settings
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import StreammetricsError
from streammetrics.reports.text import counted

NATIVE_TOPICS = ("impressions", "feedback")
TOLD_EVERY_RECORDS = 500
WAIT_SECONDS_MAX = 0.2


class Sink(Protocol):
    """Where records go. `timestamp_ms` is the time at which a log would have taken the record, None for now."""

    def write(self, sent: SimulatedRecord, timestamp_ms: int | None) -> None: ...

    def flush(self) -> None: ...


@dataclass(slots=True)
class SimulateProgress:
    """How much has been made: records, and the newest event time (ms; the start before the first record)."""

    records: int
    newest_ms: int


def simulate_traffic(settings: Settings, wishes: SimulateOptions) -> None:
    """Make the traffic, and say on standard error what was made. Raises ConfigError for wishes that cannot be met."""
    configure_quiet_logs(settings.log.level, settings.log.format)
    plan = plan_of(wishes, settings.kafka.topics if wishes.kafka else NATIVE_TOPICS, SystemClock().wall_ms())
    with stopping() as stop, ExitStack() as stack:
        sink = stack.enter_context(_to_kafka(settings, plan) if wishes.kafka else _to_files(wishes.out))
        message = stack.enter_context(_progress(plan))
        made = _make(plan, sink, stop, message)
        if stop.is_set() and any(path != STDOUT for path in wishes.out):
            raise StreammetricsError("interrupted, and therefore nothing was written")
    span = timedelta(seconds=max(0, made.newest_ms - plan.traffic.start_ms) // 1_000)
    print(f"streammetrics: {counted(made.records, 'record')}, {span} of event time, to {_place(settings, wishes)}", file=sys.stderr)


def _make(plan: SimulatePlan, sink: Sink, stop: threading.Event, message: Callable[[SimulateProgress], None]) -> SimulateProgress:
    made = SimulateProgress(0, plan.traffic.start_ms)
    for sent in _in_time(plan, sink, stop):
        made.records += 1
        made.newest_ms = max(made.newest_ms, sent.ts)
        sink.write(sent, None if plan.in_real_time else made.newest_ms)
        if made.records % TOLD_EVERY_RECORDS == 0 or plan.in_real_time:
            message(made)
        if stop.is_set():
            break
    message(made)
    return made


def _in_time(plan: SimulatePlan, sink: Sink, stop: threading.Event) -> Iterable[SimulatedRecord]:
    """The records, in real time each when its event time has come: as long after now as it is after the traffic's start."""
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
    """Impressions into the first file, feedback into the last, one record a line."""

    def __init__(self, files: list[IO[bytes]]) -> None:
        self._of_topic = dict(zip(NATIVE_TOPICS, (files[0], files[-1]), strict=True))

    def write(self, sent: SimulatedRecord, timestamp_ms: int | None) -> None:
        self._of_topic[sent.topic].write(sent.value + b"\n")

    def flush(self) -> None:
        for file in self._of_topic.values():
            file.flush()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    if path == STDOUT:
        yield standard_output().buffer
        return
    with AtomicFile("--out", path) as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:  # no name and no time in it: equal events are equal bytes
            yield cast(IO[bytes], packed)


@contextmanager
def _to_files(paths: tuple[Path, ...]) -> Iterator[Sink]:
    with ExitStack() as stack:
        files = [stack.enter_context(_opened(path)) for path in paths]
        sink = FileSink(files)
        yield sink
        sink.flush()


@contextmanager
def _to_kafka(settings: Settings, plan: SimulatePlan) -> Iterator[Sink]:
    from streammetrics.cli.wiring import kafka_connection  # noqa: PLC0415
    from streammetrics.connectors.kafka.sink import KafkaSink  # noqa: PLC0415  files need no Kafka client

    with KafkaSink(kafka_connection(settings), sorted({plan.traffic.impressions_topic, plan.traffic.feedback_topic})) as sink:
        yield sink


@contextmanager
def _progress(plan: SimulatePlan) -> Iterator[Callable[[SimulateProgress], None]]:
    """A bar by records where they are bounded, else by event time."""
    columns = (TaskProgressColumn(), TextColumn("{task.fields[records]:,} records"), TimeElapsedColumn())
    total = plan.events_max if plan.events_max is not None else plan.span_ms
    with progress_bar("simulate", *columns, total=total, records=0) as update:

        def message(made: SimulateProgress) -> None:
            done = made.records if plan.events_max is not None else made.newest_ms - plan.traffic.start_ms
            update(completed=done, records=made.records)

        yield message


def _place(settings: Settings, wishes: SimulateOptions) -> str:
    if wishes.kafka:
        return f"{', '.join(settings.kafka.topics)} at {', '.join(settings.kafka.bootstrap_servers)}"
    return " and ".join("standard output" if path == STDOUT else str(path) for path in wishes.out)
