"""Records with many events: a JSON array. Each element is decoded like a record of its own, and has its own outcome. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.malformed import without_traceback
from streammetrics.events.model import Decoder, Event

_array = msgspec.json.Decoder(list[msgspec.Raw]).decode


def elements_of(value: bytes | None) -> list[bytes] | None:
    """Return the elements of an array with at least one object; None for anything else.

    >>> elements_of(b' [{"a":1}, null]'), elements_of(b"[1]"), elements_of(b"{}")
    ([b'{"a":1}', b'null'], None, None)
    """
    if value is None or value.lstrip()[:1] != b"[":
        return None
    try:
        value.decode()
        elements = [bytes(element) for element in _array(value)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return elements if any(element.startswith(b"{") for element in elements) else None


def decoded_batch(elements: Sequence[bytes], decode: Decoder) -> list[Event | MalformedEvent]:
    """Return what a decoder finds in each element. A malformed element says which one it is.

    >>> decoded_batch([b"{}"], lambda value: (MalformedEvent("empty", "nothing"),))[0].detail
    'event 1 of 1 in the record: nothing'
    """
    return [part for number, element in enumerate(elements, 1) for part in numbered(decode(element), number, len(elements))]


def numbered(parts: Sequence[Event | MalformedEvent], number: int, count: int) -> Sequence[Event | MalformedEvent]:
    """Return the parts of an event. Malformed ones say which event of their record it is."""
    if not any(type(part) is MalformedEvent for part in parts):
        return parts
    return [_of_event(part, f"event {number} of {count} in the record: ") if isinstance(part, MalformedEvent) else part for part in parts]


def _of_event(error: MalformedEvent, place: str) -> Any:
    return without_traceback(MalformedEvent(error.reason, place + error.detail, error.unknown_type))
