"""The events that a task refuses: each is counted by its reason, and its text says why, for the dead letters."""

from __future__ import annotations

from streammetrics.engine.batch import RefusedEvent
from streammetrics.engine.input_progress import InputProgress
from streammetrics.engine.rules import EngineRules
from streammetrics.events.event_time import FOREVER


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
