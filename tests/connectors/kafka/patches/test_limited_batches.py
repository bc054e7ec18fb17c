"""Tests of the limit of decompressed batches. No broker is needed."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterator

import lz4.frame
import pytest
import snappy
import zstandard
from kafka import codec
from kafka.consumer.fetcher import Fetcher
from kafka.record import MemoryRecords, default_records, legacy_records
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import limited_batches
from streammetrics.connectors.kafka.patches.fast_fetch import FastPartitionRecords
from streammetrics.connectors.kafka.patches.limited_batches import BatchTooLargeError, from_lz4, from_snappy, from_zstd, gunzipped
from tests.connectors.kafka.patches.batches import CODECS, PLACE, batch_of

LIMIT = 100_000
Codec = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes], Callable[[bytes], bytes]]


def in_blocks(data: bytes) -> bytes:
    return codec.snappy_encode(data, xerial_compatible=True, xerial_blocksize=1_000)


CODECS_OF_BATCHES: dict[str, Codec] = {
    "gzip": (gzip.compress, gunzipped, codec.gzip_decode),
    "gzip in two members": (lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]), gunzipped, codec.gzip_decode),
    "snappy": (snappy.compress, from_snappy, limited_batches.stock_snappy),
    "snappy in blocks": (in_blocks, from_snappy, limited_batches.stock_snappy),
    "lz4": (lz4.frame.compress, from_lz4, lz4.frame.decompress),
    "zstd": (zstandard.compress, from_zstd, limited_batches.stock_zstd),
    "zstd in two frames": (lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:]), from_zstd, limited_batches.stock_zstd),
}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_batches, "BATCH_BYTES_MAX", LIMIT)


@pytest.fixture
def installed() -> Iterator[None]:
    names = [(default_records, name) for name in ("gzip_decode", "snappy_decode", "lz4_decode", "zstd_decode")]
    names += [(legacy_records, name) for name in ("gzip_decode", "snappy_decode", "lz4_decode")] + [(codec, "lz4_decode")]
    before = [(module, name, getattr(module, name)) for module, name in names]
    limited_batches.install()
    yield
    for module, name, value in before:
        setattr(module, name, value)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", CODECS_OF_BATCHES)
class TestCodec:
    def test_it_reads_what_the_client_reads_up_to_the_limit(self, name: str) -> None:
        compressed, limited, stock = CODECS_OF_BATCHES[name]
        for data in (b"a", bytes(range(256)) * 300, b"x" * LIMIT):
            assert limited(compressed(data)) == stock(compressed(data)) == data

    def test_it_refuses_a_byte_more(self, name: str) -> None:
        compressed, limited, _ = CODECS_OF_BATCHES[name]
        with pytest.raises(BatchTooLargeError):
            limited(compressed(b"x" * (LIMIT + 1)))


@pytest.mark.parametrize("name", [name for name in CODECS_OF_BATCHES if "zstd" not in name])  # there, the last record is found to be cut
def test_data_that_end_early_are_an_error_as_in_the_client(name: str) -> None:
    compressed, limited, stock = CODECS_OF_BATCHES[name]
    cut = compressed(bytes(range(256)) * 300)[:-20]
    for decode in (limited, stock):
        with pytest.raises((OSError, EOFError, RuntimeError, ValueError, snappy.UncompressError)):
            decode(cut)


def test_a_size_that_snappy_only_claims_takes_no_memory() -> None:
    claim = b"\xff\xff\xff\xff\x0f"
    for payload in (claim, b"\x82SNAPPY\x00" + bytes(8) + struct.pack(">i", len(claim)) + claim):
        with pytest.raises(BatchTooLargeError):
            from_snappy(payload)


@pytest.mark.usefixtures("installed", "small")
@pytest.mark.parametrize("number", [number for number in CODECS if number])
def test_a_batch_that_is_too_large_is_one_unread_record_between_the_others(number: int) -> None:
    small, large = (1, None, b"small", []), (5, None, b"x" * LIMIT, [])
    data = batch_of([small], number, first=7) + batch_of([large, large], number, first=8) + batch_of([small], number, first=10)
    reader = FastPartitionRecords(7, PLACE, MemoryRecords(data))
    records = reader.take(9)
    assert [record.offset for record in records] == [7, 9, 10]
    assert [record.value for record in records] == [b"small", b"", b"small"]
    assert [refusal.reason for refusal in records[1].value.refusals] == ["oversized"] * 2
    assert "offsets 8 to 9 is not read: it has more than 0 MiB when it is decompressed" in records[1].value.refusals[0].detail
    assert reader.next_fetch_offset == 11


@pytest.mark.usefixtures("small")
class TestStillNeeded:
    def test_the_unpatched_client_decompresses_any_batch(self) -> None:
        data = batch_of([(1, None, b"x" * (LIMIT + 1), [])], 1)
        (record,) = Fetcher.PartitionRecords(0, PLACE, MemoryRecords(data)).take(1)
        assert len(record.value) > LIMIT


def test_a_client_with_other_names_stays_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    before = default_records.gzip_decode
    monkeypatch.delattr(default_records, "zstd_decode")
    with capture_logs() as lines:
        limited_batches.install()
    assert default_records.gzip_decode is before
    assert [line["event"] for line in lines] == ["batches have no limit: kafka-python's names have changed"]
