"""Replays files through the same engine and loop as `run`, with an in-memory store and without a wall clock.

Every file is one input of task 0. An input is never idle before it ends. At the end all lists become final, unless the caller wants
the live state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from streammetrics.cli.output.atomic_file import AtomicFile
from streammetrics.cli.process.gc_tuning import rare_garbage_collection
from streammetrics.cli.replay_history import ReplayHistory
from streammetrics.cli.wiring import build_decoder, build_engine, build_report_builder, build_topic_decoders, build_worker_rules
from streammetrics.config import Settings
from streammetrics.connectors.base import PollResult
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.files import FileDeadLetters, FileSource
from streammetrics.connectors.memory import MemoryStore
from streammetrics.engine.engine import Engine
from streammetrics.engine.pane_store import FinalPane
from streammetrics.errors import SourceError, StreammetricsError
from streammetrics.events.event_time import FOREVER
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.pane_lines import pane_lines
from streammetrics.reports.report import Report
from streammetrics.runtime.committed_state import freeze_due_scales, read_committed
from streammetrics.runtime.consumer import Worker
from streammetrics.runtime.rules import WorkerRules
from streammetrics.runtime.status import ProcessStatus
from streammetrics.runtime.task_runner import TaskRunner

COMMIT_MS = 3_600_000
COMMIT_USERS_MAX = 50_000
COMMIT_BYTES_MAX = 64 << 20
"""A commit of a replay makes nothing durable, so it comes only when it must, to limit memory."""


class LogicalClock(SystemClock):
    """A clock with monotonic time only, which spaces the commits. Reading the wall clock fails."""

    def wall_ms(self) -> int:
        raise AssertionError("a replay must not read the wall clock")


class ReplayFileSource(FileSource):
    """A file source with errors that end the replay: a retry would silently skip the damaged part."""

    def poll(self, timeout_s: float) -> PollResult:
        try:
            return super().poll(timeout_s)
        except SourceError as error:  # the loop retries SourceError, which does not help for files
            raise StreammetricsError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutputs:
    """Output files of a replay; None: not written."""

    panes: Path | None = None
    report: Path | None = None
    dead_letters: Path | None = None


class ReplayResult(NamedTuple):
    """The report of a replay, the engine that made it, and the start of each file by its path."""

    report: Report
    engine: Engine
    samples: Mapping[str, bytes]


def replay(
    settings: Settings,
    files: Sequence[str],
    outputs: ReplayOutputs,
    *,
    flush: bool = True,
    progress: Callable[[FileSource], None] = lambda source: None,
) -> ReplayResult:
    """Read the files to their ends. `progress` is called after every batch.

    Raises ConfigError for files that cannot be read or written, and StreammetricsError for a damaged file.
    """
    engine = build_engine(settings, files)
    store, status = MemoryStore(), ProcessStatus()
    with ExitStack() as stack:
        stack.enter_context(rare_garbage_collection())
        source = ReplayFileSource(files, event_bytes_max=settings.events.event_bytes_max)
        stack.callback(source.close)
        panes = stack.enter_context(AtomicFile("--panes", outputs.panes)) if outputs.panes else None
        report_file = stack.enter_context(AtomicFile("--report", outputs.report)) if outputs.report else None
        letters_file = stack.enter_context(AtomicFile("--dead-letters", outputs.dead_letters)) if outputs.dead_letters else None

        def write_final(finals: list[FinalPane]) -> None:
            if panes is not None:
                for start_ms, pane in finals:
                    panes.writelines(pane_lines(start_ms, pane, final=True, pane_ms=engine.rules.pane_ms, layout=engine.layout))

        worker = Worker(
            TaskRunner(
                engine=engine,
                decode=build_decoder(settings),
                topic_decoders=build_topic_decoders(settings, files),
                source=source,
                store=store,
                letters=FileDeadLetters(letters_file, source.cut),
                rules=_worker_rules(settings),
                clock=LogicalClock(),
                status=status,
                on_final=write_final,
            )
        )
        history = None if report_file is None else ReplayHistory(build_report_builder(settings, engine), store)
        _read_all(worker, source, history, progress)
        worker.drain(flush)
        if panes is not None:
            for start_ms, pane in worker.unfinished_panes():
                panes.writelines(pane_lines(start_ms, pane, final=False, pane_ms=engine.rules.pane_ms, layout=engine.layout))
        worker.finish()
        builder = _builder(settings, engine, store)
        report = builder.report(1)
        if report_file is not None and history is not None:
            content = report.to_json(engine.layout) | {"history": history.history(builder, report).to_json()}
            report_file.write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")
    return ReplayResult(report, engine, source.samples)


def _worker_rules(settings: Settings) -> WorkerRules:
    """Return the rules of the settings, less what only a stream needs."""
    rules = build_worker_rules(settings)
    return dataclasses.replace(
        rules,
        idle_ms=None,
        skew_ms_max=FOREVER,
        commit_ms=COMMIT_MS,
        commit_behind_ms=COMMIT_MS,
        commit_users_max=max(COMMIT_USERS_MAX, rules.commit_users_max),
        commit_bytes_max=max(COMMIT_BYTES_MAX, rules.commit_bytes_max),
    )


def _read_all(worker: Worker, source: FileSource, history: ReplayHistory | None, progress: Callable[[FileSource], None]) -> None:
    """Read the files in step: the input furthest behind in event time is next, so that few sessions are open at once."""
    while not source.exhausted:
        worker.turn(timeout_s=0)
        worker.ignore_ended(source.ended)
        if history is not None:
            history.after_turn(worker)
        source.prefer(worker.inputs_by_event_time())
        progress(source)


def _builder(settings: Settings, engine: Engine, store: MemoryStore) -> ReportBuilder:
    builder = build_report_builder(settings, engine)
    read_committed(store, builder, 1)
    freeze_due_scales(store, builder, 1)  # evaluates experiments that ended without a snapshot
    return builder
