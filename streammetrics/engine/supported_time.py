"""The supported time of one input: the newest time that its events agree on.

A watermark follows the supported time. One event may move it by at most `jump_ms`. A larger jump needs a row of events of several users,
so one wrong clock moves nothing. Everything follows from the input's log: users and times of its events, in order.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from streammetrics.events.event_time import FOREVER, NEVER

AGREE_MS = 3_600_000
"""At the start, events of several users whose times lie within this agree on the time."""
LONG_ROW_FACTOR = 8
"""A row of this many times `events` needs no several users."""
USER_CHARS_MAX = 32
"""Longer user ids are kept as a hash, to limit the state."""

Seen = tuple[str, int, int]
"""One event of a row: its user, its time (ms), and its number among the events that were ahead."""


@dataclass(frozen=True, slots=True)
class SupportRules:
    """When a time counts as supported.

    An event is ahead if it is more than `jump_ms` after the supported time. Events ahead that follow each other form a row. `users`
    distinct users and `events` events in a row move the time. `far_ms` is how far ahead an event may be without being refused.
    """

    jump_ms: int = 65_000
    users: int = 5
    events: int = 64
    far_ms: int = 7 * 86_400_000

    @property
    def remembered(self) -> int:
        """How many events of a row are remembered."""
        return 2 * self.users

    @property
    def remembered_at_start(self) -> int:
        """How many events are remembered before the first supported time."""
        return max(self.remembered, self.events)

    def describe(self) -> str:
        return f"support[jump={self.jump_ms} users={self.users} events={self.events} far={self.far_ms}]"


class StoredSupport(NamedTuple):
    """The stored form of `SupportedTime`, without the time itself: that is the watermark."""

    row: int = 0
    least: int = FOREVER
    seen: int = 0
    recent: tuple[Seen, ...] = ()
    enders: tuple[str, ...] = ()
    enders_at: int = NEVER


class SupportedTime:
    """The supported time of one input and the row of events ahead of it.

    `time` is NEVER before the first supported time; until then every event is in the row. `row` is its length, `least` its least time.
    `recent` are its last events. `enders` are the last users that ended a row at the time `enders_at`. `outliers` counts the events of
    rows that ended without a move, and `outlier` is the last of them. `began` is the first supported time. These three are not stored.
    """

    __slots__ = (
        "_in_order_ms",
        "_rules",
        "_still_ms",
        "began",
        "enders",
        "enders_at",
        "least",
        "outlier",
        "outliers",
        "recent",
        "row",
        "seen",
        "time",
    )

    def __init__(self, rules: SupportRules, *, out_of_orderness_ms: int, lateness_ms: int) -> None:
        self._rules = rules
        self._in_order_ms = out_of_orderness_ms
        self._still_ms = out_of_orderness_ms + lateness_ms
        self.time = self.began = NEVER
        self.outliers = 0
        self.outlier: Seen | None = None
        self.restore(StoredSupport())

    def restore(self, stored: StoredSupport) -> None:
        self.row, self.least, self.seen, self.enders_at = stored.row, stored.least, stored.seen, stored.enders_at
        self.recent, self.enders = [*stored.recent], [*stored.enders]

    def stored(self) -> StoredSupport:
        return StoredSupport(self.row, self.least, self.seen, tuple(self.recent), tuple(self.enders), self.enders_at)

    @property
    def ahead_from(self) -> int:
        """Events after this time are ahead."""
        return NEVER if self.time == NEVER else self.time + self._rules.jump_ms

    @property
    def refused_from(self) -> int:
        """Events after this time are refused as future."""
        return FOREVER if self.time == NEVER else self.time + self._rules.far_ms

    @property
    def known(self) -> int:
        """The supported time; before the first one, the least time of all events. NEVER without events."""
        if self.time != NEVER or not self.row:
            return self.time
        return self.least

    @property
    def users(self) -> int:
        """Distinct users among the remembered events of the row."""
        return len({user for user, _, _ in self.recent})

    def take(self, user: str, ts: int) -> None:
        """Take one event: it ends the row and moves the time, or it is ahead and joins the row."""
        if self.time != NEVER and ts <= self.ahead_from:
            self._take_near(_short(user), ts)
        else:
            self._take_ahead(_short(user), ts)

    def _take_near(self, user: str, ts: int) -> None:
        """An event that is not ahead ends the row, unless it is too old, or its user has ended a row at this time already.

        A sender with a clock that stands still would otherwise end rows for ever.
        """
        before = self.time
        if ts > before:
            self.time = ts
            self._end_row()
        elif self.row and ts >= before - self._still_ms:
            if self.enders_at != before:
                self.enders, self.enders_at = [], before
            if user not in self.enders:
                self.enders = [*self.enders, user][-self._rules.remembered :]
                self._end_row()

    def _end_row(self) -> None:
        if self.row:
            self.outliers += self.row
            self.outlier = self.recent[-1]
        self.row, self.least, self.seen = 0, FOREVER, 0
        self.recent.clear()

    def _take_ahead(self, user: str, ts: int) -> None:
        self.seen += 1
        self.row += 1
        self.least = min(self.least, ts)
        self.recent.append((user, ts, self.seen))
        self._forget(self._rules.remembered_at_start if self.time == NEVER else self._rules.remembered)
        if self.time == NEVER:
            begins = self._start()
            if begins == NEVER:
                return
            self.began = begins
            self._move_to(begins)
        while (to := self._next()) > self.time:
            self._move_to(to)

    def _forget(self, kept: int) -> None:
        while self.recent and self.recent[0][2] <= self.seen - kept:
            del self.recent[0]

    def _move_to(self, time: int) -> None:
        """Set the time. Only events ahead of it stay in the row.

        At the start, events far ahead that leave the row count as outliers: they were not refused.
        """
        self.time = time
        remembered, kept_from = self.recent, self.seen - self._rules.remembered
        for each in remembered:
            if each[2] <= kept_from and each[1] > self.refused_from:
                self.outliers += 1
                self.outlier = each
        self._forget(self._rules.remembered)
        self.recent = [each for each in self.recent if each[1] > self.ahead_from]
        self.row = len(self.recent)
        self.least = min((ts for _, ts, _ in self.recent), default=FOREVER)
        if not self.row:
            self.seen = 0

    def _times(self) -> list[int]:
        """Return the greatest time of each user among the remembered events, greatest first."""
        times: dict[str, int] = {}
        for user, ts, _ in self.recent:
            times[user] = max(ts, times.get(user, NEVER))
        return sorted(times.values(), reverse=True)

    def _is_long(self, enough: bool) -> bool:
        events = self._rules.events
        return (enough and self.row >= events) or self.row >= LONG_ROW_FACTOR * events

    def _start(self) -> int:
        """Return the time that begins to be supported; NEVER if the events do not agree yet."""
        times, users = self._times(), self._rules.users
        enough = len(times) >= users
        if enough and times[0] - self.least <= AGREE_MS:
            return times[users - 1]
        return _lower_median(times) if self._is_long(enough) else NEVER

    def _next(self) -> int:
        """Return the time that the row supports, which may be the time now."""
        rules, times = self._rules, self._times()
        if not times:
            return self.time
        enough = len(times) >= rules.users
        supported = times[rules.users - 1] if enough else times[-1]
        is_long = self._is_long(enough)
        if supported > self.time + rules.far_ms:
            return self.least if is_long else self.time
        is_sparse = enough and self.row >= rules.remembered and times[0] - supported > rules.jump_ms and self._is_in_order()
        return supported if is_long or is_sparse else self.time

    def _is_in_order(self) -> bool:
        """Whether the row is in order of time. That of a sparse input is, that of several wrong clocks is not."""
        newest = NEVER
        for _, ts, _ in self.recent:
            if ts < newest - self._in_order_ms:
                return False
            newest = max(newest, ts)
        return True

    def at_end(self) -> int:
        """Return the time at the end of an input that cannot settle any more; NEVER without events.

        With enough users the row counts. Before the first supported time it is the newest event that no gap of more than `far_ms`
        separates from the lower median of the users.
        """
        times = self._times()
        if self.time != NEVER:
            enough = len(times) >= self._rules.users
            supported = times[self._rules.users - 1] if enough else self.time
            return supported if supported <= self.time + self._rules.far_ms else self.time
        if not times:
            return NEVER
        newest = _lower_median(times)
        for ts in sorted(ts for _, ts, _ in self.recent):
            if newest < ts <= newest + self._rules.far_ms:
                newest = ts
        return newest


def _lower_median(descending: list[int]) -> int:
    """Return the lower median of times in descending order.

    >>> _lower_median([9, 5, 1]), _lower_median([9, 8, 5, 1]), _lower_median([7])
    (5, 5, 7)
    """
    return descending[len(descending) // 2]


def _short(user: str) -> str:
    """Return a user id, or its hash if it is long."""
    return user if len(user) <= USER_CHARS_MAX else hashlib.blake2b(user.encode(), digest_size=8).hexdigest()
