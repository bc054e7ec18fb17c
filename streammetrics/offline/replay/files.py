"""Replays files through the same engine and loop as `run`, in one process or several, and writes the results.

At the end all lists become final, unless the caller wants the live state.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from msgspec import Raw

from streammetrics.config import Settings
from streammetrics.connectors.atomic_file import AtomicFile
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.file_formats.reader import SortedFile
from streammetrics.connectors.memory import MemoryStore
from streammetrics.engine.engine import Engine
from streammetrics.offline.replay.history import ReplayHistory
from streammetrics.offline.replay.shards import Shards, one_process_report, reads_once, require_split_allowed, require_splittable
from streammetrics.offline.replay.time_order import LatePlaces, Order, OutOfOrderError, inputs_out_of_order, sorted_file
from streammetrics.offline.replay.worker import ReplayFileSource, ReplayProgress, ReplayWorker
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.history import History
from streammetrics.reports.input_warnings import SortedInput
from streammetrics.reports.published import encoded, json_lines, published
from streammetrics.reports.report import Report
from streammetrics.reports.result_records import PaneRow, pane_lines, pane_rows
from streammetrics.runtime.publish.publisher import freeze_due_scales, read_committed
from streammetrics.state.tables import TaskView
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.wiring.decoders import has_reader
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import rare_garbage_collection
from streammetrics.wiring.logs import held_logs
from streammetrics.wiring.reports import build_report_builder


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutputs:
    """Output files of a replay; None: not written. `pane_rows` takes every row of every pane.

    since_ms: when the running step of a rollout began (event time), for the gate of the report; None: the report does not know.
    """

    panes: Path | None = None
    report: Path | None = None
    dead_letters: Path | None = None
    pane_rows: list[PaneRow] | None = None
    since_ms: int | None = None


class ReplayResult(NamedTuple):
    """The report of a replay and the engine that made it.

    `refusals`: the first refused event of each file and reason.
    """

    report: Report
    engine: Engine
    refusals: Mapping[tuple[str, str], DeadLetter]


class ReplayRun:
    """One replay with its open output files. With the order `auto` it fails at its end if files are not in order of time."""

    def __init__(
        self,
        settings: Settings,
        files: Sequence[str],
        outputs: ReplayOutputs,
        stack: ExitStack,
        *,
        flush: bool = True,
        order: Order = "log",
        sorted_inputs: tuple[SortedInput, ...] = (),
    ) -> None:
        self.settings, self.files, self._order, self._sorted = settings, files, order, sorted_inputs
        self.engine = build_engine(settings, files, waits=not flush)
        self.panes = stack.enter_context(AtomicFile("--panes", outputs.panes)) if outputs.panes else None
        self.pane_rows, self._since_ms = outputs.pane_rows, outputs.since_ms
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
                self.pane_rows.extend(pane_rows(start_ms, pane, final=final, pane_ms=pane_ms, layout=layout))
            elif self.panes is not None:
                self.panes.writelines(pane_lines(start_ms, pane, final=final, pane_ms=pane_ms, layout=layout))

    def finish_shards(
        self, views: Sequence[TaskView], scales: MemoryStore, history: ReplayHistory | None, late: Mapping[str, LatePlaces]
    ) -> Report:
        """Merge the last states of all shards, write the report and return it. `scales` has the scales that snapshots have settled.

        Raises as `finish`, and StreammetricsError if a limit on labels was reached.
        """
        builder = build_report_builder(self.settings, self.engine)
        builder.experiments.update_scales(scales.compare_and_set({}))
        for shard, view in enumerate(views):
            builder.update(shard, view)
        require_split_allowed(views, self.engine.rules.groups_max)
        freeze_due_scales(scales, builder, len(views))
        return self.finish(builder, one_process_report(builder.report(len(views)), views), history, late)

    def finish(self, builder: ReportBuilder, report: Report, history: ReplayHistory | None, late: Mapping[str, LatePlaces]) -> Report:
        """Write the report and return it. `late`: where the late records are. Raises OutOfOrderError if the order of a file is wrong."""
        if self._order == "auto" and (unsorted := inputs_out_of_order(report, late)):
            raise OutOfOrderError(unsorted)
        inputs = (
            dataclasses.replace(sorted_input, events=report.counts.get(("events", sorted_input.topic), 0)) for sorted_input in self._sorted
        )
        whole = dataclasses.replace(report, sorted_inputs=tuple(inputs))
        if self._since_ms is not None:
            whole = whole.at_step(self._since_ms)
        if self.report_file is not None:
            published_history = History() if history is None else history.history(builder, whole)
            self.report_file.write(json_lines(Raw(encoded(published(whole, self.engine.layout, published_history)))))
        return whole


def replay(
    settings: Settings,
    files: Sequence[str],
    outputs: ReplayOutputs,
    *,
    flush: bool = True,
    jobs: int = 1,
    order: Order = "auto",
    progress: ReplayProgress = lambda stage, done, total: None,
) -> ReplayResult:
    """Read the files to their ends. `progress` is called after every batch. `jobs` processes share the users. `order`: see `time_order`.

    Raises ConfigError for files that cannot be read or written, StreammetricsError for a damaged file, and OutOfOrderError if events of
    standard input or a pipe, which can be read only once, are not in order of time.
    """
    if jobs > 1:
        require_splittable(files)
    with ExitStack() as stack:
        stack.enter_context(rare_garbage_collection())
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="streammetrics-")))
        one = _Replay(settings, files, folder, flush=flush, jobs=jobs, progress=progress)
        if order == "log":
            return one.read(outputs, "log")
        if order == "time":
            one.source().close()  # reports all problems with files before it sorts any
            one.sort([SortedInput(path, 0, 0) for path in files])
            return one.read(outputs, "time")
        try:
            held = stack.enter_context(held_outputs(outputs, folder))
            with held_logs(OutOfOrderError):
                return one.read(held, "auto")
        except OutOfOrderError as error:
            if pipes := tuple(origin for origin in error.inputs if reads_once(origin.topic)):
                raise OutOfOrderError(pipes, "save it to a file or pass --order time, so that it is sorted") from None
            one.sort(error.inputs)
            if held.pane_rows is not None:
                held.pane_rows.clear()
            return one.read(held, "time")


@contextmanager
def held_outputs(outputs: ReplayOutputs, folder: Path) -> Iterator[ReplayOutputs]:
    """Yield outputs that may be written twice: in place of a pipe or a device a file in `folder`. Its content is sent at the end."""
    pipes = {
        name: path
        for name in ("panes", "report", "dead_letters")
        if (path := getattr(outputs, name)) is not None and path.exists() and not path.is_file()
    }
    held = {name: folder / f"{name}.held" for name in pipes}
    yield dataclasses.replace(
        outputs,
        panes=held.get("panes", outputs.panes),
        report=held.get("report", outputs.report),
        dead_letters=held.get("dead_letters", outputs.dead_letters),
    )
    for name, path in pipes.items():
        with AtomicFile("--" + name.replace("_", "-"), path) as pipe, held[name].open("rb") as content:
            shutil.copyfileobj(content, pipe)


class _Replay:
    """Files that are replayed once, or once more when some of them are sorted."""

    def __init__(self, settings: Settings, files: Sequence[str], folder: Path, *, flush: bool, jobs: int, progress: ReplayProgress) -> None:
        self._settings, self._files, self._folder, self._flush, self._jobs, self._progress = settings, files, folder, flush, jobs, progress
        self._sorted: dict[str, SortedFile] = {}
        self._inputs: tuple[SortedInput, ...] = ()

    def source(self) -> ReplayFileSource:
        """Open the files."""
        settings = self._settings
        return ReplayFileSource(
            self._files,
            event_bytes_max=settings.events.event_bytes_max,
            has_texts=partial(has_reader, settings),
            sorted_files=self._sorted,
        )

    def sort(self, inputs: Sequence[SortedInput]) -> None:
        """Sort files by the times of their events."""
        self._inputs = tuple(inputs)
        sizes = {origin.topic: 0 if reads_once(origin.topic) else Path(origin.topic).stat().st_size for origin in inputs}
        done, total = 0, sum(sizes.values()) or None
        for number, path in enumerate(sizes):
            before = done

            def progress(read: int, _: int | None, before: int = before) -> None:
                self._progress("sort", before + read, total)

            self._sorted[path] = sorted_file(self._settings, path, self._folder / str(number), progress)
            done += sizes[path]

    def read(self, outputs: ReplayOutputs, order: Order) -> ReplayResult:
        """Read the files to their ends. Raises OutOfOrderError with the order `auto`."""
        with ExitStack() as stack:
            source = self.source()
            stack.callback(source.close)
            run = ReplayRun(self._settings, self._files, outputs, stack, flush=self._flush, order=order, sorted_inputs=self._inputs)
            if self._jobs > 1:
                return _in_shards(run, self._sorted, self._jobs, self._progress, flush=self._flush)
            return _in_one_process(run, source, self._progress, flush=self._flush)


def _in_one_process(whole: ReplayRun, source: ReplayFileSource, progress: ReplayProgress, *, flush: bool) -> ReplayResult:
    letters: IO[bytes] | None = whole.letters
    worker = ReplayWorker(whole.settings, whole.engine, source, letters, lambda panes: whole.write_panes(panes, final=True))
    store = worker.store
    history = whole.history(store, 1)
    on_snapshot = None if history is None else lambda snapshot: history.add([snapshot])
    worker.read_all(on_snapshot, progress, flush=flush)
    whole.write_panes(worker.finish(), final=False)
    builder = build_report_builder(whole.settings, whole.engine)
    read_committed(store, builder, 1)
    freeze_due_scales(store, builder, 1)  # evaluates experiments that ended without a snapshot
    report = whole.finish(builder, builder.report(1), history, worker.late)
    return ReplayResult(report, whole.engine, worker.refusals)


def _in_shards(
    whole: ReplayRun, sorted_files: Mapping[str, SortedFile], jobs: int, progress: ReplayProgress, *, flush: bool
) -> ReplayResult:
    scales = MemoryStore()
    history = whole.history(scales, jobs)
    shards = Shards(
        whole.settings,
        whole.files,
        sorted_files,
        jobs,
        flush=flush,
        letters=whole.letters,
        write_panes=whole.write_panes,
        wants_panes=whole.wants_panes,
        history=history,
        progress=progress,
    )
    shards.run()
    report = whole.finish_shards(shards.views, scales, history, shards.late)
    return ReplayResult(report, whole.engine, shards.refusals)
