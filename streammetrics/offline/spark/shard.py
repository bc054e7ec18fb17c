"""One shard: the engine over the events of its users, slice by slice. Pure but for the in-memory store.

Before each slice the engine gets the time of the whole input, so it judges every event as one process would. The watermark of the task
stays behind the inputs that have unread slices. Snapshots are taken at the times that all shards are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.store import Commit, DueQuery
from streammetrics.engine.batch import Batch
from streammetrics.engine.engine import Engine
from streammetrics.engine.supported_time import StoredSupport
from streammetrics.events.event_time import FOREVER, NEVER
from streammetrics.offline.replay.history import SUMS, Snapshot, counted_until, snapshot_times
from streammetrics.offline.spark.input_times import InputEnd, SliceStart
from streammetrics.offline.spark.slices import decode_rows, merged_rows
from streammetrics.runtime.consume.prefetch import with_due
from streammetrics.state.tables import TaskView
from streammetrics.windows.pane_tallies import FinalPane

COMMIT_USERS_MAX = 50_000
COMMIT_EVENTS_MAX = 200_000
"""A commit makes nothing durable here, so it comes only when it must, to limit memory."""
COMMIT_BYTES_MAX = 64 << 20
_TOKEN = "shard"


class ShardSlice(NamedTuple):
    """A slice for one shard. `until_ms` is the supported time of the next slice of another input; FOREVER if there is none."""

    topic: int
    start: SliceStart
    until_ms: int
    rows: bytes
    movers: bytes | None


class Shard:
    """Takes the slices of one shard in the order of their supported times."""

    def __init__(self, engine: Engine, ends: Sequence[InputEnd], began_ms: int | None, on_final: Callable[[list[FinalPane]], None]) -> None:
        """Begin with no users. Snapshots are taken from the watermark `began_ms` on; None: no snapshot, not even at the end.

        `ends` are the inputs at their ends, by topic.
        """
        self._engine, self._ends, self._on_final = engine, ends, on_final
        self._snapshots = began_ms is not None
        self._looks = iter(()) if began_ms is None or began_ms == NEVER else snapshot_times(began_ms)
        self._next_look = next(self._looks, FOREVER)
        self._disorder_ms = engine.rules.out_of_orderness_ms
        self._all = frozenset(range(len(engine.rules.topics)))
        self._store, self._state = MemoryStore(), engine.open(None)
        self._claim = self._store.claim(0, _TOKEN)
        self._seq, self._events = self._claim.seq, 0
        self._sums: object = None

    def process(self, part: ShardSlice) -> Iterator[Snapshot]:
        """Process one slice. Yields the snapshots that are due before it."""
        progress, start, topic = self._state.progress, part.start, part.topic
        yield from self._advance(self._watermark(start.time))
        progress.supported[topic].restore(start.support or StoredSupport(), start.time)
        progress.watermarks[topic], progress.setters[topic] = self._watermark(start.time), start.setter
        progress.hold = min(self._watermark(part.until_ms), self._next_look)
        if start.has_movers:
            records = merged_rows(part.rows, part.movers, start.base)
        else:
            records = [decoded for _, decoded in decode_rows(part.rows, start.base)]
        if not records:
            return
        self._step(Batch(topic, records, records[-1][0] + 1))
        self._events += len(records)
        if self._events >= COMMIT_EVENTS_MAX or len(self._state.sessions.dirty) >= COMMIT_USERS_MAX:
            self._commit()

    def finish(self, ended_ms: int) -> Iterator[Snapshot]:
        """Take the end of all inputs, at this watermark (ms; NEVER: there were no events). Yields the snapshots that are left."""
        progress = self._state.progress
        yield from self._advance(ended_ms)
        for topic, end in enumerate(self._ends):
            progress.offsets[topic], progress.setters[topic] = end.offset, end.setter
            progress.watermarks[topic] = self._watermark(end.time)
            progress.supported[topic].restore(end.support, end.time)
            progress.counts.pop(("ahead", topic), None)  # the shard has counted for itself
            if end.ahead:
                progress.counts["ahead", topic] = end.ahead
        progress.changed = True
        if self._snapshots:
            yield from self._snapshot()
            yield from self._after_end()
        self._step(None, ended_until=FOREVER)
        self._drain()

    @property
    def view(self) -> TaskView:
        """The committed state, with all panes."""
        return self._store.view([0], {})[0]

    def _watermark(self, time: int) -> int:
        return time if time in (NEVER, FOREVER) else time - self._disorder_ms

    def _advance(self, watermark: int) -> Iterator[Snapshot]:
        """Let the watermark of the task come to a time that all inputs have reached. Yields a snapshot at each of their times before."""
        while self._next_look <= watermark:
            self._raise_to(self._next_look)
            self._next_look = next(self._looks, FOREVER)
            yield from self._snapshot()
        self._raise_to(watermark)

    def _after_end(self) -> Iterator[Snapshot]:
        """Let the last lists become final step by step, as `SnapshotHolds.after_end` does."""
        while self._next_look != FOREVER and self._state.enrolments.enrolled_before <= counted_until(self._state):
            self._step(None, ended_until=self._next_look)
            self._next_look = next(self._looks)
            yield from self._snapshot(counted_until(self._state))

    def _raise_to(self, watermark: int) -> None:
        progress = self._state.progress
        if watermark > progress.watermark:
            progress.watermark = watermark
            progress.changed = True

    def _snapshot(self, until_ms: int = FOREVER) -> Iterator[Snapshot]:
        self._drain(with_sessions=False)
        if NEVER < (enrolled_ms := self._state.enrolments.enrolled_before) <= until_ms:
            view = self._store.view([0], {}, tables=SUMS)[0]
            is_changed, self._sums = view.rows != self._sums, view.rows
            yield Snapshot(enrolled_ms, view, is_changed)

    def _step(self, batch: Batch | None, ended_until: int | None = None) -> None:
        engine, state, store = self._engine, self._state, self._store
        needs = engine.needs(state, batch)
        if batch is not None:
            needs = needs._replace(due_before_ms=None)  # the next commit reads the users that are due
        due = None if needs.due_before_ms is None else DueQuery(needs.due_before_ms, COMMIT_USERS_MAX, COMMIT_BYTES_MAX)
        loaded = with_due(store, 0, store.load(0, needs.users, due, needs.totals), state.sessions.users)
        engine.load(state, needs, loaded)
        idle = self._all if batch is None else self._all - {batch.topic}
        engine.step(state, batch, loaded.due, idle, None, ended_until)

    def _drain(self, *, with_sessions: bool = True) -> None:
        """Commit until no user is due."""
        self._commit(with_sessions=with_sessions)
        while self._engine.needs(self._state, None).due_before_ms is not None:
            self._commit(with_sessions=with_sessions)

    def _commit(self, *, with_sessions: bool = True) -> None:
        engine, state = self._engine, self._state
        needs = engine.needs(state, None)
        if needs.due_before_ms is not None or needs.totals:
            self._step(None)
        changes, panes = engine.save(state, with_sessions=with_sessions)
        self._seq += 1
        self._store.commit(Commit(0, self._claim.epoch, _TOKEN, self._seq, changes))
        if with_sessions:
            engine.forget(state, COMMIT_USERS_MAX)
            self._events = 0
        if panes:
            self._on_final(panes)
