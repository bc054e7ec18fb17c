"""The native schema: one JSON object in UTF-8 is one impression, one feedback or one exposure. README.md has the fields.

This module has the explainer. It reads field by field and names the broken rule. `native_parser` reads well-formed events faster; it
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
from typing import Final

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.batches import decoded_batch, elements_of
from streammetrics.events.fields import Fields
from streammetrics.events.items import Item, ranked
from streammetrics.events.json_text import read_document
from streammetrics.events.malformed import without_traceback
from streammetrics.events.model import Event, EventLimits, Exposure, Feedback, Impression
from streammetrics.events.native_parser import typed_decoder

KINDS: Final = ("impression", "feedback", "exposure")
"""The types of native events. The last one is read only if exposures are on."""
WITHOUT_TYPE: Final = "type is required and must not be null"
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
    if not error.detail.startswith(WITHOUT_TYPE):
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
