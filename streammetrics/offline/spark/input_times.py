"""The time of one whole input before each of its slices, and at its end. Pure.

In most slices no event is ahead, so the summary of the slice says how it moves the time. In the others each event is taken in order, by the
rules of the engine. Every shard then gets the events that changed anything, so that it comes to the same times.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from streammetrics.engine.input_progress import TimeSetter
from streammetrics.engine.rules import EngineRules
from streammetrics.engine.supported_time import StoredSupport, SupportedTime
from streammetrics.events.event_time import NEVER
from streammetrics.offline.spark.slices import Mover, Movers, SliceSummary, SliceTimes, decode_times, encode_movers

FIRST_OFFSET = 1
"""The number of the first line of a file, as in a replay."""


class SliceStart(NamedTuple):
    """The state of an input before a slice: its supported time, and the event that set it.

    `base` is added to the offsets of the slice. `support` is the queue of events that are ahead; None: there is none, and no user is still
    counted. `has_movers` says that the slice has its own list of movers for each shard.
    """

    base: int
    time: int
    setter: TimeSetter | None
    support: StoredSupport | None
    has_movers: bool


class InputEnd(NamedTuple):
    """The state of an input at its end. `offset` is the one after its last record, `ahead` the count of events ahead that moved nothing.

    `began_ms` and `ended_ms` are the supported times at the begin and at the end; NEVER without events.
    """

    offset: int
    time: int
    setter: TimeSetter | None
    support: StoredSupport
    ahead: int
    began_ms: int
    ended_ms: int
    has_experiments: bool


class InputTimes:
    """Follows one input over its slices, which are added in order."""

    def __init__(self, rules: EngineRules, shards: int, first_offset: int = FIRST_OFFSET) -> None:
        self._supported = SupportedTime(rules.support, out_of_orderness_ms=rules.out_of_orderness_ms, lateness_ms=rules.lateness_ms)
        self._shards = shards
        self._base = self._offset = first_offset
        self._lines = 0
        self._setter: TimeSetter | None = None
        self._ahead = 0
        self._has_experiments = False

    def next_block(self) -> None:
        """The slices that follow are of the next block."""
        self._base += self._lines
        self._lines = 0

    def add(self, summary: SliceSummary, times: bytes | memoryview) -> tuple[SliceStart, dict[int, bytes]]:
        """Add a slice. Returns the state before it, and the movers for each shard if an event may be ahead."""
        supported = self._supported
        time, is_quiet, stored = supported.time, not supported.needs_every_event, supported.stored()
        start = SliceStart(self._base, time, self._setter, None if stored == StoredSupport() else stored, False)
        self._lines = summary.lines
        self._has_experiments = self._has_experiments or summary.has_experiments
        if summary.last >= 0:
            self._offset = self._base + summary.last + 1
        if summary.newest is None:
            return start, {}
        if is_quiet and time != NEVER and time >= summary.quiet_from:
            _, offset, user, ts = summary.newest
            if ts > time:
                supported.time, self._setter = ts, TimeSetter(self._base + offset, user, ts)
            return start, {}
        return start._replace(has_movers=True), self._consider_all(decode_times(times))

    def _consider_all(self, times: SliceTimes) -> dict[int, bytes]:
        """Consider each event by the rules of the engine. Returns the events that each shard needs beside its own."""
        supported, shards = self._supported, self._shards
        needed: list[list[Mover]] = [[] for _ in range(shards)]
        movers = Movers(supported.jump_ms, shards, supported.time)
        for event in map(Mover._make, zip(times.numbers, times.offsets, times.users, times.times, strict=True)):
            shard = crc32(event.user.encode()) % shards
            time, took_all = supported.time, supported.needs_every_event
            moves_only = not took_all and time != NEVER and time < event.ts <= supported.ahead_from
            supported.consider(event.user, event.ts)
            self._note_outliers()
            if supported.time > time:
                self._setter = TimeSetter(self._base + event.offset, event.user, event.ts)
            if movers.newest_ms > movers.shard_times[shard]:
                needed[shard] += movers.catch_up(shard)
            if moves_only:
                movers.add(event, shard)
            elif took_all or supported.needs_every_event or supported.time != time:
                for other in range(shards):
                    if movers.newest_ms > movers.shard_times[other]:
                        needed[other] += movers.catch_up(other)
                    if other != shard:
                        needed[other].append(event)
                movers = Movers(supported.jump_ms, shards, supported.time)
        return {shard: encode_movers(events) for shard, events in enumerate(needed) if events}

    def _note_outliers(self) -> None:
        supported = self._supported
        if supported.outliers:
            self._ahead += supported.outliers
            supported.outliers, supported.outlier = 0, None

    def end(self) -> InputEnd:
        supported = self._supported
        return InputEnd(
            self._offset,
            supported.time,
            self._setter,
            supported.stored(),
            self._ahead,
            supported.began,
            supported.at_end(),
            self._has_experiments,
        )
