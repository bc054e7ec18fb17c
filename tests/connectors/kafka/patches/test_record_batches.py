"""Tests of decoding batches: by columns and record by record, also damaged ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from streammetrics.connectors.kafka.patches import record_batches
from streammetrics.connectors.kafka.patches.fast_fetch import FastPartitionRecords
from streammetrics.connectors.kafka.patches.record_batches import read_varint, read_varints_at
from streammetrics.events.record import SentValue
from tests.connectors.kafka.patches.batches import CODECS, PLACE, RecordFields, batch_of, read_all, record_lists

INT64 = st.integers(-(2**63), 2**63 - 1)


class TestColumns:
    @pytest.mark.parametrize("codec", CODECS)
    def test_a_batch_of_hundreds_of_records_reads_the_same_by_columns(self, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
        records: list[RecordFields] = []
        for number in range(1_000):
            key = None if number % 7 == 0 else b"k" * (number % 90)
            value = None if number % 11 == 0 else b"v" * number
            records.append((1_000 + number * (-1) ** number, key, value, []))
        data = batch_of(records, codec)
        with monkeypatch.context() as patch:
            patch.setattr(record_batches, "walk", lambda batch: pytest.fail("a large batch is read record by record"))
            by_columns = read_all(FastPartitionRecords, data, 3, 400)
        monkeypatch.setattr(record_batches, "COLUMNS_FROM", 1 << 30)
        assert read_all(FastPartitionRecords, data, 3, 400) == by_columns

    def test_all_records_of_a_batch_with_broker_time_have_its_timestamp(self) -> None:
        data = bytearray(batch_of([(1_000, b"k", b"v", []), (2_000, b"k", b"v", [])]))
        data[22] |= 0x08  # the attribute for broker time
        for decode in (record_batches.columns, record_batches.walk):
            assert [record.timestamp_ms for record in decode(MemoryRecords(bytes(data)).next_batch())] == [2_000, 2_000]

    @given(damage=st.lists(st.tuples(st.integers(61, 400), st.integers(0, 255)), min_size=1, max_size=3))
    def test_damage_is_found_by_columns_and_record_by_record(self, damage: list[tuple[int, int]]) -> None:
        data = bytearray(batch_of([(1_000, b"key", b"x" * 100, [])] * 3))
        for at, byte in damage:
            data[min(at, len(data) - 1)] = byte
        results = []
        for decode in (record_batches.columns, lambda batch: list(record_batches.walk(batch))):
            try:
                results.append(decode(MemoryRecords(bytes(data)).next_batch()))
            except (IndexError, ValueError, CorruptRecordError):
                results.append(None)
        assert results[0] == results[1]


class TestWholeRecords:
    @given(records=record_lists)
    def test_key_headers_and_timestamp_are_those_of_the_client(self, records: list[RecordFields]) -> None:
        """The last of several headers with one name counts. A record without a value has the empty one."""
        expected = [(value or b"", key, stamp, dict(headers)) for stamp, key, value, headers in records]
        for decode in (record_batches.columns, record_batches.walk):
            read = [record.value for record in decode(MemoryRecords(batch_of(records)).next_batch(), True)]
            whole = [value for value in read if isinstance(value, SentValue)]
            assert [(value, value.key, value.timestamp_ms, value.headers) for value in whole] == expected

    @given(records=record_lists)
    def test_only_the_value_is_read_where_the_rest_is_not_wanted(self, records: list[RecordFields]) -> None:
        for decode in (record_batches.columns, record_batches.walk):
            read = [record.value for record in decode(MemoryRecords(batch_of(records)).next_batch())]
            assert read == [value for _, _, value, _ in records]
            assert all(type(value) is not SentValue for value in read)


class TestDamage:
    @pytest.fixture(params=[1, 1 << 30], ids=["columns", "record by record"], autouse=True)
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
    def test_wrong_lengths_and_counts_are_errors_even_without_the_checksum(self, at: int, byte: int) -> None:
        with pytest.raises(CorruptRecordError):
            list(FastPartitionRecords(0, PLACE, self.damaged(at, byte), check_crcs=False).record_iterator)


def written(number: int) -> bytes:
    """Encode an integer as protobuf's sint64."""
    rest, out = number << 1 if number >= 0 else ~(number << 1), bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


@given(st.lists(INT64, min_size=1))
def test_many_numbers_at_once_are_read_as_one_by_one(numbers: list[int]) -> None:
    pieces = [written(number) for number in numbers]
    places = [sum(map(len, pieces[:index])) for index in range(len(pieces))]
    data = b"".join(pieces)
    decoded, after = read_varints_at(np.frombuffer(data, np.uint8), np.array(places))
    assert decoded.tolist() == numbers == [read_varint(data, place)[0] for place in places]
    assert after.tolist() == [*places[1:], len(data)]


def test_a_number_of_more_than_ten_bytes_is_rejected() -> None:
    data = b"\xff" * 10 + b"\x00"
    for read in (lambda: read_varint(data, 0), lambda: read_varints_at(np.frombuffer(data, np.uint8), np.array([0]))):
        with pytest.raises(ValueError, match="more than 10 bytes"):
            read()


def test_truncated_bytes_are_rejected() -> None:
    for data in (b"", b"\xff"):
        for read in (
            lambda data=data: read_varint(data, 0),
            lambda data=data: read_varints_at(np.frombuffer(data, np.uint8), np.array([0])),
        ):
            with pytest.raises(IndexError):
                read()
