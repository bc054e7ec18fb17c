"""Recognizes bytes that are not events of the configured schema: compressed, binary or text files, envelopes and other schemas.

Pure: a sample in, a description out. It is for messages only. No decoder depends on it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from streammetrics.errors import MalformedEvent
from streammetrics.events.advice.recognize_bytes import NDJSON, RECORD_BYTES, Recognized, recognize_bytes
from streammetrics.events.advice.recognize_object import describe_object, is_ubi_event, is_ubi_query
from streammetrics.events.malformed import excerpt
from streammetrics.events.mappings.rules import Format
from streammetrics.events.mappings.text_rows import MIND_COLUMNS, SNOWPLOW_COLUMNS

SAMPLE_BYTES: Final = 1 << 16
"""How many bytes from the start of a file or record are enough to recognize it."""
LINES_MAX: Final = 20


WITHOUT_TYPE: Final = "type is required and must not be null"
FOREIGN_ADVICE: Final = "`streammetrics decode SOURCE --suggest` proposes settings or mappings for its form"
"""What to do about records of an unknown form."""
_UTF8_MARK = b"\xef\xbb\xbf"
_DELIMITERS = {"\t": "tab", ",": "comma", ";": "semicolon", "|": "bar"}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_MIND_ITEMS = re.compile(r"N[0-9]+(-[01])?( N[0-9]+(-[01])?)*")
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
    return recognize_bytes(sample) or _text(sample.removeprefix(_UTF8_MARK), schema)


def explained(error: MalformedEvent, value: bytes | None, schema: Format) -> MalformedEvent:
    """Return the error of a record, with what the record seems to be if it does not look like an event at all.

    >>> explained(MalformedEvent("bad_json", "an event must be a JSON object"), b"\\x1f\\x8b...", "native").detail
    'an event must be a JSON object; it looks like gzip data: decompress it: zcat'
    """
    if value is None or error.reason not in ("bad_json", "missing_field"):
        return error
    found = recognize(value[:RECORD_BYTES], schema)
    if found is not None:
        return MalformedEvent(error.reason, f"{error.detail}; it looks like {found}")
    if schema == "native" and error.detail.startswith(WITHOUT_TYPE):
        return MalformedEvent(error.reason, f"{WITHOUT_TYPE}; this is no native event: {FOREIGN_ADVICE}")
    return error


def _text(sample: bytes, schema: Format) -> Recognized | None:
    text = sample.decode(errors="ignore").strip(" \t\r\n")
    first = text[:1]
    if first == "\x1e":
        return Recognized("sequence", "a JSON text sequence", "remove its record separators: tr -d '\\036'")
    if first == "<":
        return Recognized("markup", "XML or HTML", NDJSON)
    if first == "[":
        return _array(text, schema)
    if first == "{":
        return _objects(text, schema)
    return _other_text(text)


def _array(text: str, schema: Format) -> Recognized:
    line = text.split("\n", 1)[0].strip()
    try:
        found, end = _decode_json(line)
    except (ValueError, RecursionError):
        found, end = [], 0
    if schema != "ubi" and found and isinstance(found[0], dict) and (is_ubi_event(found[0]) or is_ubi_query(found[0])):
        return Recognized("ubi", "arrays of OpenSearch UBI documents", 'set events.format = "ubi"')
    if end == len(line) and len(line) < len(text):
        return Recognized("array_lines", "lines that are JSON arrays", "write their elements one per line (jq -c '.[]')")
    return Recognized("array", "a JSON array", "write its elements one per line (jq -c '.[]')")


def _objects(text: str, schema: Format) -> Recognized | None:
    """Recognize JSON objects: how they are written first, then by their fields."""
    line = text.split("\n", 1)[0].rstrip()
    found, end = _first_value(text)
    if found is None:
        return _unreadable_object(text, line)
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


def _unreadable_object(text: str, line: str) -> Recognized | None:
    """Recognize text that begins like an object and is none, or is cut. `line` is its first line."""
    if re.match(r'\{\s*"warnings": ?\[', text):
        return Recognized("report", "a report of streammetrics", "show it with streammetrics report")
    if re.match(r"\{\s*'", text):
        return Recognized("python", "text that Python printed, not JSON (it has single quotes)", "write it with json.dumps")
    if line in ("{", "{ ") or (line.endswith(",") and not line.endswith("},")):
        return Recognized("pretty", "JSON over several lines", "write one object per line (jq -c .)")
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
    if line.startswith(("row has ", "row cannot be read: ")):  # a row of a table, which says so itself
        return None
    if (lines := _preset_lines(line)) is not None:
        return lines
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
    return Recognized("text", f"text that is not JSON (it begins with {excerpt(line)!r})", NDJSON)


def _preset_lines(line: str) -> Recognized | None:
    """Recognize the lines of a preset that have columns without a header."""
    cells = line.split("\t")
    if 100 < len(cells) <= len(SNOWPLOW_COLUMNS):  # the last columns may be empty, and are stripped here
        return Recognized("snowplow", "Snowplow enriched events as TSV", 'set events.format = "snowplow"')
    if len(cells) == len(MIND_COLUMNS) and _MIND_ITEMS.fullmatch(cells[-1]):
        return Recognized("mind", "lines of behaviors.tsv of MIND", 'set events.format = "mind"')
    return None


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
            return Recognized("table", f"{form} with the columns {excerpt(', '.join(columns))}", f"{NDJSON}, with the fields of an event")
    return None
