"""Decoders: the bytes of a record -> impressions, feedback and malformed events.

A decoder is a pure function of the bytes. It never raises for bad input. It returns what is malformed next to what is valid. This room
also holds the grade rules, the table of event outcomes and arithmetic on event times.
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
    """Decodes one record into its events and its malformed parts, in their order.

    It never raises for bad bytes. An empty result means that the record holds no event and is not malformed.
    """

    def __call__(self, value: bytes | None, /) -> Sequence[Event | MalformedEvent]: ...


def decoder(format: Literal["native", "ubi"], limits: EventLimits, ubi: UbiSettings | None = None) -> Decoder:
    """Return the decoder of a format. `ubi` configures the UBI decoder; the native decoder ignores it.

    >>> decoder("native", EventLimits())(None)[0].reason
    'empty'
    """
    return ubi_decoder(limits, ubi) if format == "ubi" else native_decoder(limits)
