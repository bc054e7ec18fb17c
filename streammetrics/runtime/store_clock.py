"""The clock of the store as a second witness of time, beside that of the worker.

A watermark never goes back, and after a clock that is ahead, if only for a moment, all would be late that comes until time has caught up
with it.
"""

from __future__ import annotations

from collections.abc import Collection

import structlog

from streammetrics.connectors.base import Clock, Store
from streammetrics.events.event_time import FOREVER

APART_MS = 10_000
"""By how much two clocks may differ without a word."""

log = structlog.get_logger("streammetrics.runtime.store_clock")


class StoreClock:
    """Asks the store for its time, and tells once when the two clocks differ."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._apart: set[int] = set()
        """Tasks whose store has a clock that differs; it is told of when the first one does."""

    def wall_ms(self, task: int, monotonic: float, tasks: Collection[int]) -> int:
        """What the clock of a task's store said at a monotonic time (s), in epoch ms; FOREVER where it has none.

        `tasks` are those at hand, of which some may have stores whose clocks are known to differ.
        """
        stored_ms = self._store.clock_ms(task)
        if stored_ms is None:
            return FOREVER
        ahead_ms = self._clock.wall_ms() - stored_ms
        if abs(ahead_ms) <= APART_MS:
            self._apart.discard(task)
        else:
            if self._apart.isdisjoint(tasks):
                log.warning(
                    "the clocks of this machine and of the store differ: silent inputs are judged by the one that is behind; "
                    "set both by NTP",
                    task=task,
                    ahead_seconds=round(ahead_ms / 1_000, 1),
                )
            self._apart.add(task)
        return stored_ms - int((self._clock.monotonic() - monotonic) * 1_000)
