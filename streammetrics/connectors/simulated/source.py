"""Simulated traffic as a `Source`: each record is returned when the wall clock reaches its time. Used by `demo`."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from zlib import crc32

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.connectors.source import Input, InputRecord, PollResult, SourceHealth

RECORDS_MAX = 5_000
WAIT_SECONDS_MAX = 0.05


def time_lapse(traffic: Iterable[SimulatedRecord], start_ms: int, factor: int) -> Iterator[SimulatedRecord]:
    """Return the traffic `factor` times as fast: the distance of each event time from `start_ms` is divided. Malformed times stay.

    >>> sent = SimulatedRecord("feedback", b"u1", 61_000, b'{"ts":61000,"item_id":"61000"}')
    >>> next(time_lapse([sent], start_ms=1_000, factor=10))
    SimulatedRecord(topic='feedback', key=b'u1', ts=7000, value=b'{"ts":7000,"item_id":"61000"}')
    """
    for sent in traffic:
        ts = start_ms + (sent.ts - start_ms) // factor
        yield sent._replace(ts=ts, value=sent.value.replace(b'"ts":%d,' % sent.ts, b'"ts":%d,' % ts, 1))


class SimulatedSource:
    """The `Source` of a demo. Users are spread over `tasks`. No record is read twice.

    Records dated before now come at once, so that traffic that begins in the past fills the windows first.
    """

    def __init__(self, traffic: Iterator[SimulatedRecord], topics: tuple[str, ...], tasks: int, clock: Clock) -> None:
        self._traffic, self._topics, self._tasks, self._clock = traffic, topics, tasks, clock
        self._next: SimulatedRecord | None = next(traffic, None)
        self._ends: dict[Input, int] = {Input(topic, task): 0 for topic in topics for task in range(tasks)}
        self._started: set[int] = set()
        self._announced = False

    @property
    def health(self) -> SourceHealth:
        """Always reachable."""
        return SourceHealth()

    def poll(self, timeout_s: float, collect_s: float = 0.0) -> PollResult:
        if not self._announced:
            self._announced = True
            return PollResult(assigned=frozenset(range(self._tasks)))
        records: dict[Input, list[InputRecord]] = {}
        now_ms = self._clock.wall_ms()
        taken = 0
        while len(self._started) == self._tasks and self._next is not None and self._next.ts <= now_ms and taken < RECORDS_MAX:
            topic, key, _, value = self._next
            origin = Input(topic, crc32(key) % self._tasks)
            records.setdefault(origin, []).append(InputRecord(self._ends[origin], now_ms, value))
            self._ends[origin] += 1
            self._next = next(self._traffic, None)
            taken += 1
        if not taken:
            time.sleep(min(timeout_s, WAIT_SECONDS_MAX))
        return PollResult(records=records)

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(Input(topic, task) for topic in self._topics)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        self._started.add(task)
        return {origin: offsets.get(origin, 0) for origin in self.inputs_of(task)}

    def pause(self, inputs: Collection[Input]) -> None:
        """Do nothing: a demo's store does not fail."""

    def resume(self, inputs: Collection[Input]) -> None:
        """Do nothing, as in `pause`."""

    def ends(self) -> Mapping[Input, int]:
        return self._ends

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        """Do nothing: no tool reads the lag of a demo."""

    def close(self) -> None:
        """Do nothing: nothing was opened."""
