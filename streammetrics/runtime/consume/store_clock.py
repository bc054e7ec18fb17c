"""The store server's clock, as a second opinion on the time of this machine.

A watermark never goes back. If one clock runs ahead for a moment only, all events would be late until real time has
caught up. So idle inputs follow the clock that is behind.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.store import Store
from streammetrics.events.event_time import FOREVER

DIFFERENCE_MS_MAX = 10_000
"""Clocks that differ by more are logged."""

log = structlog.get_logger("streammetrics.runtime.consume.store_clock")


class StoreClock:
    """Reads the store's time, and logs once when the two clocks differ."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._differing: set[int] = set()
        """Tasks whose store clock differs. Only the first of them is logged."""

    def wall_ms(self, task: int, monotonic: float, tasks: Collection[int]) -> int:
        """Return what the clock of a task's store showed at a monotonic time (s), in epoch ms; FOREVER if it has no clock.

        `tasks` are all owned tasks: if the clock of one is known to differ, another one is not logged.
        """
        stored_ms = self._store.clock_ms(task)
        if stored_ms is None:
            return FOREVER
        ahead_ms = self._clock.wall_ms() - stored_ms
        if abs(ahead_ms) <= DIFFERENCE_MS_MAX:
            self._differing.discard(task)
        else:
            if self._differing.isdisjoint(tasks):
                log.warning(
                    "the clocks of this machine and of the store differ: idle inputs follow the one that is behind; set both by NTP",
                    task=task,
                    ahead_seconds=round(ahead_ms / 1_000, 1),
                )
            self._differing.add(task)
        return stored_ms - int((self._clock.monotonic() - monotonic) * 1_000)
