"""A dead-letter sink that remembers the first letter of each topic and reason, so that people see one example of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from streammetrics.connectors.dead_letters import DeadLetter, DeadLetterSink, ignored

REFUSALS_MAX: Final = 1_000
"""Pairs of topic and reason that are remembered."""


class FirstRefusals:
    """Passes letters on to a sink. `on_first` is called once for each topic and reason, in the order of the letters."""

    def __init__(self, sink: DeadLetterSink, on_first: Callable[[DeadLetter], None] = ignored) -> None:
        self._sink, self._on_first = sink, on_first
        self.letters: dict[tuple[str, str], DeadLetter] = {}
        """The first letters by topic and reason, without their raw bytes."""

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write the letters to the sink, then note those that are the first of their kind."""
        written = list(letters)
        self._sink.write(written)
        for letter in written:
            key = letter.input.topic, letter.reason
            if key not in self.letters and len(self.letters) < REFUSALS_MAX:
                self.letters[key] = letter._replace(value=None)
                self._on_first(letter)

    def close(self) -> None:
        """Close the sink."""
        self._sink.close()
