"""How far the worker is behind the end of each input, in records and in seconds, and which inputs do not move at all.

The store keeps notes of the inputs that stand still, and of a source that is away, so that other processes can say so.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Input, InputRecord, Source
from streammetrics.connectors.store import FieldStore
from streammetrics.errors import StreammetricsError
from streammetrics.reports.input_warnings import OUTAGE, OutageNote, StandstillNote, decode_notes, encode_note
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.runtime.status import ProcessStatus, Standstill

STANDSTILL_SECONDS = 60.0
"""How long an input with records may stand still before it is named. A rebalance, or a restart of a server, takes less."""
UNKNOWN_REASON = "the Kafka client returns no record and no error; a transaction of a producer may be open"
NOTE_SECONDS = 2.0
"""Time between two looks at the status."""
log = structlog.get_logger("streammetrics.runtime.consume.lag")


class EarlierEnds:
    """The ends of the inputs as of the check before the last one. Who has read up to them is not behind.

    The last check would not do: in live traffic it always finds records that wait for the next fetch.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._asked: float | None = None
        self._before: Mapping[Input, int] = {}
        self._last: Mapping[Input, int] = {}

    def before(self) -> Mapping[Input, int]:
        """Return the ends. Those of a new input, and of a source whose ends are always current, are the last ones."""
        asked, ends = self._source.health.ends_asked, self._source.ends()
        if asked is None:
            return ends
        if asked != self._asked:
            self._asked, self._before, self._last = asked, self._last, ends
        return {**ends, **self._before}


class LagTracker:
    """Keeps the lag of all owned inputs in the process status, and the inputs that stand still.

    Lag in seconds is the age of the last record that was read. It grows while records wait and nothing can be read.
    """

    def __init__(self, status: ProcessStatus, clock: Clock) -> None:
        self._status, self._clock = status, clock
        self._fresh_seconds: dict[Input, float] = {}
        """Monotonic time when the last record read was written, or when the input was last seen at its end."""
        self._moved: dict[Input, tuple[int, float]] = {}
        """The next offset of each input, and the monotonic time when it was first seen there with records to read."""

    def records_came(self, origin: Input, last: InputRecord) -> None:
        """Note the last record that was read of an input."""
        stamp = last.timestamp_ms
        age_seconds = max(0.0, (self._clock.wall_ms() - stamp) / 1_000) if stamp >= 0 else 0.0
        self._fresh_seconds[origin] = self._clock.monotonic() - age_seconds

    def update(self, tasks: Iterable[OwnedTask], ends: Mapping[Input, int]) -> None:
        """Compute the lag of all claimed tasks, and drop that of all others: their owner reports it."""
        status, now = self._status, self._clock.monotonic()
        claimed = set[int]()
        for task in tasks:
            if task.state is None:
                continue
            claimed.add(task.number)
            for origin, offset in zip(task.inputs, task.state.progress.offsets, strict=True):
                if origin not in ends:
                    continue
                lag = status.lag_records[origin] = max(0, ends[origin] - (offset or 0))
                self._note_position(task, origin, ends[origin], now)
                if not lag:
                    self._fresh_seconds[origin] = now
                if origin in self._fresh_seconds:
                    status.lag_seconds[origin] = now - self._fresh_seconds[origin]
        by_input: tuple[dict[Input, Any], ...] = (
            status.lag_records,
            status.lag_seconds,
            status.standstills,
            self._fresh_seconds,
            self._moved,
        )
        for lags in by_input:
            for origin in [origin for origin in lags if origin.partition not in claimed]:
                del lags[origin]

    def _note_position(self, task: OwnedTask, origin: Input, end: int, now: float) -> None:
        """Note how far an input is committed. An input that waits for the other topics of its task does not stand still."""
        offset = task.commits.offsets.get(origin, 0)
        before, since = self._moved.get(origin, (offset, now))
        waits_for_others = origin in task.activity.paused and not task.retry.is_failing
        if end <= offset or offset != before or waits_for_others:
            since = now
        self._moved[origin] = (offset, since)
        if now - since >= STANDSTILL_SECONDS:
            self._status.standstills[origin] = Standstill(offset, since, self._reason(task))
        else:
            self._status.standstills.pop(origin, None)

    def _reason(self, task: OwnedTask) -> str:
        status = self._status
        troubles = {"store": status.store_trouble, "source": status.source_trouble}
        trouble = troubles.get(task.retry.waits_for) or status.source_trouble or status.reader_trouble
        return trouble.message if trouble is not None else UNKNOWN_REASON


class StandstillNotes:
    """Keeps the notes of the inputs that this worker owns. Those of a worker that ended count until the next commit."""

    def __init__(self, status: ProcessStatus, clock: Clock, fields: FieldStore) -> None:
        self._status, self._clock, self._fields = status, clock, fields
        self._name, self._turns = f"{OUTAGE}{secrets.token_hex(8)}", 0

    def run(self, stop: threading.Event) -> None:
        """Note until `stop` is set."""
        while not stop.wait(NOTE_SECONDS):
            self.turn()
        self._note_outage(is_over=True)

    def turn(self) -> None:
        """Write the notes that have changed. A store that fails is named elsewhere."""
        try:
            stored = {note.name: note for note in decode_notes(self._fields.read())}
            current = {note.name: note for note in self._notes()}
            owned = [f"{origin.topic}:{origin.partition}" for origin in dict(self._status.lag_records)]
            changes: dict[str, bytes | None] = {name: None for name in owned if name in stored and name not in current}
            for name, note in current.items():
                before = stored.get(name)
                if before is None or (before.offset, before.reason) != (note.offset, note.reason):
                    changes[name] = encode_note(note)
            if changes:
                self._fields.change(changes)
        except StreammetricsError as error:
            log.debug("standstills cannot be noted", error=str(error))
        self._note_outage()

    def _note_outage(self, *, is_over: bool = False) -> None:
        """Write why the source is away, again and again, so that readers know that this worker still runs."""
        trouble = None if is_over else self._status.source_trouble
        if trouble is None and not self._turns:
            return
        self._turns = 0 if trouble is None else self._turns + 1
        note = None if trouble is None else encode_note(OutageNote(self._turns, trouble.message))
        try:
            self._fields.change({self._name: note})
        except StreammetricsError as error:
            log.debug("an outage cannot be noted", error=str(error))

    def _notes(self) -> list[StandstillNote]:
        now_seconds, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        return [
            StandstillNote(*origin, still.offset, now_ms - int((now_seconds - still.since_seconds) * 1_000), still.reason)
            for origin, still in dict(self._status.standstills).items()
        ]
