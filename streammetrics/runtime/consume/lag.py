"""How far the worker is behind the end of each input, in records and in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.runtime.status import ProcessStatus


class LagTracker:
    """Keeps the lag of all owned inputs in the process status.

    Lag in seconds is the age of the last record that was read. It grows while records wait and nothing can be read.
    """

    def __init__(self, status: ProcessStatus, clock: Clock) -> None:
        self._status, self._clock = status, clock
        self._fresh_seconds: dict[Input, float] = {}
        """Monotonic time when the last record read was written, or when the input was last seen at its end."""

    def records_came(self, origin: Input, last: InputRecord) -> None:
        """Note the last record that was read of an input."""
        stamp = last.timestamp_ms
        age_seconds = max(0.0, (self._clock.wall_ms() - stamp) / 1_000) if stamp >= 0 else 0.0
        self._fresh_seconds[origin] = self._clock.monotonic() - age_seconds

    def update(self, tasks: Iterable[OwnedTask], ends: Mapping[Input, int]) -> None:
        """Compute the lag of all claimed tasks, and drop that of all others: their owner reports it."""
        status, now = self._status, self._clock.monotonic()
        claimed = set[int]()
        for task in tasks:
            if task.state is None:
                continue
            claimed.add(task.number)
            for origin, offset in zip(task.inputs, task.state.progress.offsets, strict=True):
                if origin not in ends:
                    continue
                lag = status.lag_records[origin] = max(0, ends[origin] - (offset or 0))
                if not lag:
                    self._fresh_seconds[origin] = now
                if origin in self._fresh_seconds:
                    status.lag_seconds[origin] = now - self._fresh_seconds[origin]
        by_input: tuple[dict[Input, Any], ...] = (status.lag_records, status.lag_seconds, self._fresh_seconds)
        for lags in by_input:
            for origin in [origin for origin in lags if origin.partition not in claimed]:
                del lags[origin]
