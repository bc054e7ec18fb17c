"""Decode the records of a batch of format 2 (Kafka 0.11 and later) from its bytes. Keys and headers are skipped unless they are wanted.

Works around: the client decodes each record field by field. `fast_fetch` installs this decoder in its place.
Without it: results are the same, and reading is slower.
Private names: `_maybe_uncompress`, `_buffer`, `_pos`.
Delete it when: `tests/connectors/kafka/patches/test_fast_fetch.py::TestStillNeeded` fails, together with `fast_fetch`.

A record consists of length, attributes (one byte), timestamp delta, offset delta, key length, key, value length, value and headers.
All numbers except the attributes are zig-zag varints.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
from kafka.errors import CorruptRecordError
from numpy.typing import NDArray

from streammetrics.connectors.source import InputRecord
from streammetrics.events.record import SentValue

BYTES_MAX: Final = 10
"""Bytes of a 64-bit integer."""


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """Decode the integer at index `start`. Returns it and the index after it.

    Raises IndexError for truncated bytes, ValueError for more than ten bytes.

    >>> read_varint(bytes([0x03]), 0), read_varint(bytes([0xAC, 0x02]), 0)
    ((-2, 1), (150, 2))
    """
    shift = raw = 0
    for position in range(start, start + BYTES_MAX):
        byte = data[position]
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position + 1
        shift += 7
    raise ValueError(f"a variable-length number has more than {BYTES_MAX} bytes")


def read_varints_at(data: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode the 64-bit integers at many indices. Returns them and the indices after them.

    Raises IndexError for truncated bytes, ValueError for more than ten bytes.

    >>> read_varints_at(np.frombuffer(bytes([0x03, 0xAC, 0x02]), np.uint8), np.array([0, 1]))
    (array([ -2, 150]), array([1, 3]))
    """
    byte = data[at].astype(np.uint64)
    raw, goes_on, at, shift = byte & 0x7F, byte > 0x7F, at + 1, 7
    while goes_on.any():
        if shift > 63:
            raise ValueError(f"a variable-length number has more than {BYTES_MAX} bytes")
        byte = np.where(goes_on, data[np.where(goes_on, at, 0)], 0).astype(np.uint64)
        raw |= (byte & 0x7F) << np.uint64(shift)
        at = at + goes_on
        goes_on, shift = byte > 0x7F, shift + 7
    return (raw >> 1).astype(np.int64) ^ -(raw & 1).astype(np.int64), at


LOG_APPEND_TIME = 1
COLUMNS_FROM = 128
"""From this number of records on, reading one field of all records at a time is faster than reading record by record."""


def records_of(batch: Any, whole: bool = False) -> Iterable[InputRecord]:
    """Return the records of a batch. Raises CorruptRecordError at a broken record, after the records before it."""
    if batch.records_count >= COLUMNS_FROM:
        with contextlib.suppress(IndexError, ValueError, CorruptRecordError):  # `walk` finds the broken record and raises
            return columns(batch, whole)
    return walk(batch, whole)


def whole_value(value: bytes, data: bytes, position: int, key: bytes | None, stamp: int) -> SentValue:
    """Return a value with its record's key, timestamp and headers, which begin at a position. Raises IndexError or ValueError.

    The number of headers precedes them. Each has the length of its name, the name, the length of its value (-1: null), and the value.
    """
    count, position = read_varint(data, position)
    if count == 0:
        return SentValue.of(value, key=key, timestamp_ms=stamp)
    headers: dict[str, bytes | None] = {}
    for _ in range(count):
        size, position = read_varint(data, position)
        name = data[position : position + size].decode("utf-8", "replace")
        length, position = read_varint(data, position + size)
        headers[name] = None if length < 0 else data[position : position + length]
        position += max(0, length)
    return SentValue.of(value, headers, key=key, timestamp_ms=stamp)


