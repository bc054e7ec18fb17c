"""Recognizes bytes that are not events of the configured schema: compressed, binary or text files, envelopes and other schemas.

Pure: a sample in, a description out. It is for messages only. No decoder depends on it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.malformed import excerpt
from streammetrics.events.mappings.rules import Format
from streammetrics.events.recognize_object import describe_object
from streammetrics.events.recognized import Recognized

SAMPLE_BYTES: Final = 1 << 16
"""How many bytes from the start of a file or record are enough to recognize it."""
RECORD_BYTES: Final = 1 << 12
"""How many bytes of a malformed record `explained` checks. This limits the work for each malformed record."""
LINES_MAX: Final = 20


class _Signature(NamedTuple):
    start: bytes
    name: str
    what: str
    advice: str


_NDJSON = "write one JSON object per line"
_SIGNATURES: Final = (
    _Signature(b"\x1f\x8b", "gzip", "gzip data", "decompress it: zcat"),
    _Signature(b"BZh", "bzip2", "bzip2 data", "decompress it: bzcat"),
    _Signature(b"\x28\xb5\x2f\xfd", "zstd", "zstd data", "decompress it: zstdcat"),
    _Signature(b"\xfd7zXZ\x00", "xz", "xz data", "decompress it: xzcat"),
    _Signature(b"\x04\x22\x4d\x18", "lz4", "lz4 data", "decompress it: lz4 -dc"),
    _Signature(b"\xff\x06\x00\x00sNaPpY", "snappy", "snappy data", "decompress it"),
    _Signature(b"PK\x03\x04", "zip", "a zip archive", "extract its files: unzip"),
    _Signature(b"7z\xbc\xaf\x27\x1c", "7z", "a 7z archive", "extract its files"),
    _Signature(b"PAR1", "parquet", "a Parquet file", f"{_NDJSON}, for example with DuckDB (COPY … TO 'events.json')"),
    _Signature(b"Obj\x01", "avro", "an Avro file", f"{_NDJSON}: avro-tools tojson"),
    _Signature(b"\xc3\x01", "avro", "an Avro message (single object encoding)", "send JSON, or convert it on the way"),
    _Signature(b"ORC", "orc", "an ORC file", _NDJSON),
    _Signature(b"ARROW1", "arrow", "an Arrow (Feather) file", _NDJSON),
    _Signature(b"\xff\xff\xff\xff", "arrow", "an Arrow stream", _NDJSON),
    _Signature(b"\x89HDF", "hdf5", "an HDF5 file", _NDJSON),
    _Signature(b"SQLite format 3\x00", "sqlite", "an SQLite database", _NDJSON),
    _Signature(b"\x93NUMPY", "numpy", "a NumPy file", _NDJSON),
    _Signature(b"\xac\xed\x00\x05", "java", "a serialized Java object", "send JSON"),
    _Signature(b"%PDF", "pdf", "a PDF file", _NDJSON),
)
_REGISTRY_ADVICE = "use a serializer without the registry's frame, such as a plain string serializer with JSON, or convert it on the way"
_ENCODING_ADVICE = "convert it to UTF-8: iconv -f {} -t UTF-8"
_BYTE_ORDER_MARKS = ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\x00\x00\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_UTF8_MARK = b"\xef\xbb\xbf"
_DELIMITERS = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_PREFIXED = re.compile(r'[^{]{1,200}(\{"[^"]+":)')
_decode_json = json.JSONDecoder().raw_decode


def recognize(sample: bytes, schema: Format = "native") -> Recognized | None:
    """Return what bytes seem to be. None: they look like events of the schema, or cannot be recognized.

    `sample` is the start of a file, or the value of a record; SAMPLE_BYTES are enough. `schema` is the one that is configured.

    >>> print(recognize(b'[{"type":"impression"},'))
    a JSON array: write its elements one per line (jq -c '.[]')
    >>> recognize(b"PAR1...").name, recognize(b'{"specversion":"1.0","data":{}}').name
    ('parquet', 'cloudevents')
    >>> recognize(b'{"type":"impression","impression_id":"r","user_id":"u","ts":0,"items":[]}') is None
    True
    """
    sample = sample[:SAMPLE_BYTES]
    if not sample.strip():
        return None
    return _binary(sample) or _text(sample.removeprefix(_UTF8_MARK), schema)


def explained(error: MalformedEvent, value: bytes | None, schema: Format) -> MalformedEvent:
    """Return the error of a record, with what the record seems to be if it does not look like an event at all.

    >>> explained(MalformedEvent("bad_json", "an event must be a JSON object"), b"\\x1f\\x8b...", "native").detail
    'an event must be a JSON object; it looks like gzip data: decompress it: zcat'
    """
    if value is None or error.reason not in ("bad_json", "missing_field"):
        return error
    found = recognize(value[:RECORD_BYTES], schema)
    return error if found is None else MalformedEvent(error.reason, f"{error.detail}; it looks like {found}")


def _binary(sample: bytes) -> Recognized | None:
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
    if sample[0] == 0 and len(sample) > 5:
        body, frame = sample[5:], f"a schema registry's frame (first byte 0, schema id {int.from_bytes(sample[1:5])})"
    elif sample[0] == 3 and sample[1:2] in (b"\x00", b"\x05") and len(sample) > 18:
        body, frame = sample[18:], "the frame of the AWS Glue schema registry"
    else:
        return None
    if body.lstrip()[:1] in (b"{", b"["):
        return Recognized("registry_json", f"JSON behind {frame}", _REGISTRY_ADVICE)
    return Recognized("registry_binary", f"Avro or Protobuf behind {frame}", "send JSON, or convert it on the way")


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


def _text(sample: bytes, schema: Format) -> Recognized | None:
    text = sample.decode(errors="ignore").strip(" \t\r\n")
    first = text[:1]
    if first == "\x1e":
        return Recognized("sequence", "a JSON text sequence", "remove its record separators: tr -d '\\036'")
    if first == "<":
        return Recognized("markup", "XML or HTML", _NDJSON)
    if first == "[":
        return _array(text)
    if first == "{":
        return _objects(text, schema)
    return _other_text(text)


def _array(text: str) -> Recognized:
    line = text.split("\n", 1)[0].strip()
    try:
        _, end = _decode_json(line)
    except (ValueError, RecursionError):
        end = 0
    if end == len(line) and len(line) < len(text):
        return Recognized("array_lines", "lines that are JSON arrays", "write their elements one per line (jq -c '.[]')")
    return Recognized("array", "a JSON array", "write its elements one per line (jq -c '.[]')")


def _objects(text: str, schema: Format) -> Recognized | None:
    """Recognize JSON objects: how they are written first, then by their fields."""
    line = text.split("\n", 1)[0].rstrip()
    found, end = _first_value(text)
    if found is None:
        if re.match(r"\{\s*'", text):
            return Recognized("python", "text that Python printed, not JSON (it has single quotes)", "write it with json.dumps")
        if line in ("{", "{ ") or (line.endswith(",") and not line.endswith("},")):
            return Recognized("pretty", "JSON over several lines", "write one object per line (jq -c .)")
        return None
    described = next(filter(None, (describe_object(each, schema) for each in _objects_of(text))), None) or describe_object(found, schema)
    if described is not None:
        return described
    rest = text[end:]
    if end > len(line):
        return Recognized("pretty", "JSON over several lines", "write one object per line (jq -c .)")
    if rest.lstrip(" ").startswith("{"):
        return Recognized("concatenated", "several JSON objects on one line", "write one object per line (jq -c .)")
    if rest.lstrip(" ").startswith(","):
        return Recognized("commas", "JSON objects with commas between them", "write one object per line, without commas")
    return None


def _first_value(text: str) -> tuple[dict[str, Any] | None, int]:
    """Return the first JSON object of a text and where it ends; None if it is not complete."""
    try:
        found, end = _decode_json(text)
    except (ValueError, RecursionError):
        return None, 0
    return (found, end) if isinstance(found, dict) else (None, 0)


def _objects_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of the first lines."""
    for line in text.split("\n", LINES_MAX)[:LINES_MAX]:
        found, _ = _first_value(line.strip())
        if found is not None:
            yield found


