"""The native schema: one JSON object in UTF-8 is one impression or one feedback. Bytes in, values out; nothing else.

Two ways lead to the same event. The quick way (`native_quick`) decodes at the parser's speed and takes whole what it
understands. What it does not take goes the careful way, which reads field by field and names the rule broken. So the
careful way is the law, and the quick way may only ever take less.

The schema
----------
Both kinds have `type` (`"impression"` or `"feedback"`), `user_id` (an id) and `ts` (the event's time).

| field of an impression | | |
|---|---|---|
| `impression_id` | required | id of the list; scoped to the user's session |
| `items` | required | the list, best first: ids, or objects `{"id": …, "position": …, "team": …}`; may be empty |
| `experiments` | optional | object: experiment -> variant, both labels |
| `segments` | optional | object: segment (a label) -> value (a label, or empty, which means the same as absent) |
| `fragment` | optional | `true`: only a part of the list; then every item needs a position |

| field of a feedback | | |
|---|---|---|
| `item_id` | required | id of the item reacted to |
| `action` | required | a label; what it is worth is decided by the grade rules, not here |
| `value` | optional | a finite number, such as the seconds watched |
| `impression_id` | optional | the list reacted to; without it, the user's latest list that shows the item |

Rules:

* An **id** is a string of 1 to `id_chars_max` code points: any Unicode text, compared exactly, not normalised. Numbers
  and control characters (C0, DEL, C1) are refused.
* A **label** obeys the same rule with `label_chars_max`.
* **ts** is an integer literal of epoch milliseconds in 0 … 253402300799999 (`1.0`, `1e3` and `true` are refused), or a
  string with an ISO-8601 date and time and a zone; digits finer than a millisecond are cut off, never rounded.
* **Positions sort, they do not place**: ranks are 1, 2, 3 … whatever the gaps. Either every item carries one, all of them
  distinct integers >= 0, or none does. A string is short for an object without a position. An item may occur twice.
* A **team** (a label) says which ranker of an interleaved list drafted the item; an item may have none.
* An optional field may be null, which is the same as absent; a required one may not. Other fields are ignored.
* Of a key given twice the last one counts. NaN, Infinity, invalid UTF-8, lone surrogate escapes, trailing text and more
  than 256 levels of nesting are refused wherever they stand.
* What exceeds a limit is refused whole, never cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.fields import Fields
from streammetrics.events.items import Item, ranked
from streammetrics.events.json_text import read_document
from streammetrics.events.malformed import kept
from streammetrics.events.model import Event, EventLimits, Feedback, Impression
from streammetrics.events.native_fast import quick_decoder


def native_decoder(limits: EventLimits) -> Callable[[bytes | None], Sequence[Event | MalformedEvent]]:
    """A decoder of the native schema: the one event that the bytes hold, or the one MalformedEvent that says why none.

    >>> decode = native_decoder(EventLimits())
    >>> decode(b'{"type":"feedback","user_id":"u7","ts":1732183231877,"item_id":"b","action":"click"}')
    (Feedback(user_id='u7', ts=1732183231877, item_id='b', action='click', value=None, impression_id=None),)
    >>> items = b'[{"id":"b","position":9},{"id":"a","position":2}]'
    >>> decode(b'{"type":"impression","user_id":"u7","ts":0,"impression_id":"r","items":' + items + b'}')[0].items
    ('a', 'b')
    >>> decode(b'{"type":"feedback","user_id":7,"ts":0,"item_id":"b","action":"click"}')[0].reason
    'bad_id'
    """

    def careful(value: bytes | None) -> Event | MalformedEvent:
        try:
            return read_event(fields.check_value(value, limits), limits)
        except MalformedEvent as error:
            return kept(error)

    return quick_decoder(limits, careful)


def read_event(value: bytes, limits: EventLimits) -> Event:
    """The careful way: the event, or MalformedEvent with the first rule broken, in the order of the schema."""
    event = Fields(read_document(value), limits)
    return _read_impression(event) if event.kind("type", ("impression", "feedback")) == "impression" else _read_feedback(event)


def _read_impression(event: Fields) -> Impression:
    impression_id, user_id, ts = event.identity("impression_id"), event.identity("user_id"), event.time("ts")
    elements, limits = event.array("items"), event.limits
    fields.check_count(len(elements), limits)
    read = [_read_item(f"items[{index}]", raw, limits) for index, raw in enumerate(elements)]
    items, positions, teams = ranked(read, event.flag("fragment"))
    experiments, segments = event.get("experiments"), event.get("segments")
    return Impression(
        impression_id=impression_id,
        user_id=user_id,
        ts=ts,
        items=items,
        experiments=() if experiments is None else fields.read_experiments("experiments", experiments, limits),
        segments=() if segments is None else fields.read_segments("segments", segments, limits),
        positions=positions,
        teams=teams,
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


def _read_item(name: str, raw: msgspec.Raw, limits: EventLimits) -> str | Item[str, str]:
    if not bytes(raw).startswith(b"{"):
        return fields.read_id(name, raw, limits)
    item = Fields(fields.read_object(name, raw, "bad_id"), limits, f"{name}.")
    return Item(item.identity("id"), item.position("position"), item.optional_label("team"))
