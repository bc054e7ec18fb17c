"""Checks of text and JSON: UTF-8, nesting depth, control characters, ISO times.

Every rule is a function of the bytes alone, so all workers, Python versions and replays reject the same events. The schema modules
decide which fields an event has.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec

from streammetrics.events.outcomes import malformed

NESTING_MAX: Final = 256
"""Deepest nesting of an event's JSON. It is far below the parser's stack limit, so the stack never decides."""

BACKSLASH: Final = 0x5C
DELETE: Final = 0x7F
"""ASCII bytes through which JSON can contain control characters."""

FLAT_BYTES_MAX: Final = 2 * NESTING_MAX
"""JSON up to this size cannot nest deeper than NESTING_MAX, because each level takes two brackets."""

_C1_LEAD = 0xC2
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = _EPOCH.toordinal()
_MS = timedelta(milliseconds=1)
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NO_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^"\[\]{}]+', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_ISO_8601 = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)[Tt ](\d\d)(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)", re.ASCII
)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_any = msgspec.json.Decoder().decode
ParsedT = TypeVar("ParsedT")


def has_control(text: str) -> bool:
    """Return whether the text has a control character: C0 (below U+0020), DEL, or C1 (U+0080 … U+009F).

    >>> has_control("caf\\u00e9 \\u7a93"), has_control("a\\tb"), has_control("\\x85")
    (False, True, True)
    """
    return not text.isprintable() and _CONTROL.search(text) is not None


def may_hold_control(value: bytes) -> bool:
    """Return whether JSON text may contain control characters, judged by its bytes. Raises UnicodeDecodeError unless it is UTF-8.

    Raw C0 characters are invalid JSON. So control characters come as an escape, as DEL, or as C1, which starts with 0xC2 in UTF-8.
    """
    if not value.isascii():
        value.decode()
    return BACKSLASH in value or DELETE in value or _C1_LEAD in value


def is_shallow(value: bytes) -> bool:
    """Return whether parsed JSON text is certainly shallow, judged by its brackets. False means unknown.

    At any place, each enclosing array has its own `[`. Each enclosing object but the innermost takes at least five bytes (`{"":}`),
    four of them before the next level. So short text, or text with few brackets close together, cannot be deep.

    >>> is_shallow(b'{"items":[' + b'"item",' * 1000 + b'""],"experiments":{},"segments":{}}')
    True
    >>> is_shallow(b"[" * 257 + b"]" * 257) or is_shallow(b'{"":' * 257 + b"1" + b"}" * 257)
    False
    """
    last, objects = value.rfind(b"["), len(value) // 5 + 1
    if last + 1 + objects <= NESTING_MAX:  # assume that all bytes up to the last `[` are arrays
        return True
    arrays = last - value.find(b"[") + 1
    if arrays > NESTING_MAX // 4:
        arrays = value.count(b"[")  # exact, but several times slower
    if arrays + objects > NESTING_MAX:
        objects = (value.rfind(b"{") - value.find(b"{", 1)) // 4 + 2
    return arrays + objects <= NESTING_MAX


def too_deep(value: bytes, flat: int = 0) -> bool:
    """Return whether JSON text nests deeper than NESTING_MAX. Brackets in strings do not count.

    `flat` is a number of objects that the caller knows are not nested in each other. It saves work and does not change the result.

    >>> too_deep(b"[" * 256 + b"]" * 256), too_deep(b"[" * 257 + b"]" * 257)
    (False, True)
    """
    if len(value) <= FLAT_BYTES_MAX or value.count(b"[") + value.count(b"{") - flat < NESTING_MAX:
        return False
    depth = 0
    for bracket in _NO_BRACKETS.sub(b"", value):
        depth += 1 if bracket in b"[{" else -1
        if depth > NESTING_MAX:
            return True
    return False


def iso_ms(text: str) -> int | None:
    """Return the epoch milliseconds of an ISO-8601 date and time with a zone, or None for other text.

    Dates are in extended or basic form. Seconds are optional. Digits finer than a millisecond are cut off. The zone is `Z`, `+hh`,
    `+hhmm` or `+hh:mm`. Week and ordinal dates, 24:00, leap seconds and times without a zone give None. The result may be outside the
    range of event times.

    >>> iso_ms("2024-11-22T07:06:40.1239Z"), iso_ms("20241122T080640.123+0100")
    (1732259200123, 1732259200123)
    >>> iso_ms("2024-11-22T07:06:40") is iso_ms("2016-12-31T23:59:60Z") is None
    True
    """
    if (
        len(text) > 16
        and text[-1] == "Z"
        and text[10] == "T"
        and text[-2] not in ".,"
        and text[4] == "-"
        and text[5] != "W"
        and text[11:13] != "24"
        and ":" not in text[19:]  # after a fraction, Python takes more of them
    ):
        try:
            return (datetime.fromisoformat(text) - _EPOCH) // _MS
        except ValueError:
            return None
    match = _ISO_8601.fullmatch(text)
    if match is None:
        return None
    year, _, month, day, hour, _, minute, second, fraction, sign, zone_hour, zone_minute = match.groups(default="00")
    if hour > "23" or minute > "59" or second > "59" or zone_hour > "23" or zone_minute > "59":
        return None
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    offset = int(zone_hour) * 60 + int(zone_minute)
    minutes = (days * 24 + int(hour)) * 60 + int(minute) - (-offset if sign == "-" else offset)
    return minutes * 60_000 + int(second) * 1000 + int(fraction[:3].ljust(3, "0"))


class JsonError(ValueError):
    """Bytes that are no JSON of the shape that is read. The text says why."""


def decode_json(content: bytes, shape: type[ParsedT]) -> ParsedT:
    """Return the value that JSON text holds. Raises JsonError for anything else: other bytes, another shape, too many levels.

    >>> decode_json(b'{"a": [1]}', dict[str, list[int]])
    {'a': [1]}
    >>> decode_json(b'{"a": "\\xff"}', dict[str, str])
    Traceback (most recent call last):
    streammetrics.events.json_text.JsonError: byte 0xff is no UTF-8 text
    """
    try:
        return msgspec.json.decode(content, type=shape)
    except UnicodeDecodeError as error:
        raise JsonError(f"byte {error.object[error.start]:#04x} is no UTF-8 text") from None
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise JsonError(str(error)) from None


def read_document(value: bytes) -> dict[str, msgspec.Raw]:
    """Return the unparsed fields of one JSON object. The last of duplicate keys wins.

    Raises MalformedEvent (bad_json) for anything else, and for a lone surrogate escape, which is not Unicode text.
    """
    return _strict(_object, value, "send one JSON object in UTF-8")


def parsed(value: bytes) -> Any:
    """Return the content of JSON text, under the same rules. Raises MalformedEvent (bad_json, or empty if there is none).

    >>> parsed(b'{"a":[1,"b",null]}')
    {'a': [1, 'b', None]}
    """
    try:
        if len(value) <= FLAT_BYTES_MAX or is_shallow(value):
            return _any(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        if not value.strip():
            raise malformed("empty", "a record must contain an event", value, "do not send tombstones to this topic") from None
    return _strict(_any, value, "send JSON in UTF-8")


def _strict(decode: Callable[[bytes], ParsedT], value: bytes, advice: str) -> ParsedT:
    try:
        value.decode()
        if too_deep(value):
            raise malformed("bad_json", f"JSON may nest at most {NESTING_MAX} levels", value, "flatten the event")
        return decode(value)
    except UnicodeDecodeError as error:
        raise malformed("bad_json", f"an event must be UTF-8 text (byte {error.start} is invalid)", value, advice) from None
    except msgspec.ValidationError:
        raise malformed("bad_json", "an event must be a JSON object", value, advice) from None
    except (msgspec.DecodeError, ValueError) as error:
        hint = " (or a lone surrogate escape)" if _SURROGATE_ESCAPE.search(value) else ""
        raise malformed("bad_json", f"{error}{hint}", value, advice) from None
    except RecursionError:
        raise malformed("bad_json", f"JSON may nest at most {NESTING_MAX} levels", value, "flatten the event") from None
