"""One process of a replay: the engine and the loop of `run` over files, with an in-memory store and without a wall clock.

Every file is one input of task 0. An input is never idle before it ends.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TypeAlias

from streammetrics.config import Settings
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.dead_letters import DeadLetter, FirstRefusals
from streammetrics.connectors.files import FileDeadLetters, FileSource
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.source import PollResult
from streammetrics.engine.engine import Engine
from streammetrics.errors import MalformedEvent, SourceError, StreammetricsError
from streammetrics.events.batches import RecordDecoder, of_shard
from streammetrics.events.event_time import FOREVER
from streammetrics.events.model import Decoder, Event
from streammetrics.events.record import Later
from streammetrics.offline.replay.history import ExperimentWatch, OnSnapshot, SnapshotHolds
from streammetrics.offline.replay.time_order import LatePlaces, LateRecords
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.limits import WorkerRules
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.wiring.decoders import build_decoder, build_topic_decoders
from streammetrics.wiring.engine import build_worker_rules

COMMIT_MS = 3_600_000
COMMIT_USERS_MAX = 50_000
COMMIT_BYTES_MAX = 64 << 20
"""A commit of a replay makes nothing durable, so it comes only when it must, to limit memory."""

ReplayProgress: TypeAlias = Callable[[str, int, int | None], None]
"""Takes what is done (`replay` or `sort`), the bytes read so far and the bytes of all files; None: unknown."""
WriteFinal: TypeAlias = Callable[[list[FinalPane]], None]


class LogicalClock(SystemClock):
    """A clock with monotonic time only, which spaces the commits. Reading the wall clock fails."""

    def wall_ms(self) -> int:
        raise AssertionError("a replay must not read the wall clock")


class ReplayFileSource(FileSource):
    """A file source with errors that end the replay: a retry would silently skip the damaged part."""

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        try:
            return super().poll(timeout_s, collect_s)
        except SourceError as error:  # the loop retries SourceError, which does not help for files
            raise StreammetricsError(str(error)) from error


class ReplayWorker:
    """Reads files to their ends. With `shards` processes, number `shard` counts only its own users."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        source: FileSource,
        letters: IO[bytes] | None,
        on_final: WriteFinal,
        *,
        shard: int = 0,
        shards: int = 1,
    ) -> None:
        self.source, self.store = source, MemoryStore()
        self._watch = watch = ExperimentWatch()

        def prepared(decode: Decoder) -> RecordDecoder:
            watched = watch.around(_without_wait(decode))
            return watched if shards == 1 else of_shard(watched, shard, shards)

        self._late = LateRecords(FileDeadLetters(letters, source.cut))
        self._refusals = FirstRefusals(self._late)
        self._worker = Worker(
            TaskRunner(
                engine=engine,
                decode=prepared(build_decoder(settings)),
                topic_decoders={topic: prepared(decode) for topic, decode in build_topic_decoders(settings, engine.rules.topics).items()},
                source=source,
                store=self.store,
                letters=self._refusals,
                rules=_worker_rules(settings),
                clock=LogicalClock(),
                status=ProcessStatus(),
                on_final=on_final,
            )
        )

    def read_all(self, on_snapshot: OnSnapshot | None, progress: ReplayProgress, *, flush: bool) -> None:
        """Read the files in step: the input furthest behind in event time is next, so that few sessions are open at once.

        `on_snapshot` is called at the times of snapshots of experiments (see `SnapshotHolds`).
        """
        worker, source = self._worker, self.source
        holds = None if on_snapshot is None else SnapshotHolds(self._watch, self.store, on_snapshot)
        while not source.exhausted:
            worker.turn(timeout_s=0)
            worker.ignore_ended(source.ended)
            if holds is not None:
                holds.after_turn(worker)
            source.prefer(worker.inputs_by_event_time())
            progress("replay", source.bytes_read, source.bytes_total)
        if holds is not None:
            holds.after_end(worker, flush=flush)
        worker.drain(flush)

    @property
    def refusals(self) -> Mapping[tuple[str, str], DeadLetter]:
        """The first refused event of each file and reason."""
        return self._refusals.letters

    @property
    def late(self) -> Mapping[str, LatePlaces]:
        """Where the late records of each file are, by its path."""
        for path, places in self._late.places.items():
            places.lines = self.source.lines[path]
        return self._late.places

    def finish(self) -> Sequence[FinalPane]:
        """Close the files and return the panes that may still change."""
        unfinished = [FinalPane(start_ms, pane) for start_ms, pane in self._worker.unfinished_panes()]
        self._worker.finish()
        return unfinished


def _without_wait(decode: Decoder) -> Decoder:
    """Return a decoder that ends the replay where a reader asks to wait."""

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        try:
            return decode(value)
        except Later as later:
            raise StreammetricsError(f"a record cannot be read now: {later}", "replay again when its reader can read it") from later

    return read


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
        due_with_commits=True,
    )
