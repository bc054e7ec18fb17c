"""A replay in several processes: each reads all files and counts its own users. The results equal those of one process.

Every process decodes every record, so each input has the same time in all of them, and late events are the same. The processes take
snapshots of experiments at the same records. Their committed states are merged like those of tasks. Panes and dead letters are merged
here.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import pickle
import shutil
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

from streammetrics.config import Settings
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.file_formats.reader import STDIN, SortedFile
from streammetrics.engine.task_state import decode_control
from streammetrics.errors import ConfigError, Problem, StreammetricsError
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.offline.replay.history import ReplayHistory, Snapshot
from streammetrics.offline.replay.time_order import LatePlaces
from streammetrics.offline.replay.worker import ReplayFileSource, ReplayProgress, ReplayWorker
from streammetrics.reports.input_warnings import late_inputs, merged_lateness
from streammetrics.reports.report import Report
from streammetrics.state.tables import TaskView
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.windows.panes import Pane, Panes, add_to
from streammetrics.wiring.decoders import has_reader
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import rare_garbage_collection
from streammetrics.wiring.logs import configure_quiet_logs

PROGRESS_TURNS = 8
_LIMITS = ("too_many_groups", "too_many_variants", "too_many_teams")
"""Reasons of limits that concern all users of a task together."""
_COUNTED_BY_ALL = ("ahead",)
"""Reasons that depend on the time of an input, and not on its users. Every process counts them."""


class PaneBatch(NamedTuple):
    """Panes of one process that are final, in order of time."""

    panes: list[FinalPane]


class ShardResult(NamedTuple):
    """The last message of a process."""

    view: TaskView
    unfinished: Sequence[FinalPane]
    refusals: Mapping[tuple[str, str], DeadLetter]
    late: Mapping[str, LatePlaces]


class ReadProgress(NamedTuple):
    """How many bytes the first process has read, of how many."""

    done: int
    total: int | None


class ShardFailure(NamedTuple):
    """The error that ended a process."""

    error: Exception


Message: TypeAlias = PaneBatch | Snapshot | ShardResult | ReadProgress | ShardFailure


class WritePanes(Protocol):
    def __call__(self, panes: Iterable[FinalPane], *, final: bool) -> None: ...


class Job(NamedTuple):
    """What one process does."""

    settings: Settings
    files: Sequence[str]
    sorted_files: Mapping[str, SortedFile]
    shard: int
    shards: int
    flush: bool
    snapshots: bool
    panes: bool
    letters: Path | None


def reads_once(path: str) -> bool:
    """Return whether a path is standard input or a pipe."""
    return path == STDIN or (Path(path).exists() and not Path(path).is_file())


def require_splittable(files: Sequence[str]) -> None:
    """Raise ConfigError unless all files can be read several times."""
    if pipes := [path for path in files if reads_once(path)]:
        raise ConfigError([Problem("FILE", path, "can be read only once: use --jobs 1, or name a file") for path in pipes])


def require_split_allowed(views: Iterable[TaskView], groups_max: int) -> None:
    """Raise StreammetricsError if a limit on labels was reached: which labels it drops depends on the split."""
    controls = [decode_control(view.control) for view in views]
    dropped = any(count for control in controls for reason, _, count in control.progress.counts if reason in _LIMITS)
    groups = {group for control in controls for group, _, _ in control.labels.groups}
    if dropped or len(groups) > groups_max:
        raise StreammetricsError(
            f"the files have more labels than windows.groups_max = {groups_max} or experiments.variants_max allows, and which ones are "
            "dropped depends on the order of all users: use --jobs 1, or raise the limit"
        )


def one_process_report(report: Report, views: Sequence[TaskView]) -> Report:
    """Return the merged report as one process writes it: all processes have read all inputs. `views` are their last states."""
    controls = [decode_control(view.control) for view in views]
    first, counts = controls[0], dict(report.counts)
    counts |= {(reason, first.topics[topic]): count for reason, topic, count in first.progress.counts if reason in _COUNTED_BY_ALL}
    inputs = tuple(position for position in report.inputs if position.partition == 0)
    late = tuple(late_inputs([(0, merged_lateness(controls))]))
    return dataclasses.replace(report, tasks=1, tasks_committed=1, inputs=inputs, late_inputs=late, counts=counts, user_partitions=None)


def run_job(job: Job, channel: Connection) -> None:
    """Run one process and send its messages. Ctrl-C is for the parent, which ends its processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    level = job.settings.log.level if job.shard == 0 else "error"  # all processes would give the same warnings
    configure_quiet_logs(level, job.settings.log.format)
    try:
        _replay_shard(job, channel.send)
    except BrokenPipeError:
        pass  # the parent has ended
    except Exception as error:  # the parent reports it
        channel.send(ShardFailure(_sendable(error)))
    channel.close()


