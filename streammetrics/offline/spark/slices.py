"""Cuts the records of one block of an input into slices: for each shard its own events, and what moves the time of the input. Pure.

A record is decoded once, here. A shard needs to know the time of the whole input before each of its own events. While no event is ahead of
the supported time, that time is the newest one so far. So a shard gets the last newest event before each of its own, and no other.

A slice sends rows of plain values to a shard, as MessagePack, and the label sets of lists once for all rows. A row is one event of the
shard's own users, one that cannot be used, or an event of another shard that moves the time of the input.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple
from zlib import crc32

import msgspec

from streammetrics.connectors.source import InputRecord
from streammetrics.engine.batch import DecodedRecord
from streammetrics.engine.rules import EngineRules
from streammetrics.errors import MalformedEvent
from streammetrics.events import Decoder
from streammetrics.events.event_time import NEVER
from streammetrics.events.model import Elsewhere, Event, Feedback, Impression, Labels

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[list[tuple[Any, Any]], list[list[Any]]]).decode
_ELSEWHERE, _MALFORMED, _FEEDBACK = 4, 5, 9
"""The lengths of rows, which say what they are. All others are lists."""


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
                    if movers.newest_ms > movers.shard_times[shard]:
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

    `shard_times` is the time that each shard knows. A shard may be far behind. So that none of its steps is longer than `jump_ms`,
    `_steps` are newest events at most that far apart.
    """

    __slots__ = ("_jump_ms", "_steps", "newest", "newest_ms", "quiet_from", "shard_times")

    def __init__(self, jump_ms: int, shards: int, time: int = NEVER) -> None:
        self._jump_ms = jump_ms
        self._steps: list[Mover] = []
        self.shard_times = [time] * shards
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
            self.shard_times[shard] = ts

    def catch_up(self, shard: int) -> list[Mover]:
        """Return the events from which a shard learns the newest time."""
        newest_before, newest = self.shard_times[shard], self.newest
        self.shard_times[shard] = self.newest_ms
        assert newest is not None
        if newest.ts - newest_before <= self._jump_ms:
            return [newest]
        steps = [step for step in self._steps if step.ts > newest_before]
        return steps if steps and steps[-1] is newest else [*steps, newest]


class Mover(NamedTuple):
    """An event that may move the time of its input: its number in the slice, its offset, user and time (ms)."""

    number: int
    offset: int
    user: str
    ts: int


class SliceRows:
    """Collects the rows of one slice for one shard."""

    __slots__ = ("_labels", "_sets", "rows")

    def __init__(self) -> None:
        self.rows: list[Sequence[Any]] = []
        self._labels: dict[tuple[Labels, Labels], int] = {}

    def add(self, number: int, offset: int, stamp: int, event: Event) -> None:
        if type(event) is Feedback:
            row = (number, offset, stamp, event.user_id, event.ts, event.item_id, event.action, event.value, event.impression_id)
            self.rows.append(row)
            return
        assert type(event) is Impression
        key, labels = (event.experiments, event.segments), self._labels
        label = labels.get(key)
        if label is None:
            label = labels[key] = len(labels)
        rest = (event.positions, event.teams, event.label_notes)
        self.rows.append((number, offset, stamp, label, event.impression_id, event.user_id, event.ts, event.items, *rest))

    def add_malformed(self, number: int, offset: int, event: MalformedEvent) -> None:
        """Add a record that cannot be used. Its details are for dead letters, which are not written here."""
        self.rows.append((number, offset, event.reason, event.unknown_type, None))

    def encoded(self) -> bytes:
        return _encode(([*self._labels], self.rows))


def encode_movers(movers: Iterable[Mover]) -> bytes:
    """Return rows of other shards' events only."""
    return _encode(([], [*movers]))


def decode_rows(rows: bytes, base: int, with_movers: bool = True) -> Iterator[tuple[int, DecodedRecord]]:
    """Yield each row's number and its event as a record for the engine. `base` is added to the offsets."""
    sets, content = _decode(rows)
    labels = [(_labels(experiments), _labels(segments)) for experiments, segments in sets]
    for row in content:
        size, number, offset = len(row), row[0], base + row[1]
        if size == _FEEDBACK:
            _, _, stamp, user, ts, item, action, value, impression = row
            yield number, (offset, stamp, (Feedback(user, ts, item, action, value, impression),))
        elif size == _ELSEWHERE:
            if with_movers:
                yield number, (offset, -1, (Elsewhere(row[2], row[3]),))
        elif size == _MALFORMED:
            yield number, (offset, -1, (MalformedEvent(row[2], "", row[3]),))
        else:
            _, _, stamp, label, impression, user, ts, items, positions, teams, dropped = row
            experiments, segments = labels[label]
            places = None if positions is None else tuple(positions)
            event = Impression(impression, user, ts, tuple(items), experiments, segments, places, tuple(teams), tuple(dropped))
            yield number, (offset, stamp, (event,))


def _labels(pairs: Iterable[Sequence[str]]) -> Labels:
    return tuple([(name, value) for name, value in pairs])


def merged_rows(payload: bytes, movers: bytes | None, base: int) -> list[DecodedRecord]:
    """Return a shard's own rows and the given movers (None: there are none), in the order of the slice."""
    rows = [*decode_rows(payload, base, with_movers=False)]
    if movers is not None:
        rows += decode_rows(movers, base)
        rows.sort(key=_number)
    return [decoded for _, decoded in rows]


def _number(row: tuple[int, DecodedRecord]) -> int:
    return row[0]
