"""`simulate`: sends traffic to files, standard output or Kafka, with a progress bar. `simulate.plan` decides which events."""

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
from typing import IO, Any, Protocol, cast

import click
from rich.progress import TaskProgressColumn, TextColumn, TimeElapsedColumn

from streammetrics.cli.command import command
from streammetrics.cli.options import SEED, FiniteFloatRange, configured, load_settings, moment_ms
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.cli.output.terminal import progress_bar
from streammetrics.cli.signals import stop_on_signals
from streammetrics.cli.traffic_plan import STDOUT, SimulateOptions, SimulatePlan, plan_of
from streammetrics.config import Settings
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import StreammetricsError
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.words.numbers import counted

NATIVE_TOPICS = ("impressions", "feedback", "exposures")
PROGRESS_EVERY_RECORDS = 100
WAIT_SECONDS_MAX = 0.2


class Sink(Protocol):
    """A destination for records. `timestamp_ms` is the record timestamp for Kafka."""

    def write(self, sent: SimulatedRecord, timestamp_ms: int) -> None: ...

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
        records = _when_due(plan.records(), sink, stop) if options.kafka else plan.records()
        progress = SimulateProgress(0, plan.traffic.start_ms)
        for sent in records:
            progress.records += 1
            progress.newest_ms = max(progress.newest_ms, sent.ts)
            sink.write(sent, progress.newest_ms)
            if progress.records % PROGRESS_EVERY_RECORDS == 0:
                show_progress(progress)
            if stop.is_set():
                break
        if stop.is_set() and any(path != STDOUT for path in options.out):
            raise StreammetricsError("interrupted; no file was written")
    span = timedelta(seconds=max(0, progress.newest_ms - plan.traffic.start_ms) // 1_000)
    print(
        f"streammetrics: {counted(progress.records, 'record')}, {span} of event time, to {_destination(settings, options)}", file=sys.stderr
    )


def _when_due(records: Iterable[SimulatedRecord], sink: Sink, stop: threading.Event) -> Iterator[SimulatedRecord]:
    """Yield each record when its event time has come. All records are flushed before each wait."""
    began = time.monotonic() - SystemClock().wall_ms() / 1_000
    for sent in records:
        while (wait_seconds := began + sent.ts / 1_000 - time.monotonic()) > 0:
            sink.flush()
            if stop.wait(min(wait_seconds, WAIT_SECONDS_MAX)):
                return
        yield sent


class FileSink:
    """Writes one record per line, to the files of impressions, feedback and exposures, or of impressions and feedback, or to one."""

    def __init__(self, files: list[IO[bytes]]) -> None:
        self._file_of_topic = dict(zip(NATIVE_TOPICS, (files[0], files[min(1, len(files) - 1)], files[-1]), strict=True))

    def write(self, sent: SimulatedRecord, timestamp_ms: int) -> None:
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
    from streammetrics.connectors.kafka.sinks import KafkaSink  # noqa: PLC0415  files need no Kafka client

    with KafkaSink(settings.kafka, sorted(plan.topics)) as sink:
        yield sink


@contextmanager
def _progress(plan: SimulatePlan) -> Iterator[Callable[[SimulateProgress], None]]:
    """Show a progress bar by event time."""
    columns = (TaskProgressColumn(), TextColumn("{task.fields[records]:,} records"), TimeElapsedColumn())
    with progress_bar("simulate", *columns, total=plan.span_ms, records=0) as update:
        yield lambda progress: update(completed=progress.newest_ms - plan.traffic.start_ms, records=progress.records)


def _destination(settings: Settings, options: SimulateOptions) -> str:
    if options.kafka:
        return f"{', '.join(settings.kafka.topics)} at {', '.join(settings.kafka.bootstrap_servers)}"
    *others, last = ("standard output" if path == STDOUT else str(path) for path in options.out)
    return f"{', '.join(others)} and {last}" if others else last


MINUTES_MAX = 10_000_000
"""Nineteen years of event time."""


@command
@configured
@click.option(
    "--out",
    type=click.Path(path_type=Path, allow_dash=True),
    multiple=True,
    help="Write events to this file, gzipped if its name ends in .gz. - is standard output. Give it twice for impressions and feedback, "
    "and three times for impressions, feedback and exposures.",
)
@click.option(
    "--kafka",
    is_flag=True,
    help="Send events to kafka.topics, each when its time has come: one topic for all, or those of impressions, feedback and exposures.",
)
@click.option(
    "--minutes",
    type=FiniteFloatRange(0, MINUTES_MAX, min_open=True),
    help="Stop after this much event time.  [default: 10 for files, no end with --kafka]",
)
@click.option(
    "--start",
    "start_ms",
    callback=moment_ms,
    metavar="TIME",
    help="First event time, such as 2026-02-01T09:00Z, or a span ago, such as 40m.  [default: now with --kafka, else a fixed time]",
)
@click.option("--seed", type=SEED, default=1, show_default=True, help="Random seed. The same seed and options give the same bytes.")
@click.option("--users", type=click.IntRange(1, 1_000_000_000), default=20_000, show_default=True, help="Number of users.")
@click.option("--rate", type=FiniteFloatRange(0.001, 1_000_000), default=20.0, show_default=True, help="Lists per second of event time.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME=SHARE[:QUALITY]",
    help="A variant, its share of users, and its ranking quality (default 1). May be repeated.  [default: control=0.5, treatment=0.5]",
)
@click.option("--interleaved", is_flag=True, help="Interleave the rankings of the two variants in every list (team draft).")
@click.option("--exposures", is_flag=True, help="Send exposures, which say who is in which variant. Lists carry no labels then.")
def simulate(config_path: Path | None, settings_given: tuple[str, ...], **options: Any) -> None:
    """Generate traffic with known effects, for tests and trials.

    It has users, position-based clicks, and variants of known quality. A seed makes it reproducible.

    \b
    Examples:
      streammetrics simulate --out events.ndjson --minutes 60
      streammetrics simulate --out impressions.ndjson --out feedback.ndjson --variant control=0.5 --variant treatment=0.5:0.9
      streammetrics simulate --out - --exposures | streammetrics replay - --set exposures.enabled=true
      streammetrics simulate --kafka --rate 100 --variant control=0.5 --variant treatment=0.5:0.85
      streammetrics simulate --kafka --start 1h --minutes 60 --set kafka.bootstrap_servers=broker:9092

    With --exposures, each visit begins with an exposure, at most two seconds before its first list, and some users are exposed who never
    see a list. Lists and feedback stay the same.

    With --kafka, events whose time has passed are sent at once. So --start 1h sends the last hour, and goes on in real time without
    --minutes. Records are keyed by user id, and the topics must exist. Ctrl-C waits until all sent records are acknowledged.
    """
    loaded = load_settings(config_path, settings_given)
    simulate_traffic(loaded.settings, SimulateOptions(**options))
