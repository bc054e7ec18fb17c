"""Splits events by user, for processes that share the work of one input. Pure.

Each process decodes every record, because any event may move the time of its input. It keeps the events of its own users whole. Of the
others only user and time are left. Malformed records belong to the first process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias
from zlib import crc32

from streammetrics.errors import MalformedEvent
from streammetrics.events.model import Decoder, Elsewhere, Event

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
