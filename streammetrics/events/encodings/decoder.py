"""A decoder of encoded records: it reads the JSON of a record first, and then decodes that. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from streammetrics.errors import MalformedEvent
from streammetrics.events.fields import check_value
from streammetrics.events.malformed import without_traceback
from streammetrics.events.model import Event, EventLimits
from streammetrics.events.sent_value import SentValue, ToJson

_Decode: TypeAlias = Callable[[bytes | None], Sequence[Event | MalformedEvent]]


def encoded(decode: _Decode, limits: EventLimits, to_json: ToJson | None = None) -> _Decode:
    """Return a decoder of encoded records. `decode` decodes their JSON.

    `to_json` reads every record. Without it, each record that names its schema brings its reader (see `SentValue`), and all others are
    JSON already. The limit of an event's bytes holds for the record and for its JSON.

    >>> decode = encoded(lambda value: (value,), EventLimits(), to_json=bytes.upper)
    >>> decode(b"abc")
    (b'ABC',)
    """

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        reader = to_json
        if reader is None:
            if type(value) is not SentValue or value.to_json is None:
                return decode(value)
            reader = value.to_json
        try:
            text = reader(check_value(value, limits))
        except MalformedEvent as error:
            return (without_traceback(error),)
        if type(value) is SentValue and value.headers:
            text = SentValue.of(text, value.headers)
        return decode(text)

    return read
