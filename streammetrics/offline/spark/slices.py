"""Cuts the records of one block of an input into slices: for each shard its own events, and what moves the time of the input. Pure.

A record is decoded once, here. A shard needs to know the time of the whole input before each of its own events. While no event is ahead of
the supported time, that time is the newest one so far. So a shard gets the last newest event before each of its own, and no other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple
from zlib import crc32

import msgspec

from streammetrics.connectors.source import InputRecord
from streammetrics.engine.rules import EngineRules
from streammetrics.errors import MalformedEvent
from streammetrics.events import Decoder, Impression
from streammetrics.events.event_time import NEVER
from streammetrics.offline.spark.slice_rows import Mover, SliceRows


class SliceTimes(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All events of a slice that may move the time of their input, column by column. Only a few slices need them."""

    numbers: list[int]
    offsets: list[int]
    users: list[str]
    times: list[int]


class SliceSummary(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the time of an input depends on in most slices. Offsets begin at 0 in each block.

    `newest` is the first event with the greatest time. No event is ahead if the supported time was at least `quiet_from` (ms) before.
    `lines` is how many lines of the block were read, and `last` is the offset of the last record; -1: there is none.
    """

    newest: tuple[int, int, str, int] | None
    quiet_from: int
    lines: int
    last: int
    has_experiments: bool


encode = msgspec.msgpack.Encoder().encode
decode_times = msgspec.msgpack.Decoder(SliceTimes).decode
decode_summary = msgspec.msgpack.Decoder(SliceSummary).decode


class Slice(NamedTuple):
    summary: SliceSummary
    times: SliceTimes
    shards: dict[int, bytes]
    """The rows of each shard that has any."""


class Cutter:
    """Cuts slices of `size` records for `shards` shards. `rules` are the engine's. With `has_lines`, blank records are left out."""

    def __init__(self, rules: EngineRules, *, shards: int, size: int, has_lines: bool) -> None:
        self._shards, self._size, self._has_lines = shards, size, has_lines
        self._jump_ms, self._future_ms = rules.jump_ms, rules.future_ms

    def slices(self, records: Iterable[InputRecord], decode: Decoder) -> Iterator[Slice]:
        """Yield the slices of a block, at least one. `records` are all of its lines, blank ones too."""
        lines, remaining = 0, iter(records)
        while True:
            part = list(islice(remaining, self._size))
            lines += len(part)
            kept = [record for record in part if record.value and not record.value.isspace()] if self._has_lines else part
            yield self._slice(kept, lines, decode)
            if len(part) < self._size:
                return

    def _slice(self, records: list[InputRecord], lines: int, decode: Decoder) -> Slice:
        shards, future_ms = self._shards, self._future_ms
        rows: dict[int, SliceRows] = defaultdict(SliceRows)
        movers = Movers(self._jump_ms, shards)
        times = SliceTimes([], [], [], [])
        has_experiments, number = False, 0
        for offset, stamp, value in records:
            for event in decode(value):
                number += 1
                if type(event) is MalformedEvent:
                    rows[0].add_malformed(number, offset, event)  # the first shard counts them, as the first process of a replay
                    continue
                user, ts = event.user_id, event.ts
                shard = crc32(user.encode()) % shards
                shard_rows = rows[shard]
                if future_ms is None or not 0 <= stamp < ts - future_ms:
                    times.numbers.append(number)
                    times.offsets.append(offset)
                    times.users.append(user)
                    times.times.append(ts)
                    if movers.newest_ms > movers.known[shard]:
                        shard_rows.rows += movers.catch_up(shard)
                    if ts > movers.newest_ms:
                        movers.add(Mover(number, offset, user, ts), shard)
                shard_rows.add(number, offset, stamp, event)
                if not has_experiments and type(event) is Impression and event.experiments:
                    has_experiments = True
        last = records[-1].offset if records else -1
        summary = SliceSummary(movers.newest, movers.quiet_from, lines, last, has_experiments)
        return Slice(summary, times, {shard: shard_rows.encoded() for shard, shard_rows in rows.items()})


class Movers:
    """The newest events of a slice, and how much of them each shard knows.

    `known` is the time that each shard knows. A shard may be far behind. So that none of its steps is longer than `jump_ms`, `_steps` are
    newest events at most that far apart.
    """

    __slots__ = ("_jump_ms", "_steps", "known", "newest", "newest_ms", "quiet_from")

    def __init__(self, jump_ms: int, shards: int, time: int = NEVER) -> None:
        self._jump_ms = jump_ms
        self._steps: list[Mover] = []
        self.known = [time] * shards
        self.newest: Mover | None = None
        self.newest_ms = time
        self.quiet_from = NEVER

    def add(self, event: Mover, shard: int | None = None) -> None:
        """Add an event that is newer than all before. `shard` is the shard that knows it."""
        ts, steps = event.ts, self._steps
        if ts > self.newest_ms + self._jump_ms:
            self.quiet_from = ts - self._jump_ms
        if not steps:
            steps.append(event)
        elif ts > steps[-1].ts + self._jump_ms // 2:
            assert self.newest is not None
            if self.newest.ts > steps[-1].ts:
                steps.append(self.newest)
            steps.append(event)
        self.newest, self.newest_ms = event, ts
        if shard is not None:
            self.known[shard] = ts

    def catch_up(self, shard: int) -> list[Mover]:
        """Return the events from which a shard learns the newest time."""
        newest_before, newest = self.known[shard], self.newest
        self.known[shard] = self.newest_ms
        assert newest is not None
        if newest.ts - newest_before <= self._jump_ms:
            return [newest]
        steps = [step for step in self._steps if step.ts > newest_before]
        return steps if steps and steps[-1] is newest else [*steps, newest]
