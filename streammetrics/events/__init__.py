"""Decoders: the bytes of a record -> impressions, feedback, exposures and malformed events.

A decoder is a pure function of the bytes. It never raises for bad input. It returns what is malformed next to what is valid. This room
also holds the grade rules, the table of event outcomes and arithmetic on event times.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol, cast

from streammetrics.errors import MalformedEvent
from streammetrics.events.mappings.decoder import mapped_decoder
from streammetrics.events.mappings.presets import preset_rules
from streammetrics.events.mappings.rules import FORMATS, Format, MappingRule
from streammetrics.events.mappings.text_rows import TEXT_ROWS, rows_decoder
from streammetrics.events.mappings.watch import Shipped, watch_of
from streammetrics.events.model import TS_MAX, Event, EventLimits, Exposure, Feedback, Impression, PartsDecoder
from streammetrics.events.native import native_decoder
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.topic_names import topic_of
from streammetrics.events.ubi import ubi_decoder
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings

__all__ = [
    "NO_ITEM",
    "TS_MAX",
    "Decoder",
    "Event",
    "EventLimits",
    "Exposure",
    "Feedback",
    "Impression",
    "MalformedEvent",
    "UbiSettings",
    "applied_rules",
    "decoder",
    "exposures_of",
    "native_decoder",
    "topic_decoder",
    "ubi_decoder",
]


class Decoder(Protocol):
    """Decodes one record into its events and its malformed parts, in their order.

    It never raises for bad bytes. An empty result means that the record holds no event and is not malformed.
    """

    def __call__(self, value: bytes | None, /) -> Sequence[Event | MalformedEvent]: ...


def topic_decoder(
    topic: str,
    format: Format,
    rules: Sequence[MappingRule],
    limits: EventLimits,
    ubi: UbiSettings | None = None,
    *,
    watched: Collection[str] | None = None,
) -> Decoder:
    """Return the decoder of a topic: by the mappings that apply to it, or else by the format.

    With `watched`, a decoder by mappings gives notes of their optional paths, too (see `mappings.watch`). Those of shipped mappings are all
    except the segments with other names than `watched`.

    A mapping applies to the topics that it names, or to all. A file has the longest of these topics that its name begins with.

    >>> from streammetrics.events.mappings.rules import parse_mappings
    >>> topic_decoder("logs/clicks.ndjson.gz", "native", parse_mappings([{"kind": "ignore", "topics": ["clicks"]}]), EventLimits())(b"{}")
    (MalformedEvent('ignored: a mapping with kind = ignore applies'),)
    """
    applied = applied_rules(topic, rules)
    if not applied:
        return decoder(format, limits, ubi, watched=watched)
    used = {rule.kind for rule in applied}
    formats: dict[str, PartsDecoder] = {name: decoder(name, limits, ubi, watched=watched) for name in FORMATS if name in used}
    watches = () if watched is None else [watch_of(rule) for rule in applied]
    return cast("Decoder", mapped_decoder(applied, limits, formats, watches))


def applied_rules(topic: str, rules: Sequence[MappingRule]) -> list[MappingRule]:
    """Return the mappings that apply to a topic, or to a file by its path."""
    name = topic_of(topic, {each for rule in rules for each in rule.topics})
    return [rule for rule in rules if not rule.topics or name in rule.topics]


def exposures_of(decode: Decoder, experiments: Iterable[str]) -> Decoder:
    """Return a decoder that ignores the exposures to all other experiments.

    >>> decode = exposures_of(lambda value: (Exposure("u", 5, "checkout", "on"), Exposure("u", 5, "ranker", "new")), ["ranker"])
    >>> [event.reason if isinstance(event, MalformedEvent) else event.experiment for event in decode(b"")]
    ['ignored', 'ranker']
    """
    names = frozenset(experiments)
    ignored = MalformedEvent(IGNORED, "an exposure to an experiment that is not in exposures.experiments")

    def read(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        found = decode(value)
        if any(type(event) is Exposure and event.experiment not in names for event in found):
            return [ignored if type(event) is Exposure and event.experiment not in names else event for event in found]
        return found

    return read


def decoder(format: Format, limits: EventLimits, ubi: UbiSettings | None = None, *, watched: Collection[str] | None = None) -> Decoder:
    """Return the decoder of a format. `ubi` configures the UBI decoder; the others ignore it. See `topic_decoder` for `watched`.

    >>> decoder("native", EventLimits())(None)[0].reason
    'empty'
    """
    if format == "native":
        return native_decoder(limits)
    if format == "ubi":
        return cast("Decoder", ubi_decoder(limits, ubi, watched=watched))
    watches = () if watched is None else [watch_of(rule, Shipped(format, watched)) for rule in preset_rules(format)]
    decode = cast("Decoder", mapped_decoder(preset_rules(format), limits, {}, watches))
    return rows_decoder(TEXT_ROWS[format], decode, limits) if format in TEXT_ROWS else decode
