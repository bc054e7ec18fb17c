"""Tests of decoding batches: by columns and record by record, also damaged ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import CorruptRecordError
from kafka.record import MemoryRecords

from streammetrics.connectors.kafka.patches import record_batches
from streammetrics.connectors.kafka.patches.fast_fetch import FastPartitionRecords
from streammetrics.events.record import SentValue
from tests.connectors.kafka.patches.batches import CODECS, PLACE, RecordFields, batch_of, read_all, record_lists


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
