"""How much feedback matched a list and how much did not, by the UTC day in which its session ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from streammetrics.enrolment.runs import ExperimentRuns
from streammetrics.events.event_time import DAY_MS
from streammetrics.sessions.user_sessions import FinalEvents
from streammetrics.state.codec import VERSION, encode_json, plain_json, reader
from streammetrics.state.tables import RowChanges, TaskTimes

FEEDBACK_DAYS: Final = "feedback_days"
"""The table of the feedback of days, by UTC day since the epoch."""
_read = reader(msgspec.json.Decoder(tuple[int, int, int]).decode, plain_json, "the feedback of a day")


def decode_feedback_day(stored: bytes) -> tuple[int, int]:
    """Return the matched and the other feedback of a day. Raises StateError for bytes of another form or version."""
    _, matched, unmatched = _read(stored)
    return matched, unmatched


class FeedbackDays:
    """Matched and other feedback by day, for as long as there is a pane or a run of that day."""

    __slots__ = ("_changed", "_runs", "by_day")

    def __init__(self, runs: ExperimentRuns) -> None:
        self._runs = runs
        self._changed: set[int] = set()
        self.by_day: dict[int, tuple[int, int]] = {}

    def restore(self, stored: Mapping[str, bytes]) -> None:
        """Continue from the last commit."""
        self.by_day = {int(day): decode_feedback_day(row) for day, row in stored.items()}

    def on_final(self, final: FinalEvents) -> None:
        """Count the feedback of sessions that have closed."""
        for _, ended_ms, matched, unmatched in final.closed:
            if matched or unmatched:
                day = ended_ms // DAY_MS
                counts = self.by_day.get(day, (0, 0))
                self.by_day[day] = counts[0] + matched, counts[1] + unmatched
                self._changed.add(day)

    def changes(self, times: TaskTimes) -> RowChanges:
        """Return what to commit, and drop the days before the oldest pane and the oldest run."""
        first = min([times.oldest_kept, *(run.first for run in self._runs)]) // DAY_MS
        gone = [day for day in self.by_day if day < first]
        for day in gone:
            del self.by_day[day]
        rows = {str(day): encode_json((VERSION, *self.by_day[day])) for day in self._changed & self.by_day.keys()}
        self._changed = set()
        return RowChanges(rows, list(map(str, gone)))
