"""How far the worker is behind the end of each input, in records and in seconds, and which inputs do not move at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.runtime.consume.owned_task import OwnedTask
from streammetrics.runtime.status import ProcessStatus, Standstill

STANDSTILL_SECONDS = 60.0
"""How long an input with records may stand still before it is named. A rebalance, or a restart of a server, takes less."""
UNKNOWN_REASON = "the Kafka client returns no record and no error; a transaction of a producer may be open"


class LagTracker:
    """Keeps the lag of all owned inputs in the process status, and the inputs that stand still.

    Lag in seconds is the age of the last record that was read. It grows while records wait and nothing can be read.
    """

    def __init__(self, status: ProcessStatus, clock: Clock) -> None:
        self._status, self._clock = status, clock
        self._fresh_seconds: dict[Input, float] = {}
        """Monotonic time when the last record read was written, or when the input was last seen at its end."""
        self._moved: dict[Input, tuple[int, float]] = {}
        """The next offset of each input, and the monotonic time when it was first seen there with records to read."""

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
                self._note_position(task, origin, ends[origin], now)
                if not lag:
                    self._fresh_seconds[origin] = now
                if origin in self._fresh_seconds:
                    status.lag_seconds[origin] = now - self._fresh_seconds[origin]
        by_input: tuple[dict[Input, Any], ...] = (
            status.lag_records,
            status.lag_seconds,
            status.standstills,
            self._fresh_seconds,
            self._moved,
        )
        for lags in by_input:
            for origin in [origin for origin in lags if origin.partition not in claimed]:
                del lags[origin]

    def _note_position(self, task: OwnedTask, origin: Input, end: int, now: float) -> None:
        """Note how far an input is committed. An input that waits for the other topics of its task does not stand still."""
        offset = task.commits.offsets.get(origin, 0)
        before, since = self._moved.get(origin, (offset, now))
        waits_for_others = origin in task.activity.paused and not task.retry.is_failing
        if end <= offset or offset != before or waits_for_others:
            since = now
        self._moved[origin] = (offset, since)
        if now - since >= STANDSTILL_SECONDS:
            self._status.standstills[origin] = Standstill(offset, since, self._reason(task))
        else:
            self._status.standstills.pop(origin, None)

    def _reason(self, task: OwnedTask) -> str:
        status = self._status
        troubles = {"store": status.store_trouble, "source": status.source_trouble}
        trouble = troubles.get(task.retry.waits_for) or status.source_trouble or status.reader_trouble
        return trouble.message if trouble is not None else UNKNOWN_REASON
