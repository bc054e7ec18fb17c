"""Recognizes bytes that are not text in UTF-8: compressed and binary files, frames of schema registries. Pure; for messages only."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.encodings.frames import CONFLUENT_BYTES, frame_key

RECORD_BYTES: Final = 1 << 12
"""How many bytes of a malformed record are checked. This limits the work for each malformed record."""
NDJSON: Final = "write one JSON object per line"


class Recognized(NamedTuple):
    """What bytes seem to be, as a noun phrase with its article, and what to do, as an imperative.

    `name` is short and stable, for tests and for code that decides by it.
    """

    name: str
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}"


class _Signature(NamedTuple):
    start: bytes
    name: str
    what: str
    advice: str


_SIGNATURES: Final = (
    _Signature(b"\x1f\x8b", "gzip", "gzip data", "decompress it: zcat"),
    _Signature(b"BZh", "bzip2", "bzip2 data", "decompress it: bzcat"),
    _Signature(b"\x28\xb5\x2f\xfd", "zstd", "zstd data", "decompress it: zstdcat"),
    _Signature(b"\xfd7zXZ\x00", "xz", "xz data", "decompress it: xzcat"),
    _Signature(b"\x04\x22\x4d\x18", "lz4", "lz4 data", "decompress it: lz4 -dc"),
    _Signature(b"\xff\x06\x00\x00sNaPpY", "snappy", "snappy data", "decompress it"),
    _Signature(b"PK\x03\x04", "zip", "a zip archive", "extract its files: unzip"),
    _Signature(b"7z\xbc\xaf\x27\x1c", "7z", "a 7z archive", "extract its files"),
    _Signature(b"PAR1", "parquet", "a Parquet file", f"{NDJSON}, for example with DuckDB (COPY … TO 'events.json')"),
    _Signature(b"Obj\x01", "avro", "an Avro file", f"{NDJSON}: avro-tools tojson"),
    _Signature(
        b"\xc3\x01",
        "avro",
        "an Avro message (single object encoding)",
        'set events.encoding = "avro", events.frame = "single_object" and events.schema_file',
    ),
    _Signature(b"ORC", "orc", "an ORC file", NDJSON),
    _Signature(b"ARROW1", "arrow", "an Arrow (Feather) file", NDJSON),
    _Signature(b"\xff\xff\xff\xff", "arrow", "an Arrow stream", NDJSON),
    _Signature(b"\x89HDF", "hdf5", "an HDF5 file", NDJSON),
    _Signature(b"SQLite format 3\x00", "sqlite", "an SQLite database", NDJSON),
    _Signature(b"\x93NUMPY", "numpy", "a NumPy file", NDJSON),
    _Signature(b"\xac\xed\x00\x05", "java", "a serialized Java object", "send JSON"),
    _Signature(b"%PDF", "pdf", "a PDF file", NDJSON),
)
_REGISTRY_ADVICE = "set registry.url"
_GLUE_ADVICE = "send JSON, or convert it on the way"
_ENCODING_ADVICE = "convert it to UTF-8: iconv -f {} -t UTF-8"
_BYTE_ORDER_MARKS = ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\x00\x00\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def explained_bytes(error: MalformedEvent, value: bytes | None) -> MalformedEvent:
    """Return the error of a record, with what the record seems to be if it is not text at all."""
    if not value or error.reason != "bad_json":
        return error
    found = recognize_bytes(value[:RECORD_BYTES])
    return error if found is None else MalformedEvent(error.reason, f"{error.detail}; it looks like {found}")


def recognize_bytes(sample: bytes) -> Recognized | None:
    """Recognize what is not text in UTF-8."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if sample.startswith(mark):
            return Recognized("encoding", f"text in {encoding}", _ENCODING_ADVICE.format(encoding))
    for start, order in ((b"{\x00", "LE"), (b"[\x00", "LE"), (b"\x00{", "BE"), (b"\x00[", "BE")):
        if sample.startswith(start) and sample[2:4].count(0) == 1:
            return Recognized("encoding", f"text in UTF-16{order}", _ENCODING_ADVICE.format(f"UTF-16{order}"))
    for signature in _SIGNATURES:
        if sample.startswith(signature.start):
            return Recognized(*signature[1:])
    return _registry_frame(sample) or _message_pack(sample) or _not_utf8(sample)


def _registry_frame(sample: bytes) -> Recognized | None:
    """Recognize the frame of a schema registry: a magic byte and a schema id, before the body."""
    key = frame_key(sample)
    if key is not None and len(sample) > len(key):
        maker = "Confluent" if len(key) == CONFLUENT_BYTES else "Apicurio"
        what, advice = f"a {maker}-framed record with schema id {int.from_bytes(key[1:])}", _REGISTRY_ADVICE
        body = sample[len(key) :]
    elif sample[0] == 3 and sample[1:2] in (b"\x00", b"\x05") and len(sample) > 18:
        what, advice = "a record with the frame of the AWS Glue schema registry", _GLUE_ADVICE
        body = sample[18:]
    else:
        return None
    kind = "registry_json" if body.lstrip()[:1] in (b"{", b"[") else "registry_binary"
    return Recognized(kind, f"{what} ({'JSON' if kind == 'registry_json' else 'Avro or Protobuf'})", advice)


def _message_pack(sample: bytes) -> Recognized | None:
    if 0x80 <= sample[0] <= 0x8F or sample[0] in (0xDE, 0xDF):
        try:
            found = msgspec.msgpack.decode(sample)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
        if isinstance(found, dict):
            return Recognized("msgpack", "MessagePack", "send JSON")
    return None


def _not_utf8(sample: bytes) -> Recognized | None:
    """Recognize bytes that are not UTF-8, apart from a character that the end of the sample cuts."""
    try:
        text = sample.decode()
    except UnicodeDecodeError as error:
        if error.start < len(sample) - 3:
            controls = sum(byte < 0x20 and byte not in b"\t\n\r\f\x1b" for byte in sample[:1_000])
            if controls:
                return Recognized("binary", f"binary data (it begins with {sample[:8].hex(' ')})", "send JSON in UTF-8")
            return Recognized(
                "encoding", f"text in another encoding than UTF-8 (byte {error.start} is invalid)", "convert it to UTF-8: iconv"
            )
        text = sample[: error.start].decode()
    if "\x00" in text[:1_000]:
        return Recognized("binary", f"binary data (it begins with {sample[:8].hex(' ')})", "send JSON in UTF-8")
    return None