def _other_text(text: str) -> Recognized | None:
    line = text.split("\n", 1)[0].rstrip("\r")
    if line.startswith('"') and (inside := _json_string(line)) is not None and inside.lstrip()[:1] in ("{", "["):
        return Recognized("encoded_twice", "JSON inside a JSON string", "encode it once (jq -c fromjson)")
    if _BASE64.fullmatch(line) and _base64_start(line)[:1] in (b"{", b"["):
        return Recognized("base64", "JSON in base64", "decode each line")
    prefixed = _PREFIXED.match(line)
    if prefixed is not None:
        return Recognized(
            "prefixed", f"JSON after other text ({excerpt(line[: prefixed.start(1)])!r})", "write only the JSON, one object per line"
        )
    if (table := _table(text)) is not None:
        return table
    return Recognized("text", f"text that is not JSON (it begins with {excerpt(line)!r})", _NDJSON)


def _json_string(line: str) -> str | None:
    try:
        found, _ = _decode_json(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _base64_start(line: str) -> bytes:
    try:
        return base64.b64decode(line[:16].replace("-", "+").replace("_", "/"))
    except binascii.Error:
        return b""


def _table(text: str) -> Recognized | None:
    """Recognize a table by its first line: two or more short columns."""
    header = text.split("\n", 1)[0].rstrip("\r")
    for delimiter, name in _DELIMITERS.items():
        columns = [column.strip(' "') for column in header.split(delimiter)]
        if len(columns) > 1 and all(len(column) < 64 for column in columns) and not any("{" in column for column in columns):
            form = {"tab": "TSV", "comma": "CSV"}.get(name, f"CSV with a {name}")
            return Recognized("table", f"{form} with the columns {excerpt(', '.join(columns))}", f"{_NDJSON}, with the fields of an event")
    return None
