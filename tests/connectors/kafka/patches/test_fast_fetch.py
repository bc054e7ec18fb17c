"""The fast way to read a batch against the client's own, over every shape of record and every codec there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka import codec as codecs
from kafka.consumer.fetcher import Fetcher
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.structs import TopicPartition

from streammetrics.connectors.base import Record
from streammetrics.connectors.kafka.patches import fast_fetch, record_batches
from streammetrics.connectors.kafka.patches.fast_fetch import FastPartitionRecords, as_record

PLACE = TopicPartition("events", 0)
CODECS = [0, 1] + [
    number for number, there in ((2, codecs.has_snappy), (3, codecs.has_lz4), (4, codecs.has_zstd)) if there()
]  # CI has the last three only where their libraries are
Row = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]

rows = st.lists(
    st.tuples(
        st.integers(0, 2**42),
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=9_000),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def batch_of(records: Sequence[Row], codec: int = 0, first: int = 0, skipped: int = 0) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 22, offset=first)
    for stamp, key, value, headers in records:
        assert builder.append(timestamp=stamp, key=key, value=value, headers=headers) is not None
        builder.skip(skipped)
    builder.close()
    return bytes(builder.records()._buffer)


def values(reader: type, data: bytes, first: int, at_once: int) -> tuple[list[tuple[Any, ...]], list[int]]:
    """What a reader yields, and where it would fetch next after every take."""
    part = reader(first, PLACE, MemoryRecords(data))
    records: list[tuple[Any, ...]] = []
    places = []
    while part:
        for record in part.take(at_once):
            stamp = record.timestamp_ms if isinstance(record, Record) else record.timestamp
            records.append((record.offset, stamp, record.value))
        places.append(part.next_fetch_offset)
    return records, places


class TestEquality:
    @pytest.fixture(params=[1, 1 << 30], ids=["columns", "one by one"], autouse=True)
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(record_batches, "COLUMNS_FROM", request.param)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # each way stays for all of its cases
    @given(
        batches=st.lists(rows, min_size=1, max_size=3),
        codec=st.sampled_from(CODECS),
        first=st.integers(0, 5),
        at_once=st.integers(1, 50),
        gap=st.integers(0, 300),
    )
    def test_both_ways_read_the_same_and_would_fetch_next_at_the_same_place(
        self, batches: list[list[Row]], codec: int, first: int, at_once: int, gap: int
    ) -> None:
        data, offset = b"", 0
        for records in batches:
            data += batch_of(records, codec, offset, gap)
            offset += len(records) * (gap + 1)
        stock, fast = Fetcher.PartitionRecords, FastPartitionRecords
        assert values(fast, data, first, at_once) == values(stock, data, first, at_once)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_formats_are_read_the_same(self, magic: int) -> None:
        builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1 << 16, offset=7)
        for number in range(5):
            builder.append(timestamp=1_000 + number if magic else None, key=b"k", value=b"v%d" % number)
        builder.close()
        data = bytes(builder.records()._buffer)
        stock = Fetcher.PartitionRecords(7, PLACE, MemoryRecords(data))
        stamps = [1_000 + number if magic else -1 for number in range(5)]  # format 0 has none
        expected = [Record(7 + number, stamps[number], b"v%d" % number) for number in range(5)]
        assert FastPartitionRecords(7, PLACE, MemoryRecords(data)).take(10) == expected
        assert [as_record(record) for record in stock.take(10)] == expected


class TestColumns:
    @pytest.mark.parametrize("codec", CODECS)
    def test_a_batch_of_hundreds_of_records_is_read_as_one_by_one(self, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
        records: list[Row] = []
        for number in range(1_000):
            key = None if number % 7 == 0 else b"k" * (number % 90)
            value = None if number % 11 == 0 else b"v" * number
            records.append((1_000 + number * (-1) ** number, key, value, []))
        data = batch_of(records, codec)
        with monkeypatch.context() as patch:
            patch.setattr(record_batches, "walk", lambda batch: pytest.fail("so many are read one by one"))
            read = values(FastPartitionRecords, data, 3, 400)
        monkeypatch.setattr(record_batches, "COLUMNS_FROM", 1 << 30)
        assert values(FastPartitionRecords, data, 3, 400) == read

    def test_the_time_of_the_broker_is_that_of_all_its_records(self) -> None:
        data = bytearray(batch_of([(1_000, b"k", b"v", []), (2_000, b"k", b"v", [])]))
        data[22] |= 0x08  # the attribute that says so
        for way in (record_batches.columns, record_batches.walk):
            assert [record.timestamp_ms for record in way(MemoryRecords(bytes(data)).next_batch())] == [2_000, 2_000]

    @given(numbers=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
    def test_many_numbers_are_read_as_each_is(self, numbers: list[int]) -> None:
        data, places = b"", []
        for number in numbers:
            places.append(len(data))
            raw = (number << 1) ^ (number >> 63)
            while raw > 0x7F:
                data, raw = data + bytes([raw & 0x7F | 0x80]), raw >> 7
            data += bytes([raw])
        read, after = record_batches.varints(np.frombuffer(data, np.uint8), np.array(places))
        assert read.tolist() == numbers == [record_batches.varint(data, place)[0] for place in places]
        assert after.tolist() == [*places[1:], len(data)]

    @given(damage=st.lists(st.tuples(st.integers(61, 400), st.integers(0, 255)), min_size=1, max_size=3))
    def test_what_is_broken_is_told_as_one_by_one(self, damage: list[tuple[int, int]]) -> None:
        data = bytearray(batch_of([(1_000, b"key", b"x" * 100, [])] * 3))
        for at, byte in damage:
            data[min(at, len(data) - 1)] = byte
        told = []
        for way in (record_batches.columns, lambda batch: list(record_batches.walk(batch))):
            try:
                told.append(way(MemoryRecords(bytes(data)).next_batch()))
            except (IndexError, ValueError, CorruptRecordError):
                told.append(None)
        assert told[0] == told[1]


class TestDamage:
    @pytest.fixture(params=[1, 1 << 30], ids=["columns", "one by one"], autouse=True)
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(record_batches, "COLUMNS_FROM", request.param)

    def damaged(self, at: int, byte: int) -> MemoryRecords:
        data = bytearray(batch_of([(1_000, b"key", b"x" * 100, [])] * 3))
        data[at] = byte
        return MemoryRecords(bytes(data))

    def test_a_wrong_checksum_is_an_error(self) -> None:
        with pytest.raises(CorruptRecordError, match="wrong checksum"):
            FastPartitionRecords(0, PLACE, self.damaged(-50, 0xFF)).take(3)

    @pytest.mark.parametrize(("at", "byte"), [(61, 0x7E), (61, 0x02), (60, 0x07), (60, 0x01)], ids=["longer", "shorter", "more", "fewer"])
    def test_lengths_and_counts_that_do_not_fit_are_errors_even_without_the_checksum(self, at: int, byte: int) -> None:
        with pytest.raises(CorruptRecordError):
            list(FastPartitionRecords(0, PLACE, self.damaged(at, byte), check_crcs=False).record_iterator)


class TestInstall:
    class Consumer:
        """As much of a client as its reader hangs on."""

        def __init__(self) -> None:
            self._fetcher = Fetcher.__new__(Fetcher)

    def test_a_client_as_expected_reads_the_fast_way_and_others_are_left_alone(self) -> None:
        consumer = self.Consumer()
        assert fast_fetch.install(consumer)
        assert consumer._fetcher.PartitionRecords is FastPartitionRecords
        assert Fetcher.PartitionRecords is not FastPartitionRecords

    def test_a_client_with_other_inner_names_keeps_its_own_way(self) -> None:
        assert not fast_fetch.install(object())

    @pytest.mark.parametrize("way", ["records_of", "columns"])
    def test_a_client_that_lays_records_out_otherwise_keeps_its_own_way(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fast_fetch, way, lambda batch: [Record(0, 0, b"something else")])
        consumer = self.Consumer()
        assert not fast_fetch.install(consumer)
        assert "PartitionRecords" not in vars(consumer._fetcher)
