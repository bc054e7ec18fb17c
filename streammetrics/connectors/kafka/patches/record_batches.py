"""The records in a batch of format 2, as its bytes lay them out; keys and headers are passed over. Nothing here talks to a broker.

Layout of a record: length, attributes (one byte), timestamp delta, offset delta, key length, key, value length, value, headers; every
number but the attributes is a zig-zag varint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from kafka.errors import CorruptRecordError
from numpy.typing import NDArray

from streammetrics.connectors.base import Record

LOG_APPEND_TIME = 1
COLUMNS_FROM = 128
"""In a batch of so many records or more it is quicker to read one number of all of them, then the next."""


def records_of(batch: Any) -> Iterable[Record]:
    """The records of a batch. Where it is broken, raises CorruptRecordError after those that come before."""
    if batch.records_count >= COLUMNS_FROM:
        with contextlib.suppress(IndexError, ValueError, CorruptRecordError):  # something is broken, and the walk tells what
            return columns(batch)
    return walk(batch)


def columns(batch: Any) -> list[Record]:
    """All records at once, number by number. Raises IndexError, ValueError or CorruptRecordError where `walk` comes to an error."""
    batch._maybe_uncompress()
    data = bytes(batch._buffer)
    starts, ends = _places(data, batch._pos, batch.records_count)
    held = np.frombuffer(data, np.uint8)
    delta_ms, at = varints(held, starts + 1)
    deltas, at = varints(held, at)
    key_sizes, at = varints(held, at)
    sizes, at = varints(held, at + np.clip(key_sizes, 0, len(data)))
    last = at + np.clip(sizes, 0, len(data))
    if (last >= ends).any():
        raise ValueError("a record is longer than it says")
    of_broker = batch.timestamp_type == LOG_APPEND_TIME
    stamps = [batch.max_timestamp] * len(starts) if of_broker else (batch.first_timestamp + delta_ms).tolist()
    values: list[bytes | None] = [data[first:end] for first, end in zip(at.tolist(), last.tolist(), strict=True)]
    for index in np.flatnonzero(sizes < 0).tolist():
        values[index] = None
    make = tuple.__new__  # what Record(…) calls in the end
    return [make(Record, fields) for fields in zip((batch.base_offset + deltas).tolist(), stamps, values, strict=True)]


def _places(data: bytes, position: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each of so many records begins after its length, and where it ends: the last one where the bytes do."""
    if position + count > len(data):
        raise ValueError("more records than bytes")
    starts, ends = [], []
    for _ in range(count):  # as `walk` reads lengths, for the same reason
        raw, more = data[position], data[position + 1]
        if raw > 0x7F >= more:
            raw = raw & 0x7F | more << 7
            size, position = (raw >> 1) ^ -(raw & 1), position + 2
        else:
            size, position = varint(data, position)
        starts.append(position)
        position += size
        ends.append(position)
    if position != len(data):
        raise ValueError("bytes are left over, or too few")
    return np.array(starts), np.array(ends)


def varints(held: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Zig-zag varints at many positions, and the positions after them, as `varint` tells of one.

    >>> varints(np.frombuffer(bytes([0x03, 0xAC, 0x02]), np.uint8), np.array([0, 1]))
    (array([ -2, 150]), array([1, 3]))
    """
    byte = held[at].astype(np.uint64)
    raw, goes_on, at, shift = byte & 0x7F, byte > 0x7F, at + 1, 7
    while goes_on.any():
        if shift > 63:
            raise ValueError("a variable-length number has more than ten bytes")
        byte = np.where(goes_on, held[np.where(goes_on, at, 0)], 0).astype(np.uint64)
        raw |= (byte & 0x7F) << np.uint64(shift)
        at = at + goes_on
        goes_on, shift = byte > 0x7F, shift + 7
    return (raw >> 1).astype(np.int64) ^ -(raw & 1).astype(np.int64), at


def varint(data: bytes, position: int) -> tuple[int, int]:
    """One zig-zag varint at `position`, and the position after it. Raises IndexError where the bytes end too soon.

    >>> varint(bytes([0x03]), 0), varint(bytes([0xAC, 0x02]), 0)
    ((-2, 1), (150, 2))
    """
    shift = raw = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
        if shift > 63:
            raise CorruptRecordError("a variable-length number has more than ten bytes")


def walk(batch: Any) -> Iterator[Record]:  # noqa: PLR0912, PLR0915  (a call a number would double its time)
    """One record after the other. Each number is first tried as of as many bytes as it usually has. Raises CorruptRecordError."""
    batch._maybe_uncompress()
    data, position, count = bytes(batch._buffer), batch._pos, batch.records_count
    base_offset, first_ms = batch.base_offset, batch.first_timestamp
    fixed_ms = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    if position + count > len(data):
        raise CorruptRecordError(f"a batch at offset {base_offset} says it holds {count} records in {len(data) - position} bytes")
    make = tuple.__new__  # what Record(…) calls in the end
    try:
        for _ in range(count):
            raw, more = data[position], data[position + 1]
            if raw > 0x7F >= more:
                raw = raw & 0x7F | more << 7
                length, position = (raw >> 1) ^ -(raw & 1), position + 2
            else:
                length, position = varint(data, position)
            end = position + length
            raw = data[position + 1]
            if raw < 0x80:
                delta_ms, position = (raw >> 1) ^ -(raw & 1), position + 2
            elif (more := data[position + 2]) < 0x80:
                raw = raw & 0x7F | more << 7
                delta_ms, position = (raw >> 1) ^ -(raw & 1), position + 3
            else:
                delta_ms, position = varint(data, position + 1)
            raw = data[position]
            if raw < 0x80:
                delta, position = (raw >> 1) ^ -(raw & 1), position + 1
            else:
                delta, position = varint(data, position)
            raw = data[position]
            if raw < 0x80:
                size, position = (raw >> 1) ^ -(raw & 1), position + 1
            else:
                size, position = varint(data, position)
            if size > 0:
                position += size
            raw, more = data[position], data[position + 1]
            if raw > 0x7F >= more:
                raw = raw & 0x7F | more << 7
                size, position = (raw >> 1) ^ -(raw & 1), position + 2
            else:
                size, position = varint(data, position)
            if size < 0:
                value = None
            else:
                value = data[position : position + size]
                position += size
            if position >= end:  # at least the count of headers comes after the value
                raise CorruptRecordError(f"a record of the batch at offset {base_offset} is longer than it says")
            position = end
            yield make(Record, (base_offset + delta, first_ms + delta_ms if fixed_ms is None else fixed_ms, value))
    except IndexError as error:
        raise CorruptRecordError(f"the batch at offset {base_offset} ends within a record") from error
    if position != len(data):
        raise CorruptRecordError(f"{len(data) - position} bytes are left over after the batch at offset {base_offset}")
