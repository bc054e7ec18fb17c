"""One batch of one input: its decoded records, and what became of its events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from streammetrics.errors import MalformedEvent
from streammetrics.events.model import EVENT_TYPES, Elsewhere, Event

DecodedRecord: TypeAlias = tuple[int, int, Sequence[Event | MalformedEvent | Elsewhere]]
"""One decoded record: its offset, its own timestamp (epoch ms, -1 if unknown), and its events."""


def users_of(records: Iterable[DecodedRecord]) -> set[str]:
    """Return the users of all events of some records, without events that another process counts."""
    return {
        event.user_id  # type: ignore[union-attr]  # an event has a user
        for _, _, events in records
        for event in events
        if type(event) in EVENT_TYPES
    }


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one input, in its order: the index of its topic, the offset after them, and their users."""

    topic: int
    records: Sequence[DecodedRecord]
    next_offset: int
    users: set[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", users_of(self.records))


class RefusedEvent(NamedTuple):
    """One event that is not used and goes to the dead letters."""

    topic: int
    offset: int
    reason: str
    detail: str


class TimeMove(NamedTuple):
    """A move of an input's time by a queue of events. `start` is NEVER if the time begins."""

    start: int
    end: int
    events: int
    users: int


class Outlier(NamedTuple):
    """An event that was ahead (ms) of the time that other events of its input support. Long user ids are hashed."""

    user: str
    ts: int
    ahead_ms: int


class BatchResult(NamedTuple):
    """The rejected events of a batch, and the number of its events that show that the input goes on: the time is near them.

    `outlier` is the last of the first events that others contradicted. `moves` are the moves by a queue over more than events may be late.
    """

    refused: list[RefusedEvent]
    timed: int
    outlier: Outlier | None = None
    moves: tuple[TimeMove, ...] = ()
