"""Tests of the fast reader against the client's own, over every shape of record and every codec."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords, MemoryRecordsBuilder

from streammetrics.connectors.kafka.patches import fast_fetch, record_batches
from streammetrics.connectors.kafka.patches.fast_fetch import FastPartitionRecords, as_record
from streammetrics.connectors.source import InputRecord
from tests.connectors.kafka.patches.batches import CODECS, PLACE, RecordFields, batch_of, read_all, record_lists


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count calls of Python functions and built-ins while the block runs."""
    count, before = [0], sys.getprofile()

    def profile(frame: Any, event: str, argument: Any) -> None:
        count[0] += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        yield count
    finally:
        sys.setprofile(before)


def calls_of(reader: type, data: bytes) -> int:
    with counted_calls() as count:
        reader(0, PLACE, MemoryRecords(data)).take(10_000)
    return count[0]


class TestStillNeeded:
    def test_the_clients_reader_makes_over_five_times_as_many_calls(self) -> None:
        data = batch_of([(1_000 + number, b"user", b"x" * 100, []) for number in range(1_000)])
        assert calls_of(Fetcher.PartitionRecords, data) > 5 * calls_of(FastPartitionRecords, data)


class TestEquality:
    @pytest.fixture(params=[1, 1 << 30], ids=["columns", "record by record"], autouse=True)
    def way(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(record_batches, "COLUMNS_FROM", request.param)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # the fixture holds for all examples
    @given(
        batches=st.lists(record_lists, min_size=1, max_size=3),
        codec=st.sampled_from(CODECS),
        first=st.integers(0, 5),
        at_once=st.integers(1, 50),
        gap=st.integers(0, 300),
    )
    def test_both_readers_yield_the_same_and_have_the_same_next_fetch_offset(
        self, batches: list[list[RecordFields]], codec: int, first: int, at_once: int, gap: int
    ) -> None:
        data, offset = b"", 0
        for records in batches:
            data += batch_of(records, codec, offset, gap)
            offset += len(records) * (gap + 1)
        stock, fast = Fetcher.PartitionRecords, FastPartitionRecords
        assert read_all(fast, data, first, at_once) == read_all(stock, data, first, at_once)

    @pytest.mark.parametrize("magic", [0, 1])
    def test_old_formats_are_read_the_same(self, magic: int) -> None:
        builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1 << 16, offset=7)
        for number in range(5):
            builder.append(timestamp=1_000 + number if magic else None, key=b"k", value=b"v%d" % number)
        builder.close()
        data = bytes(builder.records()._buffer)
        stock = Fetcher.PartitionRecords(7, PLACE, MemoryRecords(data))
        stamps = [1_000 + number if magic else -1 for number in range(5)]  # format 0 has no timestamps
        expected = [InputRecord(7 + number, stamps[number], b"v%d" % number) for number in range(5)]
        assert FastPartitionRecords(7, PLACE, MemoryRecords(data)).take(10) == expected
        assert [as_record(record) for record in stock.take(10)] == expected


class TestInstall:
    class Consumer:
        """A fake consumer with only the fetcher."""

        def __init__(self) -> None:
            self._fetcher = Fetcher.__new__(Fetcher)

    def test_only_the_given_client_reads_fast(self) -> None:
        consumer = self.Consumer()
        assert fast_fetch.install(consumer)
        assert consumer._fetcher.PartitionRecords is FastPartitionRecords
        assert Fetcher.PartitionRecords is not FastPartitionRecords

    def test_a_client_with_other_private_names_stays_unchanged(self) -> None:
        assert not fast_fetch.install(object())

    @pytest.mark.parametrize("way", ["records_of", "columns"])
    def test_a_client_that_reads_something_else_stays_unchanged(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fast_fetch, way, lambda batch: [InputRecord(0, 0, b"something else")])
        consumer = self.Consumer()
        assert not fast_fetch.install(consumer)
        assert "PartitionRecords" not in vars(consumer._fetcher)
