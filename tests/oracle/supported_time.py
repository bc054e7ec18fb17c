"""The supported time of one input, computed from its whole log: the newest time that its events agree on.

The only stage with memory besides `admission`. It keeps every event of a row and selects those that count by their numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.oracle.values import Settings

AGREE_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class RowEvent:
    """An event ahead. `number` counts the events ahead since the last event that ended a row."""

    number: int
    user: str
    ts: int


@dataclass(slots=True)
class SupportedTime:
    """The time T of one input (minus infinity before the first) and the row of events ahead of it."""

    settings: Settings
    t_ms: float = -math.inf
    row: list[RowEvent] = field(default_factory=list)
    numbers: int = 0
    contradicted: int = 0
    """How many events were in rows that ended without a move, or far ahead when T began and no longer in the row."""
    enders: list[tuple[str, float]] = field(default_factory=list)
    """The user of each event that ended a row without moving T, with T at that time."""

    @property
    def begun(self) -> bool:
        return self.t_ms != -math.inf

    def is_ahead(self, ts: int) -> bool:
        """Before the first T, every event is ahead."""
        return not self.begun or ts > self.t_ms + self.settings.support_jump_ms

    def take(self, user: str, ts: int) -> None:
        if self.is_ahead(ts):
            self.numbers += 1
            self.row.append(RowEvent(self.numbers, user, ts))
            if not self.begun:
                self._begin()
            if self.begun:
                self._follow_row()
        elif ts > self.t_ms:
            self.t_ms = ts
            self._end_row()
        elif self.row and ts >= self.t_ms - self.settings.out_of_orderness_ms - self.settings.lateness_ms:
            at_this_time = [name for name, t_ms in self.enders if t_ms == self.t_ms]
            if user not in at_this_time[-2 * self.settings.support_users :]:
                self.enders.append((user, self.t_ms))
                self._end_row()

    def _end_row(self) -> None:
        self.contradicted += len(self.row)
        self.row, self.numbers = [], 0

    def _last(self, count: int) -> list[RowEvent]:
        """Return the events of the row among the last `count` numbers."""
        return [event for event in self.row if event.number > self.numbers - count]

    def _begin(self) -> None:
        """Set the first T if several users agree, or if the row is long."""
        settings = self.settings
        times = _user_times(self._last(max(2 * settings.support_users, settings.support_events)))
        enough = len(times) >= settings.support_users
        if enough and times[-1] - min(event.ts for event in self.row) <= AGREE_MS:
            self.t_ms = times[-settings.support_users]
        elif self._is_long(enough):
            self.t_ms = times[(len(times) - 1) // 2]
        else:
            return
        last = self._last(2 * settings.support_users)
        remembered = self._last(max(2 * settings.support_users, settings.support_events))
        self.contradicted += sum(event.ts > self.t_ms + settings.support_far_ms for event in remembered if event not in last)
        self._drop_passed()

    def _follow_row(self) -> None:
        """Move T as long as the row supports a later time."""
        while self.row:
            to_ms = self._supported()
            if to_ms is None:
                return
            self.t_ms = to_ms
            self._drop_passed()

    def _supported(self) -> int | None:
        settings, last = self.settings, self._last(2 * self.settings.support_users)
        times = _user_times(last)
        if not times:
            return None
        enough = len(times) >= settings.support_users
        k_ms = times[-settings.support_users] if enough else times[0]
        if k_ms > self.t_ms + settings.support_far_ms:
            return min(event.ts for event in self.row) if self._is_long(enough) else None
        in_order = all(later.ts >= earlier.ts - settings.out_of_orderness_ms for at, later in enumerate(last) for earlier in last[:at])
        spans = times[-1] - k_ms > settings.support_jump_ms
        is_sparse = enough and len(self.row) >= 2 * settings.support_users and spans and in_order
        return k_ms if self._is_long(enough) or is_sparse else None

    def _is_long(self, enough: bool) -> bool:
        events = self.settings.support_events
        return len(self.row) >= (events if enough else 8 * events)

    def _drop_passed(self) -> None:
        """After a move, only the last events that are still ahead stay in the row."""
        self.row = [event for event in self._last(2 * self.settings.support_users) if self.is_ahead(event.ts)]
        if not self.row:
            self.numbers = 0

    def at_end(self) -> float:
        """Return the time to use when the input has ended: see choice 10 of the oracle."""
        settings = self.settings
        if self.begun:
            times = _user_times(self._last(2 * settings.support_users))
            enough = len(times) >= settings.support_users
            return (
                times[-settings.support_users]
                if enough and times[-settings.support_users] <= self.t_ms + settings.support_far_ms
                else self.t_ms
            )
        last = self._last(max(2 * settings.support_users, settings.support_events))
        if not last:
            return -math.inf
        times = _user_times(last)
        newest = times[(len(times) - 1) // 2]
        while later := [event.ts for event in last if newest < event.ts <= newest + settings.support_far_ms]:
            newest = max(later)
        return newest


def _user_times(events: list[RowEvent]) -> list[int]:
    """Return the greatest time of each user, least first."""
    return sorted(max(event.ts for event in events if event.user == user) for user in {event.user for event in events})
