"""Dead letters of one task that wait to be written. They are always written before the commit that counts them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from streammetrics.connectors.dead_letters import DeadLetter, DeadLetterSink
from streammetrics.connectors.source import Input
from streammetrics.engine.batch import Rejected
from streammetrics.runtime.consume.chunk import Chunk

LETTERS_MAX = 1_000
"""Letters that wait for the next commit; more are written at once."""
LETTERS_BYTES_MAX = 16 << 20
"""Bytes that wait, so that a stream of large rejected records cannot fill the memory."""


@dataclass(slots=True)
class PendingLetters:
    """Letters that are not written yet, and their size."""

    letters: list[DeadLetter] = field(default_factory=list)
    total_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self.letters)

    def add(self, chunk: Chunk, origin: Input, rejected: Sequence[Rejected]) -> None:
        """Add the rejected events of a chunk: one letter per record and reason, however many events the record holds."""
        if not rejected:
            return
        records = {record.offset: record for record in chunk.records}
        first_events = {(event.offset, event.reason): event for event in reversed(rejected)}
        for event in reversed(first_events.values()):
            record = records[event.offset]
            self.letters.append(DeadLetter(event.reason, event.detail, origin, event.offset, record.value, record.timestamp_ms))
            self.total_bytes += len(record.value or b"")

    @property
    def is_full(self) -> bool:
        return len(self.letters) > LETTERS_MAX or self.total_bytes > LETTERS_BYTES_MAX

    def write(self, sink: DeadLetterSink) -> int:
        """Write all letters and forget them; returns how many. Raises SourceError and keeps them."""
        written = len(self.letters)
        if written:
            sink.write(self.letters)
            self.clear()
        return written

    def clear(self) -> None:
        self.letters.clear()
        self.total_bytes = 0
