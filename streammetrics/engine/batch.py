"""One batch of one input: its decoded records, and what became of its events.

A refused event is counted by its reason, and its text says why, for the dead letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from streammetrics.engine.input_progress import InputProgress
from streammetrics.engine.rules import EngineRules
from streammetrics.errors import MalformedEvent
from streammetrics.events.event_time import FOREVER
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


class Refusals:
    """The refused events of a step, in order."""

    __slots__ = ("_progress", "_rules", "events")

    def __init__(self, rules: EngineRules, progress: InputProgress) -> None:
        self._rules, self._progress = rules, progress
        self.events: list[RefusedEvent] = []

    def add(self, topic: int, offset: int, reason: str, detail: str) -> None:
        """Refuse an event."""
        self._progress.counts[reason, topic] += 1
        self.events.append(RefusedEvent(topic, offset, reason, detail))

    def future(self, topic: int, offset: int, ts: int, record_ts: int) -> None:
        """Refuse an event that is dated after its record."""
        self.add(topic, offset, "future", f"ts {ts} is {ts - record_ts} ms after its record's own time")

    def late_or_far(self, topic: int, offset: int, ts: int, late_ms: int, time: int, *, by_own: bool) -> None:
        """Refuse an event that is late, or too far ahead of the supported time of its input (`late_ms` is FOREVER then).

        Of a late one, note how late it is and which event made it late. `by_own`: one of its own input did.
        """
        if late_ms == FOREVER:
            ahead = f"ts {ts} is {ts - time} ms ahead of what other events of its input support"
            self.add(topic, offset, "future", f"{ahead}; join.support_far_ms allows {self._rules.support.far_ms} ms")
            return
        lateness_ms = self._rules.lateness_ms
        setter = self._progress.setters[topic] if by_own else None
        self._progress.lateness[topic].add(late_ms, setter)
        if setter is not None:
            cause = f"set by the event of user {setter.user!r} at offset {setter.offset} with ts {setter.ts}"
        else:
            cause = "set by the other inputs or by the clock, while this input was idle"
        self.add(
            topic,
            offset,
            "late",
            f"ts {ts} is {late_ms} ms older than the watermark {ts + late_ms + lateness_ms} less the allowed lateness of {lateness_ms} ms;"
            f" the watermark was {cause}",
        )
