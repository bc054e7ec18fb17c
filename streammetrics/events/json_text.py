"""What is text here, and what is JSON: UTF-8, depth, control characters, times. Which fields there are is said elsewhere.

Every rule is a function of the bytes alone, so that each worker, Python version and replay refuses the same events.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Final

import msgspec

from streammetrics.events.malformed import malformed

NESTING_MAX: Final = 256
"""Deepest nesting of an event's JSON. Far below what the parser's stack holds, so that no stack decides what is refused."""

BACKSLASH: Final = 0x5C
DELETE: Final = 0x7F
"""The bytes of ASCII text by which a control character may come into JSON."""

FLAT_BYTES_MAX: Final = 2 * NESTING_MAX
"""JSON of no more bytes than this nests no deeper than NESTING_MAX, because each level takes two brackets."""

_C1_LEAD = 0xC2
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NO_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^"\[\]{}]+', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_ISO_8601 = re.compile(
    r"(\d{4})(-?)(\d\d)\2(\d\d)[Tt ](\d\d)(:?)(\d\d)(?:\6(\d\d)(?:[.,](\d+))?)?(?:[Zz]|([+-])(\d\d)(?::?(\d\d))?)", re.ASCII
)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def has_control(text: str) -> bool:
    """Whether the text holds a control character: C0 (below U+0020), DEL, or C1 (U+0080 … U+009F).

    >>> has_control("caf\\u00e9 \\u7a93"), has_control("a\\tb"), has_control("\\x85")
    (False, True, True)
    """
    return not text.isprintable() and _CONTROL.search(text) is not None


def may_hold_control(value: bytes) -> bool:
    """Whether strings of JSON text may hold control characters, told from the bytes. UnicodeDecodeError unless it is UTF-8.

    Raw ones below U+0020 are no JSON, so one comes by an escape, or as DEL, or as C1, which starts with 0xC2 in UTF-8.
    """
    if not value.isascii():
        value.decode()
    return BACKSLASH in value or DELETE in value or _C1_LEAD in value


def is_shallow(value: bytes) -> bool:
    """Whether JSON text that a parser has read is surely not too deep, told from where its brackets are. False tells nothing.

    Of the levels of one place in it, each array has a `[` of its own, and each object but the innermost takes five bytes at
    least (`{"":}`), four of them before the next. So what is short, or has its brackets close together, cannot be deep.

    >>> is_shallow(b'{"items":[' + b'"item",' * 1000 + b'""],"experiments":{},"segments":{}}')
    True
    >>> is_shallow(b"[" * 257 + b"]" * 257) or is_shallow(b'{"":' * 257 + b"1" + b"}" * 257)
    False
    """
    last, objects = value.rfind(b"["), len(value) // 5 + 1
    if last + 1 + objects <= NESTING_MAX:  # even if there were nothing but arrays up to the last one
        return True
    arrays = last - value.find(b"[") + 1
    if arrays > NESTING_MAX // 4:
        arrays = value.count(b"[")  # exact, but it takes several times as long
    if arrays + objects > NESTING_MAX:
        objects = (value.rfind(b"{") - value.find(b"{", 1)) // 4 + 2
    return arrays + objects <= NESTING_MAX


def too_deep(value: bytes, flat: int = 0) -> bool:
    """Whether JSON text nests deeper than NESTING_MAX; brackets inside strings do not count.

    `flat` may tell of how many objects the caller knows that none lies within another: many small objects are then known
    to be shallow without a look at each bracket. It changes the effort, never the answer.

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
    """Epoch milliseconds of an ISO-8601 date and time with a zone, or None where the text is none.

    Calendar dates in the extended or the basic form; seconds may be absent; a fraction may have any number of digits and
    those finer than a millisecond are cut off; the zone is `Z`, `+hh`, `+hhmm` or `+hh:mm`. Week and ordinal dates, 24:00,
    leap seconds and texts without a zone are refused. The result may lie outside of what an event may carry.

    >>> iso_ms("2024-11-22T07:06:40.1239Z"), iso_ms("20241122T080640.123+0100")
    (1732259200123, 1732259200123)
    >>> iso_ms("2024-11-22T07:06:40") is iso_ms("2016-12-31T23:59:60Z") is None
    True
    """
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


def read_document(value: bytes) -> dict[str, msgspec.Raw]:
    """The fields of one JSON object, unparsed; of a key given twice the last one. bad_json for anything else.

    A lone surrogate escape anywhere is bad_json too: it stands for no Unicode text.
    """
    advice = "send one JSON object in UTF-8"
    try:
        value.decode()
        if too_deep(value):
            raise malformed("bad_json", f"JSON nests at most {NESTING_MAX} levels deep", value, "flatten the event")
        return _object(value)
    except UnicodeDecodeError as error:
        raise malformed("bad_json", f"text must be UTF-8 (byte {error.start} is not)", value, advice) from None
    except msgspec.ValidationError:
        raise malformed("bad_json", "an event must be a JSON object", value, advice) from None
    except msgspec.DecodeError as error:
        hint = " (or a surrogate escape stands alone)" if _SURROGATE_ESCAPE.search(value) else ""
        raise malformed("bad_json", f"{error}{hint}", value, advice) from None
    except RecursionError:
        raise malformed("bad_json", "JSON nests too deep", value, "flatten the event") from None