def _sendable(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # errors with arguments of their own may fail in any way
        return StreammetricsError(f"{type(error).__name__}: {error}")
    return error


def _replay_shard(job: Job, send: Callable[[Message], None]) -> None:
    turns = 0

    def progress(stage: str, done: int, total: int | None) -> None:
        nonlocal turns
        turns += 1
        if turns % PROGRESS_TURNS == 0 and job.shard == 0:
            send(ReadProgress(done, total))

    def on_final(panes: list[FinalPane]) -> None:
        if job.panes:
            send(PaneBatch(panes))

    with ExitStack() as stack:
        stack.enter_context(rare_garbage_collection())
        source = ReplayFileSource(
            job.files,
            event_bytes_max=job.settings.events.event_bytes_max,
            has_texts=partial(has_reader, job.settings),
            sorted_files=job.sorted_files,
        )
        stack.callback(source.close)
        letters = None if job.letters is None else stack.enter_context(job.letters.open("wb"))
        engine = build_engine(job.settings, job.files, waits=not job.flush)
        worker = ReplayWorker(job.settings, engine, source, letters, on_final, shard=job.shard, shards=job.shards)

        worker.read_all(send if job.snapshots else None, progress, flush=job.flush)
        unfinished = worker.finish()
        if letters is not None:
            letters.flush()  # the parent reads the file as soon as it knows that this process is done
        view = worker.store.view([0], {})[0]
        send(ShardResult(view, unfinished if job.panes else [], worker.refusals, worker.late))


class Shards:
    """Starts the processes, merges what they send while they run, and keeps their last states in `views`."""

    def __init__(  # noqa: PLR0913 (what a process is given, and what takes its results)
        self,
        settings: Settings,
        files: Sequence[str],
        sorted_files: Mapping[str, SortedFile],
        jobs: int,
        *,
        flush: bool,
        letters: Any,
        write_panes: WritePanes,
        wants_panes: bool,
        history: ReplayHistory | None,
        progress: ReplayProgress,
    ) -> None:
        self._settings, self._files, self._sorted, self._jobs, self._flush = settings, files, sorted_files, jobs, flush
        self._letters: IO[bytes] | None = letters
        self._write_panes, self._wants_panes, self._history, self._progress = write_panes, wants_panes, history, progress
        self._panes = MergedPanes(jobs)
        self._snapshots: list[deque[Snapshot]] = [deque() for _ in range(jobs)]
        self._done: dict[int, ShardResult] = {}

    @property
    def views(self) -> list[TaskView]:
        return [self._done[shard].view for shard in range(self._jobs)]

    @property
    def refusals(self) -> Mapping[tuple[str, str], DeadLetter]:
        """The first refused event of each file and reason, of all processes."""
        last_first = sorted(
            (letter for done in self._done.values() for letter in done.refusals.values()), key=lambda letter: -letter.offset
        )
        return {(letter.input.topic, letter.reason): letter for letter in last_first}

    @property
    def late(self) -> Mapping[str, LatePlaces]:
        """Where the late records of each file are, of all processes."""
        merged: dict[str, LatePlaces] = {}
        for done in self._done.values():
            for path, places in done.late.items():
                merged.setdefault(path, LatePlaces()).merge(places)
        return merged

    def run(self) -> None:
        """Run all processes to their ends. Raises the first error of any of them."""
        context = multiprocessing.get_context("spawn")
        with ExitStack() as stack:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="streammetrics-")))
            letters = [folder / str(shard) if self._letters is not None else None for shard in range(self._jobs)]
            channels: dict[Any, int] = {}
            for shard in range(self._jobs):
                ours, theirs = context.Pipe(duplex=False)
                job = Job(
                    settings=self._settings,
                    files=self._files,
                    sorted_files=self._sorted,
                    shard=shard,
                    shards=self._jobs,
                    flush=self._flush,
                    snapshots=self._history is not None,
                    panes=self._wants_panes,
                    letters=letters[shard],
                )
                process = context.Process(target=run_job, args=(job, theirs), daemon=True)
                with _without_interrupts():
                    process.start()
                theirs.close()
                stack.callback(_end, process)
                stack.callback(ours.close)  # a process that still sends ends then
                channels[ours] = shard
            while channels:
                for channel in wait(list(channels)):
                    self._receive(channel, channels)
            self._write_panes(self._panes.take_rest(), final=True)
            self._write_panes(merged_panes(done.unfinished for done in self._done.values()), final=False)
            for path in letters:
                if path is not None and self._letters is not None:
                    with path.open("rb") as file:
                        shutil.copyfileobj(file, self._letters)

    def _receive(self, channel: Any, channels: dict[Any, int]) -> None:
        shard = channels[channel]
        try:
            message: Message = channel.recv()
        except EOFError:
            raise StreammetricsError("a process of --jobs has ended unexpectedly, perhaps for lack of memory") from None
        if isinstance(message, ShardFailure):
            raise message.error
        if isinstance(message, ReadProgress):
            self._progress("replay", message.done, message.total)
        elif isinstance(message, PaneBatch):
            self._panes.add(shard, message.panes)
            self._write_panes(self._panes.take_complete(), final=True)
        elif isinstance(message, Snapshot):
            self._snapshots[shard].append(message)
            self._take_snapshots()
        else:
            self._done[shard] = message
            channel.close()
            del channels[channel]

    def _take_snapshots(self) -> None:
        """Take each snapshot that all processes have reached."""
        while self._history is not None and all(self._snapshots):
            self._history.add([waiting.popleft() for waiting in self._snapshots])


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C, so that a process that starts has it blocked from its first moment on. `run_job` comes later, after the imports."""
    resource_tracker.ensure_running()  # its own start would unblock it
    former = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _end(process: Any) -> None:
    if process.is_alive():
        process.join(1 if process.exitcode is None else 0)
    if process.is_alive():
        process.terminate()
    process.join()
    process.close()


class MergedPanes:
    """Final panes of several processes. A pane is complete when each process has sent it or a later one, or has ended."""

    def __init__(self, shards: int) -> None:
        self._pending: Panes = {}
        self._sent_until = [NEVER] * shards

    def add(self, shard: int, panes: Iterable[FinalPane]) -> None:
        for start_ms, pane in panes:
            _add(self._pending, start_ms, pane)
            self._sent_until[shard] = start_ms

    def take_complete(self) -> list[FinalPane]:
        """Return the complete panes and forget them."""
        return self._take(min(self._sent_until))

    def take_rest(self) -> list[FinalPane]:
        """Return all other panes. All processes have ended."""
        return self._take(FOREVER)

    def _take(self, until_ms: int) -> list[FinalPane]:
        starts = sorted(start_ms for start_ms in self._pending if start_ms <= until_ms)
        return [FinalPane(start_ms, self._pending.pop(start_ms)) for start_ms in starts]


def merged_panes(parts: Iterable[Iterable[FinalPane]]) -> list[FinalPane]:
    """Return the sums of panes by start, in order."""
    merged: Panes = {}
    for panes in parts:
        for start_ms, pane in panes:
            _add(merged, start_ms, pane)
    return [FinalPane(start_ms, merged[start_ms]) for start_ms in sorted(merged)]


def _add(panes: Panes, start_ms: int, pane: Pane) -> None:
    sums = panes.setdefault(start_ms, {})
    for group, tally in pane.items():
        add_to(sums, group, tally)
