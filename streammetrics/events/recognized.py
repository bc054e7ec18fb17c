"""What a recognizer returns: what some bytes seem to be, and what to do about it. Values only."""

from __future__ import annotations

from typing import NamedTuple


class Recognized(NamedTuple):
    """What bytes seem to be, as a noun phrase with its article, and what to do, as an imperative.

    `name` is short and stable, for tests and for code that decides by it.
    """

    name: str
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"
