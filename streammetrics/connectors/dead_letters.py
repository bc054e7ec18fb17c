"""Where rejected events and records are kept: the protocol of a sink, and what it takes. `FirstRefusals` remembers an example of each
reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

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


REFUSALS_MAX: Final = 1_000
"""Pairs of topic and reason that are remembered."""
KEPT_BYTES: Final = 64


class FirstRefusals:
    """Passes letters on to a sink. `on_first` is called once for each topic and reason, in the order of the letters."""

    def __init__(self, sink: DeadLetterSink, on_first: Callable[[DeadLetter], None] = ignored) -> None:
        self._sink, self._on_first = sink, on_first
        self.letters: dict[tuple[str, str], DeadLetter] = {}
        """The first letters by topic and reason, with at most KEPT_BYTES of their values."""

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write the letters to the sink, then note those that are the first of their kind."""
        written = list(letters)
        self._sink.write(written)
        for letter in written:
            key = letter.input.topic, letter.reason
            if key not in self.letters and len(self.letters) < REFUSALS_MAX:
                self.letters[key] = letter._replace(value=(letter.value or b"")[:KEPT_BYTES])
                self._on_first(letter)

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()
