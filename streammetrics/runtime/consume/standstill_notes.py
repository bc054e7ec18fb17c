"""Notes in the store which inputs of this worker stand still, and that its source is away, so that other processes can say so."""

from __future__ import annotations

import secrets
import threading

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.store import FieldStore
from streammetrics.errors import StreammetricsError
from streammetrics.reports.standstills import OUTAGE, OutageNote, StandstillNote, decode_notes, encode_note
from streammetrics.runtime.status import ProcessStatus

NOTE_SECONDS = 2.0
"""Time between two looks at the status."""

log = structlog.get_logger("streammetrics.runtime.consume.standstill_notes")


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
