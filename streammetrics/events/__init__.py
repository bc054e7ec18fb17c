"""Events: the bytes of a record -> impressions, feedback, exposures and malformed events.

A decoder is a function of the record alone. It never raises for bad input. It returns what is malformed next to what is valid. This room
also holds the grade rules, the table of event outcomes and arithmetic on event times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streammetrics.errors import MalformedEvent
from streammetrics.events.model import TS_MAX, Decoder, Event, EventLimits, Exposure, Feedback, Impression
from streammetrics.events.native import native_decoder
from streammetrics.events.outcomes import IGNORED

__all__ = [
    "TS_MAX",
    "Decoder",
    "Event",
    "EventLimits",
    "Exposure",
    "Feedback",
    "Impression",
    "MalformedEvent",
    "exposures_of",
    "native_decoder",
]


def exposures_of(decode: Decoder, experiments: Iterable[str]) -> Decoder:
    """Return a decoder that ignores the exposures to all other experiments.

    >>> decode = exposures_of(lambda value: (Exposure("u", 5, "checkout", "on"), Exposure("u", 5, "ranker", "new")), ["ranker"])
    >>> [event.reason if isinstance(event, MalformedEvent) else event.experiment for event in decode(b"")]
    ['ignored', 'ranker']
    """
    names = frozenset(experiments)
    ignored = MalformedEvent(IGNORED, "an exposure to an experiment that is not in exposures.experiments")

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        decoded = decode(value)
        if any(type(event) is Exposure and event.experiment not in names for event in decoded):
            return [ignored if type(event) is Exposure and event.experiment not in names else event for event in decoded]
        return decoded

    return read
