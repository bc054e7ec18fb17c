"""The fast decoder of UBI documents: the parser decodes whole documents into typed structs.

It returns the same events as the reference decoder in `ubi` and raises for every input that it does not accept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from streammetrics.events import fields
from streammetrics.events.fields import POSITION_MAX, sorted_labels
from streammetrics.events.items import place_of
from streammetrics.events.json_text import has_control, may_hold_control, too_deep
from streammetrics.events.model import TS_MAX, Event, EventLimits, Feedback, Impression, Labels
from streammetrics.events.ubi_options import NO_ITEM, UbiSettings

_FIXED = ("action_name", "query_id", "timestamp", "event_attributes", "object", "position", "rank")

_UNCLEAR = "left to the reference decoder"


Ordinal: TypeAlias = Annotated[int, Meta(ge=0, le=POSITION_MAX)]


class _Position(Struct, gc=False):
    ordinal: Ordinal | None = None


def fast_decoder(limits: EventLimits, settings: UbiSettings) -> Callable[[bytes], Event | None] | None:
    """Return the fast decoder of one document (its result None: no event). It raises NOT_ACCEPTED (see `fallback`) otherwise.

    Return None for settings that only the reference decoder supports: pages, a field used twice, or more labels than the limits allow.
    """
    if settings.page_start is not None:
        return None
    named = [settings.user_field, *settings.segments, *filter(None, (settings.experiment_from, settings.value_from))]
    if len({*named, *_FIXED}) < len(named) + len(_FIXED) or not all(0 < len(name) <= limits.label_chars_max for name in named):
        return None
    if len(settings.segments) > limits.segments_max or limits.experiments_max == 0:  # the reference decoder drops some of them
        return None
    parse, nothing = _parser(limits, settings)
    exposure = settings.exposure
    from_impressions = settings.lists_from == "impressions"
    labels_of, value_of = _labels_reader(settings), _value_reader(settings)

    def decode(document: bytes) -> Event | None:
        sent = parse(document)
        inner = sent.event_attributes or nothing
        action, query, item = sent.action_name, sent.query_id, _item(inner)
        user = inner.user if sent.user in (None, "") else sent.user
        if type(query) is not str or type(user) is not str:
            query, user = _text_id(query, limits), _text_id(user, limits)
        ts = None if sent.timestamp is None else fields.ts_of(sent.timestamp)
        if ts is None or not action or not user or len(document) > limits.event_bytes_max or too_deep(document):
            raise ValueError(_UNCLEAR)
        if item is not None and len(item) > limits.id_chars_max:
            raise ValueError(_UNCLEAR)
        is_list = action == exposure and item is not None
        experiments, segments = labels_of(sent, inner) if is_list else ((), ())
        if may_hold_control(document) and has_control("".join(_strings((action, query, user, item), experiments, segments))):
            raise ValueError(_UNCLEAR)
        if item is None or not is_list:
            return Feedback(user, ts, item or NO_ITEM, action, value_of(sent, inner), query or None)
        if not from_impressions:
            return None
        ordinal = inner.rank if inner.position is None or inner.position.ordinal is None else inner.position.ordinal
        if not query or ordinal is None or item == NO_ITEM:
            raise ValueError(_UNCLEAR)
        place = ordinal if limits.first_place is None else place_of(ordinal, limits)
        return Impression(query, user, ts, (item,), experiments, segments, (place,))

    return decode


def _parser(limits: EventLimits, settings: UbiSettings) -> tuple[Callable[[bytes], Any], Any]:
    """Return the parser of a document into a struct, and the struct of absent attributes."""
    identity: Any = Annotated[str, Meta(max_length=limits.id_chars_max)] | int | None
    label: Any = Annotated[str, Meta(max_length=limits.label_chars_max)] | None
    full: Any = Annotated[str, Meta(min_length=1, max_length=limits.label_chars_max)]
    variants: Any = Annotated[dict[full, full | None], Meta(max_length=limits.experiments_max)] | label
    time: Any = Annotated[int, Meta(ge=0, le=TS_MAX)] | str | None
    named = [("user", settings.user_field, identity), ("experiments", settings.experiment_from, variants)]
    named += [("value", settings.value_from, float | None)]
    named += [(f"segment_{index}", name, label) for index, name in enumerate(settings.segments)]
    rename = {field: name for field, name, _ in named if name is not None}
    found = [(field, kind, None) for field, _, kind in named if field in rename]
    item = msgspec.defstruct("Object", [("object_id", identity, None)], gc=False)
    within = [("object", item | None, None), ("position", _Position | None, None), ("rank", Ordinal | None, None)]
    attributes: Any = msgspec.defstruct("Attributes", within + found, rename=rename, gc=False)
    top = [("action_name", label), ("query_id", identity), ("timestamp", time), ("event_attributes", attributes | None)]
    document = msgspec.defstruct("Document", [(field, kind, None) for field, kind in top] + found, rename=rename, gc=False)
    return msgspec.json.Decoder(document).decode, attributes()


def _labels_reader(settings: UbiSettings) -> Callable[[Any, Any], tuple[Labels, Labels]]:
    """Return a reader of the experiments and segments of a document."""
    named = tuple((name, f"segment_{index}") for index, name in enumerate(settings.segments))
    experiment = settings.experiment_from

    def read(sent: Any, inner: Any) -> tuple[Labels, Labels]:
        variants = {} if experiment is None else inner.experiments if sent.experiments in (None, "") else sent.experiments
        if isinstance(variants, str):
            variants = {experiment: variants} if variants else {}
        elif variants and None in variants.values():
            variants = {name: variant for name, variant in variants.items() if variant is not None}
        values = {name: getattr(sent, field) or getattr(inner, field) for name, field in named}
        return sorted_labels(variants), sorted_labels({name: value for name, value in values.items() if value})

    return read


def _value_reader(settings: UbiSettings) -> Callable[[Any, Any], float | None]:
    if settings.value_from is None:
        return lambda sent, inner: None
    return lambda sent, inner: inner.value if sent.value is None else sent.value


def _text_id(found: str | int | None, limits: EventLimits) -> str | None:
    """Return an id as text. An integer becomes its decimal text."""
    if type(found) is not int:
        return cast("str | None", found)
    text = str(found)
    if len(text) > limits.id_chars_max:
        raise ValueError(_UNCLEAR)
    return text


def _item(inner: Any) -> str | None:
    """Return the item's id, or None if it is absent or empty. An integer becomes its decimal text."""
    found = None if inner.object is None else inner.object.object_id
    return str(found) if type(found) is int else found or None


def _strings(ids: tuple[str | None, ...], *labels: Labels) -> Iterator[str]:
    yield from (text for text in ids if text)
    yield from (text for pairs in labels for pair in pairs for text in pair)
