"""The time that events show. It limits how far a wrong clock of a machine can move the watermark.

All inputs of a task may be silent while the clocks of the worker and of the store are wrong, for example on one host. The watermark
must not follow these clocks further than events and the monotonic clock allow.
"""

from __future__ import annotations

from collections.abc import Collection

from streammetrics.connectors.store import Store
from streammetrics.engine.task_state import decode_control
from streammetrics.events.event_time import FOREVER, NEVER

READ_SECONDS = 30.0
"""How often the committed times of other tasks are read, at most."""


class EventClock:
    """The greatest time of any known event or record, carried on by the monotonic clock.

    Records count because a recorded history may be older than they are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: tuple[int, float] | None = None
        """A time (ms), and the monotonic time (s) when it was seen."""
        self._read_seconds: float | None = None

    def note(self, time_ms: int, monotonic: float) -> None:
        """Note the time of events or records, as seen at a monotonic time (s)."""
        if time_ms not in (NEVER, FOREVER) and time_ms > self.at(monotonic):
            self._known = time_ms, monotonic

    def at(self, monotonic: float) -> int:
        """Return the latest time (ms) that it can be at a monotonic time (s), as far as events show; NEVER without events."""
        if self._known is None:
            return NEVER
        time_ms, seen = self._known
        return time_ms + int((monotonic - seen) * 1_000)

    def read_others(self, owned: Collection[int], monotonic: float) -> None:
        """Note the committed times of tasks of other workers. Raises StoreError.

        A worker with silent inputs only has no time of its own to go by.
        """
        if self._read_seconds is not None and monotonic - self._read_seconds < READ_SECONDS:
            return
        self._read_seconds = monotonic
        others = sorted(set(range(self._store.partitions() or 0)) - set(owned))
        for view in self._store.view(others, {}, tables=()).values() if others else ():
            control = decode_control(view.control)
            self.note(max([control.progress.newest_supported, *control.progress.record_times]), monotonic)
