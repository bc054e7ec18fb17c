"""The supported time of one input, computed from its whole log by the sentences of the page "The exact rules".

The only stage with memory besides `admission`. It keeps every event of a queue, and all middles of the queue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.oracle.values import Settings

HOUR_MS = 3_600_000
PATIENCE = 32


@dataclass(slots=True)
class QueuedEvent:
    """An event of a queue. It is `open` until the time comes within a span of it, or until it counts as contradicted."""

    user: str
    ts: int
    open: bool


@dataclass(slots=True)
class SupportedTime:
    """The time T of one input (minus infinity before the first) and the queue of events ahead of it."""

    settings: Settings
    t_ms: float = -math.inf
    queue: list[QueuedEvent] = field(default_factory=list)
    middles: list[int] = field(default_factory=list)
    """The middles of the queue since it began, or since it last moved T: then the first is the middle that moved it."""
    users: list[str] = field(default_factory=list)
    """The users that T rests on, in the order in which they came."""
    enders: list[tuple[str, float]] = field(default_factory=list)
    """The user of each event that ended a queue without moving T, with T at that time."""
    contradicted: int = 0

    @property
    def begun(self) -> bool:
        return self.t_ms != -math.inf

    @property
    def span_ms(self) -> int:
        return self.settings.out_of_orderness_ms + self.settings.lateness_ms

    @property
    def counted(self) -> int:
        return 2 * self.settings.support_users - 1

    def is_ahead(self, ts: int) -> bool:
        """Before the first T, every event is ahead."""
        return not self.begun or ts > self.t_ms + min(self.settings.support_jump_ms, self.span_ms)

    def is_open(self, ts: int) -> bool:
        return not self.begun or ts > self.t_ms + self.span_ms

    def is_refused(self, ts: int) -> bool:
        """Whether an event that was just taken is too far ahead."""
        reached_ms = max([self.t_ms, *([min(self.middles)] if self.middles else [])])
        return self.settings.support_users > 1 and self.begun and ts > reached_ms + self.settings.support_far_ms

    def consider(self, user: str, ts: int) -> None:
        if self.settings.support_users == 1:
            self.t_ms = max(self.t_ms, ts)
        elif self.is_ahead(ts):
            self.queue.append(QueuedEvent(user, ts, self.is_open(ts)))
            self._judge_queue()
        elif ts >= self.t_ms - self.span_ms:
            if len(self.users) < self.counted and user not in self.users:
                self.users.append(user)
            if ts > self.t_ms:
                self._end_queue()
                self.t_ms = ts
            elif self.queue:
                at_this_time = [name for name, t_ms in self.enders if t_ms == self.t_ms]
                if user not in at_this_time[-2 * self.settings.support_users :]:
                    self.enders.append((user, self.t_ms))
                    self._end_queue()

    def _end_queue(self) -> None:
        self.contradicted += sum(event.open for event in self.queue)
        self.queue, self.middles = [], []

    def _last(self) -> list[QueuedEvent]:
        return self.queue[-2 * self.settings.support_users :]

    def _has_its_users(self) -> bool:
        need = len(self.users) // 2 + 1 if self.begun else self.settings.support_users
        halvings = sum(event.open for event in self.queue) // (PATIENCE * need)
        return len(_user_times(self._last())) >= math.floor(need / 2**halvings)

    def _judge_queue(self) -> None:
        """Find the middle of the queue, and move T if the middle has run."""
        last = self._last()
        if len(last) < 2 * self.settings.support_users or not self._has_its_users():
            return
        middle = _median(_user_times(last))
        if len(self.queue) > len(last):
            left = self.queue[-len(last) - 1]
            if left.open and left.ts > max(middle, self.t_ms) + self.span_ms:
                self.contradicted += 1
                left.open = False
        self.middles.append(middle)
        lowest = min(self.middles)
        if middle - lowest <= self.span_ms:
            return
        if not self.begun and middle - lowest > self.settings.support_far_ms:
            lowest = middle - HOUR_MS
        self.t_ms = _last_reached(max(lowest, self.t_ms), sorted(event.ts for event in last)[:-1], self.span_ms)
        self.middles = [middle]
        self.users = _distinct([event.user for event in last])[-self.counted :]
        first = len(self.queue) - len(last)
        for number, event in enumerate(self.queue):
            event.open = number >= first and self.is_open(event.ts)

    def at_end(self) -> float:
        """Return the time to use when the input has ended: see choice 10 of the oracle."""
        if not self.queue:
            return self.t_ms
        times = _user_times(self._last())
        middle = _median(times)
        if not self.begun:
            return _last_reached(middle, times, self.settings.support_far_ms)
        is_after = self.t_ms < middle <= self.t_ms + self.settings.support_far_ms
        return _last_reached(middle, times, self.span_ms) if is_after and self._has_its_users() else self.t_ms


def _distinct(users: list[str]) -> list[str]:
    return [user for number, user in enumerate(users) if user not in users[:number]]


def _user_times(events: list[QueuedEvent]) -> list[int]:
    """Return the greatest time of each user, least first."""
    return sorted(max(event.ts for event in events if event.user == user) for user in {event.user for event in events})


def _median(times: list[int]) -> int:
    """Return the median of ascending times; of two, the lower one."""
    return times[(len(times) - 1) // 2]


def _last_reached(start: float, times: list[int], gap_ms: int) -> float:
    """Return the newest time that can be reached from `start` without stepping over a gap of more than `gap_ms`."""
    reached = start
    while later := [ts for ts in times if reached < ts <= reached + gap_ms]:
        reached = max(later)
    return reached
