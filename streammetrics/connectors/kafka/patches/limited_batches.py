"""Refuse a batch that becomes very large when it is decompressed.

Works around: the client decompresses a whole batch, whatever its size becomes.
Without it: a batch of one megabyte can take gigabytes of memory, and the process is killed. So is each one that takes over.
Private names: none. The names of the decoders in `codec`, `default_records` and `legacy_records` are replaced.
Delete it when: `tests/connectors/kafka/patches/test_limited_batches.py::TestStillNeeded` fails.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import structlog
from kafka import codec
from kafka.errors import KafkaError
from kafka.record import default_records, legacy_records

log = structlog.get_logger("streammetrics.kafka")

BATCH_BYTES_MAX: Final = 128 << 20
"""Most bytes of a decompressed batch. A producer's batches have up to a few megabytes."""
_PIECE_BYTES: Final = 1 << 20
_GZIP_BITS: Final = 31
_XERIAL: Final = b"\x82SNAPPY\x00"
"""Begins snappy in blocks: 16 bytes, then for each block its length in 4 bytes and the block."""


class BatchTooLargeError(KafkaError):  # type: ignore[misc]  # the client has no types
    """A batch becomes larger than the limit. The client must not try again."""

    def __init__(self) -> None:
        self.reason = f"it has more than {BATCH_BYTES_MAX >> 20} MiB when it is decompressed"
        super().__init__(self.reason)


def install() -> None:
    """Limit every batch that this process decompresses. May be called again."""
    try:
        for module in (default_records, legacy_records):
            module.gzip_decode, module.snappy_decode, module.lz4_decode  # noqa: B018  (raises where they do not exist)
        default_records.zstd_decode  # noqa: B018
    except AttributeError as error:
        log.warning(
            "batches have no limit: kafka-python's names have changed", effect="a damaged batch may fill memory", reason=repr(error)
        )
        return
    for module in (default_records, legacy_records):
        module.gzip_decode, module.snappy_decode = gunzipped, from_snappy
        if codec.lz4 is not None:
            module.lz4_decode = codec.lz4_decode = from_lz4
    default_records.zstd_decode = from_zstd


def gunzipped(payload: bytes) -> bytes:
    """Decompress members of gzip. Raises BatchTooLargeError."""

    def pieces() -> Iterator[bytes]:
        rest = bytes(payload)
        while rest:
            member = zlib.decompressobj(_GZIP_BITS)
            yield member.decompress(rest, BATCH_BYTES_MAX + 1)
            if not member.eof and not member.unconsumed_tail:
                raise EOFError("the gzip data end before their end mark")
            rest = member.unused_data

    return _joined(pieces())


def from_zstd(payload: bytes) -> bytes:
    """Decompress frames of zstd. Raises BatchTooLargeError."""
    if not codec.has_zstd():
        return stock_zstd(payload)
    with codec.zstd.ZstdDecompressor().stream_reader(io.BytesIO(payload), read_across_frames=True) as reader:
        return _joined(iter(lambda: reader.read(_PIECE_BYTES), b""))


def from_lz4(payload: bytes) -> bytes:
    """Decompress a frame of lz4. Raises BatchTooLargeError."""
    frame = codec.lz4.LZ4FrameDecompressor()
    content = _joined(iter([frame.decompress(payload, BATCH_BYTES_MAX + 1)]))
    if not frame.eof:
        raise RuntimeError("the lz4 data end before their end mark")
    return content


def from_snappy(payload: bytes) -> bytes:
    """Decompress snappy, in blocks or as a whole. Raises BatchTooLargeError for the size that it names."""
    if sum(map(_snappy_bytes, _snappy_blocks(payload))) > BATCH_BYTES_MAX:
        raise BatchTooLargeError
    return stock_snappy(payload)


stock_snappy: Final[Callable[[bytes], bytes]] = codec.snappy_decode
stock_zstd: Final[Callable[[bytes], bytes]] = codec.zstd_decode


def _joined(pieces: Iterator[bytes]) -> bytes:
    """Return the pieces as one. Raises BatchTooLargeError as soon as they are too large."""
    chunks, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > BATCH_BYTES_MAX:
            raise BatchTooLargeError
        chunks.append(piece)
    return b"".join(chunks)


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    if not payload.startswith(_XERIAL):
        yield payload
        return
    at = 16
    while at + 4 <= len(payload):
        size = int.from_bytes(payload[at : at + 4])
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


def _snappy_bytes(block: bytes) -> int:
    """Return the size that a block of snappy names, a varint of up to five bytes before the data."""
    size = 0
    for place, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return size
