"""The supported time of one input: the newest time that its events agree on.

A watermark follows the supported time. One event moves it by at most `jump_ms`. Events further ahead form a queue, and the queue moves
the time once its middle has run on by a span that no event may be late by. Wrong clocks do not do that: those that differ have no common
middle, and a batch of one wrong clock takes no time. All of this follows from the input's log: the users and times of its events, in order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from streammetrics.events.event_time import FOREVER, NEVER

PATIENCE = 32
"""A queue with this many events for each user that it needs may have half as many users, and so on."""
START_MS = 3_600_000
"""A time that would begin more than `far_ms` before the middle of its queue begins this long before it."""
USER_CHARS_MAX = 32
"""Longer user ids are kept as a hash, to limit the state."""
ANY_JUMP_MS = 1 << 60
"""Longer than any jump."""

UserTime = tuple[str, int]
"""One event of a queue: its user and its time (ms)."""


@dataclass(frozen=True, slots=True)
class SupportRules:
    """When a time counts as supported.

    An event is ahead if it is more than `jump_ms` after the supported time. Events ahead that follow each other form a queue, and `users`
    is how many of its users must agree. `far_ms` is how far ahead an event may be without being refused. With one user, every event sets
    the time: none is ahead, and none is refused.
    """

    jump_ms: int = 5_000
    users: int = 5
    far_ms: int = 7 * 86_400_000

    @property
    def remembered(self) -> int:
        """How many events of a queue are remembered."""
        return 2 * self.users

    @property
    def users_counted(self) -> int:
        """How many of the users that a time rests on are counted."""
        return 2 * self.users - 1

    def jump_within(self, span_ms: int) -> int:
        """Return how far one event moves the time (ms), if events may be `span_ms` late. It makes no other event late.

        >>> SupportRules().jump_within(65_000), SupportRules().jump_within(1_200), SupportRules(users=1).jump_within(0) == ANY_JUMP_MS
        (5000, 1200, True)
        """
        return ANY_JUMP_MS if self.users == 1 else min(self.jump_ms, span_ms)

    def describe(self) -> str:
        return f"support[jump={self.jump_ms} users={self.users} far={self.far_ms}]"


class StoredSupport(NamedTuple):
    """The stored form of `SupportedTime`, without the time itself: that is the watermark. The default has no queue and enough users."""

    open_events: int = 0
    recent: tuple[UserTime, ...] = ()
    low: int = FOREVER
    basis: tuple[str, ...] | None = None
    enders: tuple[str, ...] = ()

    @property
    def least(self) -> int:
        """The least time of the remembered events; FOREVER if there are none."""
        return min((ts for _, ts in self.recent), default=FOREVER)


class SupportedTime:
    """The supported time of one input and the queue of events ahead of it.

    `time` is NEVER before the first supported time; until then every event is in the queue. `span_ms` is how late an event may be, and how
    far the middle of a queue must run. `recent` are the last events of the queue, and `open_events` counts those of its events that are
    more than `span_ms` ahead. `low` is the least middle of the queue since it began or last moved the time. `basis` are the users that the
    time rests on; None: as many as are counted. `enders` are the users that ended a queue since the time moved. `outliers` counts events
    that others have contradicted, and `outlier` is the last of them: its user, its time, and how far ahead it was (ms). `began` is the
    first supported time. These three are not stored.
    """

    __slots__ = (
        "_enders_at",
        "_rules",
        "_within",
        "basis",
        "began",
        "enders",
        "jump_ms",
        "low",
        "open_events",
        "outlier",
        "outliers",
        "recent",
        "span_ms",
        "time",
    )

    def __init__(self, rules: SupportRules, *, out_of_orderness_ms: int, lateness_ms: int) -> None:
        self._rules = rules
        self.span_ms = out_of_orderness_ms + lateness_ms
        self.jump_ms = rules.jump_within(self.span_ms)
        self.began = NEVER
        self.outliers = 0
        self.outlier: tuple[str, int, int] | None = None
        self.restore(StoredSupport(basis=None if rules.users == 1 else ()), NEVER)

    def restore(self, stored: StoredSupport, time: int) -> None:
        self.time, self.open_events, self.low = time, stored.open_events, stored.low
        self.recent, self.enders, self._enders_at = [*stored.recent], [*stored.enders], time
        self.basis = None if stored.basis is None else [*stored.basis]
        self._within = 0  # how many of the last events are at most a span after `low`, and not before it

    def stored(self) -> StoredSupport:
        enders = tuple(self.enders) if self._enders_at == self.time else ()
        return StoredSupport(self.open_events, tuple(self.recent), self.low, None if self.basis is None else tuple(self.basis), enders)

    @property
    def needs_every_event(self) -> bool:
        """Whether it must take every event. Otherwise those that are not ahead only move `time`, and the caller may do that."""
        return self.basis is not None or bool(self.recent)

    @property
    def ahead_from(self) -> int:
        """Events after this time are ahead."""
        return NEVER if self.time == NEVER else self.time + self.jump_ms

    @property
    def refused_from(self) -> int:
        """Events after this time are refused as future. A queue that has a middle is no longer far ahead of itself."""
        if self.time == NEVER or self._rules.users == 1:
            return FOREVER
        return (self.time if self.low == FOREVER else max(self.time, self.low)) + self._rules.far_ms

    @property
    def time_or_least(self) -> int:
        """The supported time; before the first one, the least time of the last events. NEVER without events."""
        if self.time != NEVER or not self.recent:
            return self.time
        return self.stored().least

    @property
    def users(self) -> int:
        """Distinct users among the remembered events of the queue."""
        return len({user for user, _ in self.recent})

    def consider(self, user: str, ts: int) -> bool:
        """Consider one event: it ends the queue and moves the time, or it is ahead and joins the queue.

        Returns whether the time is near it now, so that it shows that the input goes on. In calm traffic the time is at most about a span
        behind, so near is within two spans.
        """
        if self._rules.users == 1:
            self.time = max(self.time, ts)
            if self.began == NEVER:
                self.began = ts
        elif self.time == NEVER or ts > self.time + self.jump_ms:
            self._add_ahead(_short(user), ts)
            return self.time != NEVER and ts <= self.time + 2 * self.span_ms
        elif ts >= self.time - self.span_ms:
            self._consider_near(_short(user), ts)
        return True

    def _consider_near(self, user: str, ts: int) -> None:
        """An event that is not ahead ends the queue, unless its user has ended one at this time already.

        A sender with a clock that stands still would otherwise end queues for ever.
        """
        if self.basis is not None and user not in self.basis:
            self._rest_on([*self.basis, user])
        if ts > self.time:
            self._end_queue()
            self.time = ts
        elif self.recent:
            if self._enders_at != self.time:
                self.enders, self._enders_at = [], self.time
            if user not in self.enders:
                self.enders = [*self.enders, user][-self._rules.remembered :]
                self._end_queue()

    def _end_queue(self) -> None:
        """Forget the queue. Those of its events that the time has not come near are contradicted."""
        self.outliers += self.open_events
        for user, ts in self.recent:
            if ts > self.time + self.span_ms:
                self.outlier = user, ts, ts - self.time
        self.open_events, self.low = 0, FOREVER
        self.recent.clear()

    def _add_ahead(self, user: str, ts: int) -> None:
        recent, remembered = self.recent, self._rules.remembered
        recent.append((user, ts))
        if self.time == NEVER or ts > self.time + self.span_ms:
            self.open_events += 1
        if len(recent) < remembered:
            return
        left = recent.pop(0) if len(recent) > remembered else None
        self._within = self._within + 1 if self.low <= ts <= self.low + self.span_ms else 0
        if self._within > remembered:
            return  # so the middle cannot be lower, nor have run, and no event that has left is contradicted
        times = _newest_by_user(recent)
        if len(times) < self._users_needed():
            return
        middle = times[(len(times) - 1) // 2]
        if left is not None:
            self._note_left(*left, max(middle, self.time))
        if middle < self.low:
            self.low, self._within = middle, 0
        if middle > self.low + self.span_ms:
            self._follow(middle)

    def _users_needed(self) -> int:
        """Return how many users of a queue must agree: most of those that the time rests on, and fewer if the queue is long."""
        if self.time == NEVER:
            needed = self._rules.users
        else:
            needed = (self._rules.users_counted if self.basis is None else len(self.basis)) // 2 + 1
        return needed >> self.open_events // (PATIENCE * needed)

    def _note_left(self, user: str, ts: int, reached: int) -> None:
        """An event has left the remembered ones. It is contradicted if those that came after it have not come near."""
        if ts > reached + self.span_ms:
            self.open_events -= 1
            self.outliers += 1
            self.outlier = user, ts, ts - reached

    def _follow(self, middle: int) -> None:
        """The middle has run: move the time to where it began, and on through the last events, but not over a gap and not to the newest."""
        low, time, begins = self.low, self.time, self.time == NEVER
        if begins and middle - low > self._rules.far_ms:
            low = middle - START_MS
        self.time = _walk(max(low, time), sorted(ts for _, ts in self.recent)[:-1], self.span_ms)
        if begins:
            self.began = self.time
        self.low, self._within = middle, 0
        self.open_events = sum(ts > self.time + self.span_ms for _, ts in self.recent)
        self._rest_on([*dict.fromkeys(user for user, _ in self.recent)][-self._rules.users_counted :])

    def _rest_on(self, users: list[str]) -> None:
        self.basis = users if len(users) < self._rules.users_counted else None

    def at_end(self) -> int:
        """Return the time at the end of an input that cannot settle any more; NEVER without events.

        A queue that has its users counts, although its middle has not run. Before the first supported time, the remembered events count:
        the time is the newest that no gap of more than `far_ms` separates from their middle.
        """
        times = _newest_by_user(self.recent)
        if not times:
            return self.time
        middle = times[(len(times) - 1) // 2]
        if self.time == NEVER:
            return _walk(middle, times, self._rules.far_ms)
        if len(times) < self._users_needed() or not self.time < middle <= self.time + self._rules.far_ms:
            return self.time
        return _walk(middle, times, self.span_ms)


def _newest_by_user(seen: Iterable[UserTime]) -> list[int]:
    """Return the greatest time of each user, least first.

    >>> _newest_by_user([("a", 5), ("b", 3), ("a", 1)])
    [3, 5]
    """
    times: dict[str, int] = {}
    for user, ts in seen:
        if ts > times.get(user, NEVER):
            times[user] = ts
    return sorted(times.values())


def _walk(start: int, times: Iterable[int], gap_ms: int) -> int:
    """Return the last of the ascending times that steps of at most `gap_ms` reach.

    >>> _walk(10, [5, 12, 14, 20], 3), _walk(10, [], 3)
    (14, 10)
    """
    for ts in times:
        if start < ts <= start + gap_ms:
            start = ts
    return start


def _short(user: str) -> str:
    """Return a user id, or its hash if it is long."""
    return user if len(user) <= USER_CHARS_MAX else hashlib.blake2b(user.encode(), digest_size=8).hexdigest()
