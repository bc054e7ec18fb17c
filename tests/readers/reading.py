"""Reads records as a topic with a reader does."""

from __future__ import annotations

import json
from typing import Any

from streammetrics.events import Event, EventLimits, MalformedEvent, native_decoder
from streammetrics.events.reader import Reader, reader_decoder
from streammetrics.events.record import SentValue

LIMITS = EventLimits(numeric_ids=True)
WITH_EXPOSURES = EventLimits(exposures=True, numeric_ids=True)


def json_bytes(record: object) -> bytes:
    """Return a record as it is sent. Bytes and text are sent as they are."""
    text = record if isinstance(record, str | bytes) else json.dumps(record)
    return text.encode() if isinstance(text, str) else text


def parts_of(read: Reader, record: object, limits: EventLimits = LIMITS, **rest: Any) -> list[Event | MalformedEvent]:
    """Return what a reader makes of a record: bytes, text, or what is written as JSON. `rest` are headers, key and timestamp_ms."""
    value = SentValue.of(json_bytes(record), **rest)
    return list(reader_decoder(read, native_decoder(limits, of_reader=True), limits)(value))


def events_of(read: Reader, record: object, limits: EventLimits = LIMITS, **rest: Any) -> list[Event | str]:
    """Return the events of a record, and the reason for each that is refused or ignored."""
    return [part.reason if isinstance(part, MalformedEvent) else part for part in parts_of(read, record, limits, **rest)]
