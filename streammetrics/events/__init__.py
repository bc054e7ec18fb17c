"""Events: bytes -> Impression | Feedback. Decoders of the native schema and of others' schemas; no I/O, no clock.

A decoder is a pure function of the bytes. It never raises for what a sender sent: what is wrong with a record is part of
the answer, beside what is right with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from streammetrics.errors import MalformedEvent
from streammetrics.events.model import TS_MAX, Event, EventLimits, Feedback, Impression
from streammetrics.events.native import native_decoder
from streammetrics.events.ubi import ubi_decoder
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings

__all__ = [
    "NO_ITEM",
    "TS_MAX",
    "Decoder",
    "Event",
    "EventLimits",
    "Feedback",
    "Impression",
    "MalformedEvent",
    "UbiSettings",
    "decoder",
    "native_decoder",
    "ubi_decoder",
]


class Decoder(Protocol):
    """From the bytes of one record to the events they hold, in their order, and what is malformed, in its place.

    Never raises for bad bytes. An empty answer means that the record holds no event and is not malformed either.
    """

    def __call__(self, value: bytes | None, /) -> Sequence[Event | MalformedEvent]: ...


def decoder(format: Literal["native", "ubi"], limits: EventLimits, ubi: UbiSettings | None = None) -> Decoder:
    """The decoder of a format. `ubi` says how UBI documents are read, and means nothing to the native schema.

    >>> decoder("native", EventLimits())(None)[0].reason
    'empty'
    """
    return ubi_decoder(limits, ubi) if format == "ubi" else native_decoder(limits)
