"""The typed parser of the native schema: it takes whole events in every valid form, and leaves all others to the explainer in `native`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.items import Item, ranked
from streammetrics.events.json_text import BACKSLASH, DELETE, FLAT_BYTES_MAX, has_control, is_shallow, may_hold_control, too_deep
from streammetrics.events.label_cache import ABSENT, LabelSets, as_sent
from streammetrics.events.malformed import NOT_ACCEPTED
from streammetrics.events.model import Decoder, Event, EventLimits, Exposure, Feedback, Impression, Time

IdT = TypeVar("IdT", bound=str)
ItemsT = TypeVar("ItemsT")
LabelT = TypeVar("LabelT", bound=str)


class _Impression(Struct, Generic[IdT, ItemsT], tag="impression", tag_field="type", gc=False):
    """An impression as sent. The type variables allow types with length limits. Labels stay JSON until they are looked up."""

    impression_id: IdT
    user_id: IdT
    ts: Time | str
    items: ItemsT
    experiments: msgspec.Raw = ABSENT
    segments: msgspec.Raw = ABSENT
    fragment: bool | None = None


class _Feedback(Struct, Generic[IdT, LabelT], tag="feedback", tag_field="type", gc=False):
    """A feedback as sent."""

    user_id: IdT
    ts: Time | str
    item_id: IdT
    action: LabelT
    value: float | None = None
    impression_id: IdT | None = None


class _Exposure(Struct, Generic[IdT, LabelT], tag="exposure", tag_field="type", gc=False):
    """An exposure as sent."""

    user_id: IdT
    ts: Time | str
    experiment: LabelT
    variant: LabelT


def typed_decoder(limits: EventLimits, explain: Decoder) -> Decoder:
    """Return a decoder by the typed parser, with `explain` for what it does not take.

    Items that are objects need another parser, which is used from the first to the last list of them: senders rarely change their form.
    It is one function, because calls would take as long as the work itself.
    """
    label_sets, bytes_max, numeric = LabelSets(limits), limits.event_bytes_max, limits.numeric_ids
    cached, read_labels, takes_objects = label_sets.cached.get, label_sets.read, False
    parse, parse_any = _parser(limits, False), _parser(limits, True)

    def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        nonlocal takes_objects
        if value is None or len(value) > bytes_max:
            return explain(value)
        try:
            sent = parse_any(value) if takes_objects else parse(value)
            if numeric:
                _to_text(sent, limits.id_chars_max)
            if not value.isascii() or BACKSLASH in value or DELETE in value:
                _reject_control(sent, value)
            if len(value) > FLAT_BYTES_MAX and not is_shallow(value):
                _reject_deep(sent, value)
            ts = sent.ts
            if type(ts) is str and (ts := fields.ts_of(ts)) is None:
                raise ValueError("not a time")
            if type(sent) is _Feedback:
                return (Feedback(sent.user_id, ts, sent.item_id, sent.action, sent.value, sent.impression_id),)
            if type(sent) is _Exposure:
                return (Exposure(sent.user_id, ts, sent.experiment, sent.variant),)
            experiments, segments, notes = cached(as_sent((sent.experiments, sent.segments))) or read_labels(
                sent.experiments, sent.segments
            )
            if not (sent.fragment or notes or (takes_objects and Item in map(type, sent.items))):
                takes_objects = False
                return (Impression(sent.impression_id, sent.user_id, ts, sent.items, experiments, segments),)
            items, positions, teams = ranked(sent.items, bool(sent.fragment), limits)
            return (Impression(sent.impression_id, sent.user_id, ts, items, experiments, segments, positions, teams, notes),)
        except NOT_ACCEPTED:
            if takes_objects:
                return explain(value)
            takes_objects = True
            return decode(value)

    return decode


def _parser(limits: EventLimits, takes_objects: bool) -> Any:
    text: Any = Annotated[str, Meta(min_length=1, max_length=limits.id_chars_max)]
    identity: Any = text | _generic(int) if limits.numeric_ids else text
    label: Any = Annotated[str, Meta(min_length=1, max_length=limits.label_chars_max)]
    item: Any = identity | _generic(Item)[identity, label] if takes_objects else identity
    items: Any = Annotated[tuple[item, ...], Meta(max_length=limits.items_max)]
    kinds: Any = _generic(_Impression)[identity, items] | _generic(_Feedback)[identity, label]
    if limits.exposures:
        kinds |= _generic(_Exposure)[identity, label]
    return msgspec.json.Decoder(kinds).decode


def _generic(kind: Any) -> Any:
    """Return `kind` untyped: type checkers cannot follow parameters that are made at run time."""
    return kind


def _to_text(sent: Any, chars_max: int) -> None:
    """Replace ids that are numbers by their decimal text."""
    for name in ("user_id", "impression_id", "item_id"):
        if type(number := getattr(sent, name, None)) is int:
            setattr(sent, name, _decimal(number, chars_max))
    if type(sent) is _Impression:
        sent.items = tuple([_item_as_text(item, chars_max) for item in sent.items])


def _item_as_text(item: Any, chars_max: int) -> Any:
    if type(item) is int:
        return _decimal(item, chars_max)
    return Item(_decimal(item.id, chars_max), item.position, item.team) if type(item) is Item and type(item.id) is int else item


def _decimal(number: int, chars_max: int) -> str:
    text = str(number)
    if len(text) > chars_max:
        raise ValueError("an id too long")
    return text


def _reject_control(sent: Any, value: bytes) -> None:
    """Raise ValueError for invalid UTF-8 or control characters. Labels of lists are checked when they are read."""
    if may_hold_control(value) and has_control("".join(_texts(sent))):
        raise ValueError("a control character")


def _texts(sent: Any) -> list[str]:
    """Return all texts that must not have control characters."""
    if type(sent) is _Exposure:
        return [sent.user_id, sent.experiment, sent.variant]
    if type(sent) is _Feedback:
        return [sent.user_id, sent.item_id, sent.action, sent.impression_id or ""]
    items = [item if type(item) is str else item.id + (item.team or "") for item in sent.items]
    return [sent.impression_id, sent.user_id, *items]


def _reject_deep(sent: Any, value: bytes) -> None:
    objects = list(map(type, sent.items)).count(Item) if type(sent) is _Impression else 0
    if too_deep(value, objects):
        raise ValueError("nested too deep")
