"""The native schema: one JSON object in UTF-8 is one impression or one feedback. Bytes in, values out; nothing else.

Two ways lead to the same event. The quick way decodes into typed structs at the parser's speed and takes whole what it
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
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.fields import POSITION_MAX, Fields
from streammetrics.events.label_sets import ABSENT, LabelSets
from streammetrics.events.model import TS_MAX, Event, EventLimits, Feedback, Impression
from streammetrics.events.refusal import kept, malformed
from streammetrics.events.text import FLAT_BYTES_MAX, has_control, is_shallow, may_hold_control, read_document, too_deep

IdT = TypeVar("IdT", bound=str)
TeamT = TypeVar("TeamT", bound=str)
TsT = TypeVar("TsT", bound="int | str")
ItemsT = TypeVar("ItemsT")
ActionT = TypeVar("ActionT", bound=str)

_NO_TEAMS: tuple[str, ...] = ()


class _Item(Struct, Generic[IdT, TeamT], frozen=True, gc=False):
    """An item given as an object."""

    id: IdT
    position: Annotated[int, Meta(ge=0, le=POSITION_MAX)] | None = None
    team: TeamT | None = None


class _Impression(Struct, Generic[IdT, TsT, ItemsT], tag="impression", tag_field="type", gc=False):
    """An impression as sent; the type variables stand for types that know the limits. Labels stay JSON until looked up."""

    impression_id: IdT
    user_id: IdT
    ts: TsT
    items: ItemsT
    experiments: msgspec.Raw = ABSENT
    segments: msgspec.Raw = ABSENT
    fragment: bool | None = None


class _Feedback(Struct, Generic[IdT, TsT, ActionT], tag="feedback", tag_field="type", gc=False):
    """A feedback as sent."""

    user_id: IdT
    ts: TsT
    item_id: IdT
    action: ActionT
    value: float | None = None
    impression_id: IdT | None = None


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
    of_strings, of_objects = _typed_decoders(limits)
    bytes_max, label_sets = limits.event_bytes_max, LabelSets(limits)

    def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        if value is not None and len(value) <= bytes_max:
            try:
                return (_event(of_strings(value), value, False, label_sets),)
            except (msgspec.MsgspecError, ValueError, RecursionError, MalformedEvent):
                pass
            try:
                return (_event(of_objects(value), value, True, label_sets),)
            except (msgspec.MsgspecError, ValueError, RecursionError, MalformedEvent):
                pass
        try:
            return (read_event(fields.check_value(value, limits), limits),)
        except MalformedEvent as error:
            return (kept(error),)

    return decode


def _typed_decoders(limits: EventLimits) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    """The quick way's parsers: for items that are all strings, and for items that may be objects."""
    identity: Any = Annotated[str, Meta(min_length=1, max_length=limits.id_chars_max)]
    label: Any = Annotated[str, Meta(min_length=1, max_length=limits.label_chars_max)]
    time: Any = Annotated[int, Meta(ge=0, le=TS_MAX)] | str
    item, impression, feedback = (_generic(kind) for kind in (_Item, _Impression, _Feedback))

    def parser(element: Any) -> Callable[[bytes], Any]:
        items = Annotated[tuple[element, ...], Meta(max_length=limits.items_max)]
        kinds: Any = impression[identity, time, items] | feedback[identity, time, label]
        return msgspec.json.Decoder(kinds).decode

    return parser(identity), parser(identity | item[identity, label])


def _generic(kind: Any) -> Any:
    """A generic struct to be parametrised with types made at run time, which no type checker can follow."""
    return kind


def _event(sent: Any, value: bytes, objects: bool, label_sets: LabelSets) -> Event:
    """The event of a struct as sent. Raises ValueError or MalformedEvent where the careful way must tell."""
    if may_hold_control(value) and has_control(_strings(sent)):
        raise ValueError("a control character")
    if len(value) > FLAT_BYTES_MAX and not is_shallow(value) and too_deep(value, _item_objects(sent) if objects else 0):
        raise ValueError("nested too deep")
    ts = sent.ts
    if type(ts) is str:
        ts = fields.ts_of(ts)
        if ts is None:
            raise ValueError("no time")
    if type(sent) is _Feedback:
        return Feedback(sent.user_id, ts, sent.item_id, sent.action, sent.value, sent.impression_id)
    if not (objects or sent.fragment):
        items, positions, teams = sent.items, None, _NO_TEAMS
    else:
        items, positions, teams = ranked(sent.items, bool(sent.fragment))
    experiments, segments = label_sets.of(sent.experiments, sent.segments)
    return Impression(sent.impression_id, sent.user_id, ts, items, experiments, segments, positions, teams)


def _strings(sent: Any) -> str:
    """All strings that must not hold control characters, but labels of lists, which are looked at when they are read; joined."""
    if type(sent) is _Feedback:
        return "".join((sent.user_id, sent.item_id, sent.action, sent.impression_id or ""))
    ids = [item if type(item) is str else item.id + (item.team or "") for item in sent.items]
    return "".join([sent.impression_id, sent.user_id, *ids])


def _item_objects(sent: Any) -> int:
    return 0 if type(sent) is _Feedback else sum(type(item) is _Item for item in sent.items)


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


def _read_item(name: str, raw: msgspec.Raw, limits: EventLimits) -> str | _Item[str, str]:
    if not bytes(raw).startswith(b"{"):
        return fields.read_id(name, raw, limits)
    item = Fields(fields.read_object(name, raw, "bad_id"), limits, f"{name}.")
    return _Item(item.identity("id"), item.position("position"), item.optional_label("team"))


def ranked(items: Sequence[str | _Item[str, str]], fragment: bool) -> tuple[tuple[str, ...], tuple[int, ...] | None, tuple[str, ...]]:
    """The ids in rank order; for a fragment also their positions, ascending; and their teams, none when no item has one.

    bad_position where some rule is broken.
    """
    ids = [item if isinstance(item, str) else item.id for item in items]
    positions = [None if isinstance(item, str) else item.position for item in items]
    teams = ["" if isinstance(item, str) else item.team or "" for item in items]
    placed = sorted((position, name, team) for position, name, team in zip(positions, ids, teams, strict=True) if position is not None)
    if len(placed) < len(ids) and (placed or fragment):
        rule = "every item of a fragment must carry a position" if fragment else "either every item carries a position or none does"
        raise malformed("bad_position", rule, None, "send items as objects with id and position")
    if not placed:
        return tuple(ids), () if fragment else None, tuple(teams) if any(teams) else ()
    if len({position for position, _, _ in placed}) < len(placed):
        raise malformed("bad_position", "the positions of a list must be distinct", None, "send each position once")
    names, in_order = tuple(name for _, name, _ in placed), tuple(team for _, _, team in placed) if any(teams) else ()
    return names, tuple(position for position, _, _ in placed) if fragment else None, in_order
