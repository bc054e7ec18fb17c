"""Replays files through the same engine and loop as `run`, in one process or several, and writes the results.

At the end all lists become final, unless the caller wants the live state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from msgspec import Raw

from streammetrics.config import Settings
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.memory import MemoryStore
from streammetrics.engine.engine import Engine
from streammetrics.offline.replay.history import ReplayHistory
from streammetrics.offline.replay.shards import Shards, one_process_report, require_split_allowed, require_splittable
from streammetrics.offline.replay.worker import ReplayFileSource, ReplayProgress, ReplayWorker
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.history import History
from streammetrics.reports.pane_lines import pane_lines
from streammetrics.reports.pane_rows import PaneRow, pane_rows
from streammetrics.reports.published import encoded, published
from streammetrics.reports.report import Report
from streammetrics.reports.text import json_lines
from streammetrics.runtime.publish.committed_state import freeze_due_scales, read_committed
from streammetrics.state.tables import TaskView
from streammetrics.windows.pane_store import FinalPane
from streammetrics.wiring.decoders import is_mapped
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import rare_garbage_collection
from streammetrics.wiring.reports import build_report_builder


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutputs:
    """Output files of a replay; None: not written. `pane_rows` is called with every row of every pane."""

    panes: Path | None = None
    report: Path | None = None
    dead_letters: Path | None = None
    pane_rows: Callable[[PaneRow], object] | None = None


class ReplayResult(NamedTuple):
    """The report of a replay and the engine that made it.

    `samples`: the start of each file by its path. `refusals`: the first refused event of each file and reason.
    """

    report: Report
    engine: Engine
    samples: Mapping[str, bytes]
    refusals: Mapping[tuple[str, str], DeadLetter]


class ReplayRun:
    """One replay with its open output files."""

    def __init__(self, settings: Settings, files: Sequence[str], outputs: ReplayOutputs, stack: ExitStack, *, flush: bool = True) -> None:
        self.settings, self.files = settings, files
        self.engine = build_engine(settings, files, waits=not flush)
        self.panes = stack.enter_context(AtomicFile("--panes", outputs.panes)) if outputs.panes else None
        self.pane_rows = outputs.pane_rows
        self.report_file = stack.enter_context(AtomicFile("--report", outputs.report)) if outputs.report else None
        self.letters = stack.enter_context(AtomicFile("--dead-letters", outputs.dead_letters)) if outputs.dead_letters else None

    def history(self, store: MemoryStore, tasks: int) -> ReplayHistory | None:
        """Return the history to fill. Only a report of experiments shows one."""
        if self.report_file is None or not self.settings.experiments.enabled:
            return None
        return ReplayHistory(build_report_builder(self.settings, self.engine), store, tasks)

    @property
    def wants_panes(self) -> bool:
        """Whether panes are written."""
        return self.panes is not None or self.pane_rows is not None

    def write_panes(self, panes: Iterable[FinalPane], *, final: bool) -> None:
        pane_ms, layout = self.engine.rules.pane_ms, self.engine.layout
        for start_ms, pane in panes if self.wants_panes else ():
            if self.pane_rows is not None:
                for row in pane_rows(start_ms, pane, final=final, pane_ms=pane_ms, layout=layout):
                    self.pane_rows(row)
            elif self.panes is not None:
                self.panes.writelines(pane_lines(start_ms, pane, final=final, pane_ms=pane_ms, layout=layout))

    def finish_shards(self, views: Sequence[TaskView], scales: MemoryStore, history: ReplayHistory | None) -> Report:
        """Merge the last states of all shards, write the report and return it. `scales` has the scales that snapshots have settled.

        Raises StreammetricsError if a limit on labels was reached.
        """
        builder = build_report_builder(self.settings, self.engine)
        builder.experiments.update_scales(scales.compare_and_set({}))
        for shard, view in enumerate(views):
            builder.update(shard, view)
        require_split_allowed(views, self.engine.rules.groups_max)
        freeze_due_scales(scales, builder, len(views))
        report = one_process_report(builder.report(len(views)), views)
        self.write_report(builder, report, history)
        return report

    def write_report(self, builder: ReportBuilder, report: Report, history: ReplayHistory | None) -> None:
        if self.report_file is not None:
            shown = History() if history is None else history.history(builder, report)
            self.report_file.write(json_lines(Raw(encoded(published(report, self.engine.layout, shown)))))


def replay(
    settings: Settings,
    files: Sequence[str],
    outputs: ReplayOutputs,
    *,
    flush: bool = True,
    jobs: int = 1,
    progress: ReplayProgress = lambda done, total: None,
) -> ReplayResult:
    """Read the files to their ends. `progress` is called after every batch. `jobs` processes share the users.

    Raises ConfigError for files that cannot be read or written, and StreammetricsError for a damaged file.
    """
    if jobs > 1:
        require_splittable(files)
    with ExitStack() as stack:
        stack.enter_context(rare_garbage_collection())
        source = ReplayFileSource(files, event_bytes_max=settings.events.event_bytes_max, has_texts=partial(is_mapped, settings))
        stack.callback(source.close)
        whole = ReplayRun(settings, files, outputs, stack, flush=flush)
        if jobs > 1:
            return _in_shards(whole, jobs, progress, flush=flush)
        return _in_one_process(whole, source, progress, flush=flush)


def _in_one_process(whole: ReplayRun, source: ReplayFileSource, progress: ReplayProgress, *, flush: bool) -> ReplayResult:
    letters: IO[bytes] | None = whole.letters
    worker = ReplayWorker(whole.settings, whole.engine, source, letters, lambda panes: whole.write_panes(panes, final=True))
    store = worker.store
    history = whole.history(store, 1)
    on_snapshot = None if history is None else lambda snapshot: history.take([snapshot])
    worker.read_all(on_snapshot, progress, flush=flush)
    whole.write_panes(worker.finish(), final=False)
    builder = build_report_builder(whole.settings, whole.engine)
    read_committed(store, builder, 1)
    freeze_due_scales(store, builder, 1)  # evaluates experiments that ended without a snapshot
    report = builder.report(1)
    whole.write_report(builder, report, history)
    return ReplayResult(report, whole.engine, source.samples, worker.refusals)


def _in_shards(whole: ReplayRun, jobs: int, progress: ReplayProgress, *, flush: bool) -> ReplayResult:
    scales = MemoryStore()
    history = whole.history(scales, jobs)
    shards = Shards(
        whole.settings,
        whole.files,
        jobs,
        flush=flush,
        letters=whole.letters,
        write_panes=whole.write_panes,
        wants_panes=whole.wants_panes,
        history=history,
        progress=progress,
    )
    shards.run()
    return ReplayResult(whole.finish_shards(shards.views, scales, history), whole.engine, shards.samples, shards.refusals)
