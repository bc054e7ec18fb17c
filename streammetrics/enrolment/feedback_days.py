"""How much feedback matched a list and how much did not, by the UTC day in which its session ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from streammetrics.events.event_time import DAY_MS
from streammetrics.sessions.store import FinalEvents


class FeedbackDays:
    """Matched and other feedback by day."""

    __slots__ = ("by_day",)

    def __init__(self) -> None:
        self.by_day: dict[int, list[int]] = {}

    def restore(self, stored: Iterable[tuple[int, int, int]]) -> None:
        self.by_day = {day: [matched, unmatched] for day, matched, unmatched in stored}

    def stored(self) -> list[tuple[int, int, int]]:
        return [(day, matched, unmatched) for day, (matched, unmatched) in sorted(self.by_day.items())]

    def on_final(self, final: FinalEvents) -> None:
        """Count the feedback of sessions that have closed."""
        for ended_ms, matched, unmatched in final.closed:
            if matched or unmatched:
                of_day = self.by_day.setdefault(ended_ms // DAY_MS, [0, 0])
                of_day[0] += matched
                of_day[1] += unmatched

    def forget(self, before_ms: int) -> None:
        """Drop the days before that of a time."""
        for day in [day for day in self.by_day if day < before_ms // DAY_MS]:
            del self.by_day[day]
