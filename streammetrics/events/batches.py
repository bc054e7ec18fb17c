"""Records with many events: a JSON array. Each element is decoded like a record of its own, and has its own outcome.

Events are also split by user here, for processes that share the work of one input. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from zlib import crc32

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Decoder, Elsewhere, Event
from streammetrics.events.outcomes import without_traceback

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


RecordDecoder: TypeAlias = Callable[[bytes | None], Sequence[Event | MalformedEvent | Elsewhere]]
"""A decoder of whole events, or one for a part of the users."""


def of_shard(decode: Decoder, shard: int, shards: int) -> RecordDecoder:
    """Return a decoder for one of `shards` processes, numbered from 0.

    >>> from streammetrics.events import Feedback
    >>> click = Feedback("u7", 5, "a", "click")
    >>> [of_shard(lambda value: (click,), shard, 2)(b"")[0] for shard in (0, 1)]  # doctest: +NORMALIZE_WHITESPACE
    [Elsewhere(user_id='u7', ts=5),
     Feedback(user_id='u7', ts=5, item_id='a', action='click', value=None, impression_id=None)]
    """
    is_first = shard == 0

    def of_event(event: Event) -> Event | Elsewhere:
        return event if crc32(event.user_id.encode()) % shards == shard else Elsewhere(event.user_id, event.ts)

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent | Elsewhere]:
        events: list[Event | MalformedEvent | Elsewhere] = []
        for event in decode(value):
            if isinstance(event, MalformedEvent):
                if is_first:
                    events.append(event)
            else:
                events.append(of_event(event))
        return events

    return read
