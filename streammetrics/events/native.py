"""The native schema: one JSON object in UTF-8 is one impression, one feedback or one exposure. README.md has the fields.

The explainer reads field by field and names the broken rule. The typed parser takes whole events in every valid form, and is faster. It
returns the same events and leaves everything else to the explainer.

The rules in full:

* An **id** is a string of 1 to `id_chars_max` code points. It may have any Unicode text. Ids are compared exactly and not
  normalised. Numbers and control characters (C0, DEL, C1) are rejected.
* A **label** follows the same rule with `label_chars_max`. An experiment or segment that breaks it is dropped and counted; the list
  counts without it. So are labels beyond `experiments_max` and `segments_max`: the first ones by name stay.
* A **variant** may also be a number or a boolean. Its JSON text is the label, and lists count it (`variant_as_text`).
* **ts** is an integer of epoch milliseconds in 0 … 253402300799999, or a string with an ISO-8601 date, time and zone. `1.0`,
  `1e3` and `true` are rejected. Digits finer than a millisecond are cut off, not rounded.
* **Positions** of a list with `first_place` are its ranks; else they give the order only. A string equals an object without a position.
  An item may occur twice.
* A null optional field equals an absent one. A null required field is rejected. Unknown fields are ignored.
* The last of duplicate keys wins. NaN, Infinity, invalid UTF-8, lone surrogate escapes, trailing text and more than 256 levels
  of nesting are rejected anywhere.
* An event that exceeds a limit is rejected as a whole, never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.batches import decoded_batch, elements_of
from streammetrics.events.fields import Fields
from streammetrics.events.items import Item, ranked
from streammetrics.events.json_text import (
    BACKSLASH,
    DELETE,
    FLAT_BYTES_MAX,
    has_control,
    is_shallow,
    may_hold_control,
    read_document,
    too_deep,
)
from streammetrics.events.label_cache import ABSENT, LabelSets, as_sent
from streammetrics.events.model import Decoder, Event, EventLimits, Exposure, Feedback, Impression, Time
from streammetrics.events.outcomes import NOT_ACCEPTED, without_traceback

KINDS: Final = ("impression", "feedback", "exposure")
"""The types of native events. The last one is read only if exposures are on."""
WRITE_A_READER: Final = "write a reader: streammetrics config --reader"
ADVICE_WITHOUT_EXPOSURES: Final = f"{fields.OTHER_EVENTS}; for exposures, set exposures.enabled = true"


def native_decoder(limits: EventLimits, *, of_reader: bool = False) -> Callable[[bytes | None], Sequence[Event | MalformedEvent]]:
    """Return a decoder of the native schema. It returns one event, or one MalformedEvent with the reason.

    A record may also be an array of events. `of_reader`: the events come from a reader, so records are of no other form.

    >>> decode = native_decoder(EventLimits())
    >>> decode(b'{"type":"feedback","user_id":"u7","ts":1732183231877,"item_id":"b","action":"click"}')
    (Feedback(user_id='u7', ts=1732183231877, item_id='b', action='click', value=None, impression_id=None),)
    >>> items = b'[{"id":"b","position":9},{"id":"a","position":2}]'
    >>> decode(b'{"type":"impression","user_id":"u7","ts":0,"impression_id":"r","items":' + items + b'}')[0].items
    ('a', 'b')
    >>> decode(b'{"type":"feedback","user_id":7,"ts":0,"item_id":"b","action":"click"}')[0].reason
    'bad_id'
    """

    def explain(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        try:
            return (read_event(fields.check_value(value, limits), limits),)
        except MalformedEvent as error:
            if error.reason == "bad_json" and (elements := elements_of(value)) is not None:
                return decoded_batch(elements, decode)
            return (without_traceback(error if of_reader else _advised(error)),)

    decode = typed_decoder(limits, explain)
    return decode


def _advised(error: MalformedEvent) -> MalformedEvent:
    """Return the error of a record. One that is no native event at all says how others are read."""
    if error.missing != "type":
        return error
    return MalformedEvent(error.reason, f"this is no native event: type is missing; {WRITE_A_READER}")


def read_event(value: bytes, limits: EventLimits) -> Event:
    """The explainer of one event: return it, or raise MalformedEvent for the first broken rule, in the order of the schema."""
    event = Fields(read_document(value), limits)
    kind = event.kind(
        "type", KINDS if limits.exposures else KINDS[:2], fields.OTHER_EVENTS if limits.exposures else ADVICE_WITHOUT_EXPOSURES
    )
    return _READERS[kind](event)


def _read_exposure(event: Fields) -> Exposure:
    return Exposure(
        user_id=event.identity("user_id"), ts=event.time("ts"), experiment=event.label("experiment"), variant=event.variant("variant")
    )


def _read_impression(event: Fields) -> Impression:
    impression_id, user_id, ts = event.identity("impression_id"), event.identity("user_id"), event.time("ts")
    elements, limits = event.array("items"), event.limits
    fields.check_count(len(elements), limits)
    read = [_read_item(f"items[{index}]", raw, limits) for index, raw in enumerate(elements)]
    items, positions, teams = ranked(read, event.flag("fragment"), limits)
    experiments = fields.read_experiments(event.get("experiments"), limits)
    segments = fields.read_segments(event.get("segments"), limits)
    return Impression(
        impression_id=impression_id,
        user_id=user_id,
        ts=ts,
        items=items,
        experiments=experiments.labels,
        segments=segments.labels,
        positions=positions,
        teams=teams,
        label_notes=experiments.notes + segments.notes,
    )


def _read_feedback(event: Fields) -> Feedback:
    return Feedback(
        user_id=event.identity("user_id"),
        ts=event.time("ts"),
        item_id=event.identity("item_id"),
        action=event.label("action"),
        value=event.number("value"),
        impression_id=event.optional_identity("impression_id"),
    )


_READERS: Final[Mapping[str, Callable[[Fields], Event]]] = {
    "impression": _read_impression,
    "feedback": _read_feedback,
    "exposure": _read_exposure,
}


def _read_item(name: str, raw: msgspec.Raw, limits: EventLimits) -> str | Item[str, str]:
    if not bytes(raw).startswith(b"{"):
        return fields.read_id(name, raw, limits)
    item = Fields(fields.read_object(name, raw, "bad_id"), limits, f"{name}.")
    return Item(item.identity("id"), item.position("position"), item.optional_label("team"))


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