def columns(batch: Any, whole: bool = False) -> list[InputRecord]:
    """Decode one field of all records at a time. Raises IndexError, ValueError or CorruptRecordError for a broken batch."""
    batch._maybe_uncompress()
    data = bytes(batch._buffer)
    starts, ends = _bounds(data, batch._pos, batch.records_count)
    held = np.frombuffer(data, np.uint8)
    delta_ms, at = read_varints_at(held, starts + 1)
    deltas, at = read_varints_at(held, at)
    key_sizes, keys_at = read_varints_at(held, at)
    sizes, at = read_varints_at(held, keys_at + np.clip(key_sizes, 0, len(data)))
    last = at + np.clip(sizes, 0, len(data))
    if (last >= ends).any():
        raise ValueError("a record is longer than its length field")
    of_broker = batch.timestamp_type == LOG_APPEND_TIME
    stamps = [batch.max_timestamp] * len(starts) if of_broker else (batch.first_timestamp + delta_ms).tolist()
    values: list[bytes | None] = [data[first:end] for first, end in zip(at.tolist(), last.tolist(), strict=True)]
    for index in np.flatnonzero(sizes < 0).tolist():
        values[index] = None
    if whole:
        places = zip(keys_at.tolist(), key_sizes.tolist(), strict=True)
        keys = [data[first : first + size] if size >= 0 else None for first, size in places]
        rest = zip(values, last.tolist(), keys, stamps, strict=True)
        values = [whole_value(value or b"", data, end, key, stamp) for value, end, key, stamp in rest]
    make = tuple.__new__  # `InputRecord(…)` ends in this call
    return [make(InputRecord, fields) for fields in zip((batch.base_offset + deltas).tolist(), stamps, values, strict=True)]


def _bounds(data: bytes, position: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each record begins (after its length) and ends. Raises unless the last one ends with the data."""
    if position + count > len(data):
        raise ValueError("more records than bytes")
    starts, ends = [], []
    for _ in range(count):  # inline, as in `walk`: a call per number doubles the time
        raw, more = data[position], data[position + 1]
        if raw > 0x7F >= more:
            raw = raw & 0x7F | more << 7
            size, position = (raw >> 1) ^ -(raw & 1), position + 2
        else:
            size, position = read_varint(data, position)
        starts.append(position)
        position += size
        ends.append(position)
    if position != len(data):
        raise ValueError("the records do not end where the batch ends")
    return np.array(starts), np.array(ends)


def walk(batch: Any, whole: bool = False) -> Iterator[InputRecord]:  # noqa: PLR0912, PLR0915  (a call per number doubles the time)
    """Decode record by record. Each number is first tried with its usual length in bytes. Raises CorruptRecordError."""
    batch._maybe_uncompress()
    data, position, count = bytes(batch._buffer), batch._pos, batch.records_count
    base_offset, first_ms = batch.base_offset, batch.first_timestamp
    fixed_ms = batch.max_timestamp if batch.timestamp_type == LOG_APPEND_TIME else None
    if position + count > len(data):
        raise CorruptRecordError(f"the batch at offset {base_offset} claims {count} records in {len(data) - position} bytes")
    make = tuple.__new__  # `InputRecord(…)` ends in this call
    try:
        for _ in range(count):
            raw, more = data[position], data[position + 1]
            if raw > 0x7F >= more:
                raw = raw & 0x7F | more << 7
                length, position = (raw >> 1) ^ -(raw & 1), position + 2
            else:
                length, position = read_varint(data, position)
            end = position + length
            raw = data[position + 1]
            if raw < 0x80:
                delta_ms, position = (raw >> 1) ^ -(raw & 1), position + 2
            elif (more := data[position + 2]) < 0x80:
                raw = raw & 0x7F | more << 7
                delta_ms, position = (raw >> 1) ^ -(raw & 1), position + 3
            else:
                delta_ms, position = read_varint(data, position + 1)
            raw = data[position]
            if raw < 0x80:
                delta, position = (raw >> 1) ^ -(raw & 1), position + 1
            else:
                delta, position = read_varint(data, position)
            raw = data[position]
            if raw < 0x80:
                size, position = (raw >> 1) ^ -(raw & 1), position + 1
            else:
                size, position = read_varint(data, position)
            key_at, key_size = position, size
            if size > 0:
                position += size
            raw, more = data[position], data[position + 1]
            if raw > 0x7F >= more:
                raw = raw & 0x7F | more << 7
                size, position = (raw >> 1) ^ -(raw & 1), position + 2
            else:
                size, position = read_varint(data, position)
            if size < 0:
                value = None
            else:
                value = data[position : position + size]
                position += size
            if position >= end:  # the header count must still follow
                raise CorruptRecordError(f"a record in the batch at offset {base_offset} is longer than its length field")
            stamp = first_ms + delta_ms if fixed_ms is None else fixed_ms
            if whole:
                key = data[key_at : key_at + key_size] if key_size >= 0 else None
                value = whole_value(value or b"", data, position, key, stamp)
            position = end
            yield make(InputRecord, (base_offset + delta, stamp, value))
    except ValueError as error:
        raise CorruptRecordError(str(error)) from error
    except IndexError as error:
        raise CorruptRecordError(f"the batch at offset {base_offset} ends inside a record") from error
    if position != len(data):
        raise CorruptRecordError(f"{len(data) - position} bytes follow the last record of the batch at offset {base_offset}")
