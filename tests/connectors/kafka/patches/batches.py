"""Batches of records of every shape and codec, for the tests of `record_batches` and `fast_fetch`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from kafka import codec as codecs
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from streammetrics.connectors.source import InputRecord

PLACE = TopicPartition("events", 0)
CODECS = [0, 1] + [number for number, has in ((2, codecs.has_snappy), (3, codecs.has_lz4), (4, codecs.has_zstd)) if has()]
"""None, gzip, and those of snappy, lz4 and zstd whose libraries are installed."""
RecordFields = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Timestamp, key, value, headers."""

record_lists = st.lists(
    st.tuples(
        st.integers(0, 2**42),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=9_000),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def batch_of(records: Sequence[RecordFields], codec: int = 0, first: int = 0, skipped: int = 0) -> bytes:
    """Build a batch from offset `first` on, with `skipped` unused offsets after each record."""
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 22, offset=first)
    for stamp, key, value, headers in records:
        assert builder.append(timestamp=stamp, key=key, value=value, headers=headers) is not None
        builder.skip(skipped)
    builder.close()
    return bytes(builder.records()._buffer)


def read_all(reader: type, data: bytes, first: int, at_once: int) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return the records that a reader yields, and its next fetch offset after every take."""
    part = reader(first, PLACE, MemoryRecords(data))
    records: list[tuple[Any, ...]] = []
    next_offsets = []
    while part:
        for record in part.take(at_once):
            stamp = record.timestamp_ms if isinstance(record, InputRecord) else record.timestamp
            records.append((record.offset, stamp, record.value))
        next_offsets.append(part.next_fetch_offset)
    return records, next_offsets
