"""Where rejected events and records are kept: the protocol of a sink, and what it takes. No client is imported here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from streammetrics.connectors.source import Input


class DeadLetter(NamedTuple):
    """A rejected event or record that can be read back: the reason, where it came from, its raw bytes, and the record's own timestamp.

    `timestamp_ms` is -1 if it is unknown.
    """

    reason: str
    detail: str
    input: Input
    offset: int
    value: bytes | None
    timestamp_ms: int = -1

    @property
    def key(self) -> str:
        """The identity of the letter: the same when it is written again after a crash.

        >>> DeadLetter("empty", "a record must hold an event", Input("feedback", 3), 17, None).key
        'feedback:3:17'
        """
        return f"{self.input.topic}:{self.input.partition}:{self.offset}"


def ignored(letter: DeadLetter) -> None:
    """Do nothing with a letter."""


class DeadLetterSink(Protocol):
    """Where dead letters are kept."""

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write the letters durably before returning: acknowledged by the log, or in the file. Raises SourceError."""
        ...

    def close(self) -> None: ...
