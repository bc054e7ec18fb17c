"""What runs in Spark's Python processes: functions from batches of Arrow to batches of Arrow, one for each of the three passes.

Objects of these classes are pickled, so they hold plain values only.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from streammetrics.config import Settings
from streammetrics.connectors.file_formats.parquet import without_null_labels
from streammetrics.connectors.source import InputRecord
from streammetrics.events.record import SentValue
from streammetrics.offline.spark.input_times import InputEnd, InputTimes, SliceStart
from streammetrics.offline.spark.reading import InputNames
from streammetrics.offline.spark.shard import Shard, ShardSlice
from streammetrics.offline.spark.slices import Cutter, decode_summary, encode
from streammetrics.windows.pane_tallies import FinalPane
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_engine
from streammetrics.wiring.gc_tuning import rare_garbage_collection
from streammetrics.wiring.logs import configure_quiet_logs

_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


def rows_as_json(arrow: Any, names: Sequence[str], columns: Sequence[Any]) -> Iterator[bytes]:
    """Yield the rows of some columns of Arrow as events in JSON. `arrow` is the module pyarrow."""
    values = [_values(arrow, name, column) for name, column in zip(names, columns, strict=True)]
    for cells in zip(*values, strict=True):
        yield _encode(without_null_labels(dict(zip(names, cells, strict=True))))


def _values(arrow: Any, name: str, column: Any) -> list[Any]:
    """Return the values of a column. Times become epoch milliseconds, whole numbers in a column of floats become integers."""
    kind = column.type
    if arrow.types.is_timestamp(kind):
        column = column.cast(arrow.timestamp("ms", kind.tz), safe=False).cast(arrow.int64())
    values: list[Any] = column.to_pylist(maps_as_pydicts="lossy")
    if name == "ts" and arrow.types.is_floating(kind):
        return [int(value) if value is not None and value.is_integer() else value for value in values]
    return values


Batches: TypeAlias = Iterable[Any]
"""Batches of pyarrow, `pyarrow.RecordBatch`."""

CUT = "input int, block long, slice int, shard int, payload binary, times binary"
TIMED = "input int, block long, slice int, shard int, payload binary"
RESULT = "kind int, key long, shard int, payload binary"
SHARD_COLUMNS = ("shard", "rank", "is_own", "input", "start", "until_ms", "payload")
SUMMARY, END = -1, -2
"""What stands in the place of a shard in rows that are for the driver."""
SNAPSHOT, PANE, VIEW = 0, 1, 2
"""The kinds of results. Their keys are the number of the snapshot, the start of the pane (ms), and 0."""


def batch_of(schema: str, rows: Sequence[Sequence[Any]]) -> Any:
    """Return rows as a batch of Arrow. `schema` is that of Spark."""
    arrow = import_module("pyarrow")
    types = {"int": arrow.int32(), "long": arrow.int64(), "binary": arrow.binary(), "boolean": arrow.bool_(), "string": arrow.string()}
    fields = [field.split() for field in schema.split(", ")]
    columns = zip(*rows, strict=True) if rows else [()] * len(fields)
    arrays = [arrow.array(column, types[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])


def rows_of(batches: Batches) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of batches as plain values."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


@dataclass(frozen=True)
class CutRecords:
    """Pass 1: decode the records of each block once, and cut them into slices.

    The columns are the input's name, its block, and: in lines, the value; in tables, the fields of an event; in records, the offset, the
    timestamp (ms), the value, the key and the headers.
    """

    settings: Settings
    names: InputNames
    shards: int
    size: int

    def __call__(self, batches: Batches) -> Iterator[Any]:
        with rare_garbage_collection():
            yield from self._cut(batches)

    def _cut(self, batches: Batches) -> Iterator[Any]:
        cutter = Cutter(
            build_engine(self.settings, self.names.inputs).rules, shards=self.shards, size=self.size, has_lines=self.names.kind != "records"
        )
        decoders: dict[int, Any] = {}
        for (name, block), rows in groupby(self._records(batches), key=lambda row: (row[0], row[1])):
            index = self.names.index(name)
            if index not in decoders:
                decoders[index] = build_decoder(self.settings, self.names.topics[index])
            for number, part in enumerate(cutter.slices(self._numbered(rows), decoders[index])):
                place = (index, block, number)
                content = [(*place, shard, payload, None) for shard, payload in part.shards.items()]
                yield batch_of(CUT, [*content, (*place, SUMMARY, encode(part.summary), encode(part.times))])

    def _records(self, batches: Batches) -> Iterator[tuple[Any, ...]]:
        """Yield (name, block, value) of lines and rows of tables, (name, block, offset, stamp, value, key, headers) of records."""
        if self.names.kind != "tables":
            yield from rows_of(batches)
            return
        arrow = import_module("pyarrow")
        for batch in batches:
            names, columns = batch.schema.names, batch.columns
            values = rows_as_json(arrow, names[2:], columns[2:])
            yield from zip(columns[0].to_pylist(), columns[1].to_pylist(), values, strict=True)

    def _numbered(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[InputRecord]:
        if self.names.kind == "records":
            for _, _, offset, stamp, value, key, headers in rows:
                named = {header["key"]: header["value"] for header in headers or ()}
                yield InputRecord(offset, stamp, SentValue.of(value or b"", named, key=key, timestamp_ms=stamp))
        else:
            for number, (_, _, value) in enumerate(rows):
                yield InputRecord(number, -1, value[:-1] if value.endswith(b"\r") else value)


@dataclass(frozen=True)
class FollowTimes:
    """Pass 2: the time of each input before each of its slices. The rows of an input are in order."""

    settings: Settings
    names: InputNames
    shards: int

    def __call__(self, batches: Batches) -> Iterator[Any]:
        rules = build_engine(self.settings, self.names.inputs).rules
        for index, rows in groupby(rows_of(batches), key=lambda row: row[0]):
            times, last = InputTimes(rules, self.shards, self.names.first_offset), None
            for _, block, number, summary, events in rows:
                if last is not None and block != last:
                    times.next_block()
                last = block
                start, movers = times.add(decode_summary(summary), events)
                place = (index, block, number)
                content = [(*place, shard, payload) for shard, payload in movers.items()]
                yield batch_of(TIMED, [(*place, SUMMARY, pickle.dumps(start)), *content])
            yield batch_of(TIMED, [(index, 0, 0, END, pickle.dumps(times.end()))])


@dataclass(frozen=True)
class RunShard:
    """Pass 3: the engine over one shard. The columns are those of `SHARD_COLUMNS`; the slices are in the order of their ranks.

    Snapshots are taken from `began_ms` on (see `Shard`). `ended_ms` is the watermark at the end.
    """

    settings: Settings
    names: InputNames
    ends: tuple[InputEnd, ...]
    began_ms: int | None
    ended_ms: int
    panes: bool

    def __call__(self, batches: Batches) -> Iterator[Any]:
        configure_quiet_logs("error", self.settings.log.format)
        with rare_garbage_collection():
            for shard, rows in groupby(rows_of(batches), key=lambda row: row[0]):
                yield from self._run(shard, rows)

    def _run(self, shard: int, rows: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
        panes: list[FinalPane] = []
        engine = build_engine(self.settings, self.names.inputs, waits=False)
        one = Shard(engine, self.ends, self.began_ms, panes.extend if self.panes else lambda _: None)
        number, movers = 0, {}
        for _, rank, is_own, topic, start, until_ms, payload in rows:
            if not is_own:
                movers = {rank: payload}
                continue
            state: SliceStart = pickle.loads(start)
            for snapshot in one.process(ShardSlice(topic, state, until_ms, payload, movers.get(rank))):
                yield batch_of(RESULT, [(SNAPSHOT, number, shard, pickle.dumps(snapshot))])
                number += 1
            if panes:
                yield self._pane_batch(shard, panes)
        for snapshot in one.finish(self.ended_ms):
            yield batch_of(RESULT, [(SNAPSHOT, number, shard, pickle.dumps(snapshot))])
            number += 1
        if panes:
            yield self._pane_batch(shard, panes)
        yield batch_of(RESULT, [(VIEW, 0, shard, pickle.dumps(one.view))])

    def _pane_batch(self, shard: int, panes: list[FinalPane]) -> Any:
        rows = [(PANE, start_ms, shard, pickle.dumps(pane)) for start_ms, pane in panes]
        panes.clear()
        return batch_of(RESULT, rows)

    def empty(self) -> Iterator[Any]:
        """Yield the results of a shard without users, for inputs without events."""
        yield from self._run(0, [])
