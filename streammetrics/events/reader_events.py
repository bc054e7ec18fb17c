"""Events that a reader yields: dicts in the native schema -> events.

Events in their usual form become events as they are. Whatever else comes is written as JSON, and the native decoder reads that. So
the first way has no rule of its own: it may only take what the native schema takes, with the same result. The tests compare the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.items import Item, columns_of, in_rank_order
from streammetrics.events.label_cache import LabelCache, LabelSet, LabelSets
from streammetrics.events.model import TS_MAX, Decoder, Event, EventLimits, Feedback, Impression
from streammetrics.events.outcomes import NOT_ACCEPTED, malformed, without_traceback

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_convert: Any = msgspec.convert
_labels_json = msgspec.json.Encoder().encode
_event_json = msgspec.json.Encoder(decimal_format="number").encode


def event_converter(limits: EventLimits, native: Decoder) -> Callable[[dict[str, Any]], Event | MalformedEvent]:
    """Return a function from a dict to its event, or to the refusal of the native schema.

    >>> from streammetrics.events.native import native_decoder
    >>> convert = event_converter(EventLimits(), native_decoder(EventLimits()))
    >>> convert({"type": "impression", "impression_id": "r", "user_id": "u", "ts": 5, "items": ("a", "b")}).items
    ('a', 'b')
    >>> convert({"type": "impression", "impression_id": "r", "user_id": "u", "ts": 5, "items": {"a"}}).detail
    "the reader yields items as set; got {'a'}; use text, numbers, lists and dicts"
    """
    list_type, feedback_type = _types(limits)
    label_cache, label_sets = LabelCache(), LabelSets(limits)
    cached = label_cache.cached.get

    def labels_of(key: bytes, experiments: Any, segments: Any) -> LabelSet:
        labels = label_sets.of(msgspec.Raw(_labels_json(experiments)), msgspec.Raw(_labels_json(segments)))
        return label_cache.put(key, labels)

    def list_of(sent: Any) -> Impression:
        items, list_id, user_id, experiments, segments = sent.items, sent.impression_id, sent.user_id, sent.experiments, sent.segments
        positions: tuple[int | None, ...] | None = None
        teams: tuple[str, ...] = ()
        try:
            text = "".join(items)
        except TypeError:  # some are objects
            items, positions, teams = columns_of(items)
            text = "".join(items + teams)
        if not (text.isprintable() and (list_id + user_id).isprintable()):
            raise ValueError("an unusual character")
        key = _labels_json((experiments, segments))
        labels = cached(key) or labels_of(key, experiments, segments)
        if sent.fragment or positions is not None:
            items, positions, teams = in_rank_order(items, positions or (None,) * len(items), teams, bool(sent.fragment), limits)
        return Impression(list_id, user_id, sent.ts, items, labels[0], labels[1], positions, teams, labels[2])

    def convert(event: dict[str, Any], may_have_numbers: bool = limits.numeric_ids) -> Event | MalformedEvent:
        try:
            if type(event["ts"]) is not int:
                event = {**event, "ts": _usual_time(event["ts"])}
            kind = event["type"]
            if kind == "feedback":
                sent = _convert(event, feedback_type)
                user_id, item_id, action, value, list_id = sent.user_id, sent.item_id, sent.action, sent.value, sent.impression_id
                text = user_id + item_id + action if list_id is None else user_id + item_id + action + list_id
                if text.isprintable() and (value is None or -math.inf < value < math.inf):
                    return Feedback(user_id, sent.ts, item_id, action, value, list_id)
            elif kind == "impression" and type(event["items"]) in _ARRAYS:
                return list_of(_convert(event, list_type))
        except (*NOT_ACCEPTED, LookupError, TypeError):
            if may_have_numbers:
                return convert(_with_text_ids(event), False)
        return by_json(event, native)

    return convert


_IDS: Final = ("user_id", "impression_id", "item_id")
_ARRAYS: Final = (list, tuple)
"""Types that have an order. A set has none."""


def _with_text_ids(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event with the decimal text of ids that are whole numbers."""
    texts: dict[str, Any] = {name: str(event[name]) for name in _IDS if type(event.get(name)) is int}
    items: Any = event.get("items")
    if type(items) in _ARRAYS:
        texts["items"] = [_item_with_text_id(item) for item in items]
    return {**event, **texts} if texts else event


def _item_with_text_id(item: Any) -> Any:
    if type(item) is int:
        return str(item)
    return {**item, "id": str(item["id"])} if type(item) is dict and type(item.get("id")) is int else item


def _types(limits: EventLimits) -> tuple[type[Struct], type[Struct]]:
    """Return the types of an impression and of a feedback as a reader yields them.

    They are made here, because types with parameters convert several times slower.
    """
    identity: Any = Annotated[str, Meta(min_length=1, max_length=limits.id_chars_max)]
    label: Any = Annotated[str, Meta(min_length=1, max_length=limits.label_chars_max)]
    value: Any = Annotated[str, Meta(max_length=limits.label_chars_max)]
    time: Any = Annotated[int, Meta(ge=0, le=TS_MAX)]
    item: Any = identity | _generic(Item)[identity, label]
    items: Any = Annotated[tuple[item, ...], Meta(max_length=limits.items_max)]
    experiments: Any = Annotated[dict[label, label | None], Meta(max_length=limits.experiments_max)] | None
    segments: Any = Annotated[dict[label, value | None], Meta(max_length=limits.segments_max)] | None
    shared: list[Any] = [("user_id", identity), ("ts", time)]
    of_list: list[Any] = [("impression_id", identity), ("items", items), ("experiments", experiments, None), ("segments", segments, None)]
    of_feedback: list[Any] = [
        ("item_id", identity),
        ("action", label),
        ("value", float | None, None),
        ("impression_id", identity | None, None),
    ]
    return (
        msgspec.defstruct("List", [*shared, *of_list, ("fragment", bool | None, None)], gc=False),
        msgspec.defstruct("Reaction", [*shared, *of_feedback], gc=False),
    )


def _generic(kind: Any) -> Any:
    """Return `kind` untyped: type checkers cannot follow parameters that are made at run time."""
    return kind


def by_json(event: dict[str, Any], native: Decoder) -> Event | MalformedEvent:
    """Return an event in an unusual form, or why it is refused: the native decoder reads its JSON."""
    try:
        return native(_event_json(_plain(event, "")))[0]
    except MalformedEvent as error:
        return without_traceback(error)
    except (TypeError, ValueError, OverflowError) as error:
        return MalformedEvent("reader", f"the reader yields what cannot be JSON: {error}; yield dicts of texts and numbers")


def _plain(value: Any, name: str) -> Any:
    """Return a value in the types of JSON. Raises MalformedEvent for types that JSON has not, and for those that would change silently.

    Sets have no order, and bytes are no text. NaN would be written as null.
    """
    if value is None or isinstance(value, bool | int | str | Enum):
        return value
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            raise malformed("bad_value", f"{name} must be a finite number", str(value), "leave the field out")
        return value
    if isinstance(value, dict):
        within = f"{name}." if name else ""
        return {key: _plain(content, f"{within}{key}") for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(content, f"{name}[{index}]") for index, content in enumerate(value)]
    if isinstance(value, datetime):
        return epoch_ms(value, name)
    if hasattr(value, "dtype") and hasattr(value, "item") and not getattr(value, "shape", ()):  # a number of numpy
        return _plain(value.item(), name)
    advice = "decode it: .decode()" if isinstance(value, bytes | bytearray | memoryview) else "use text, numbers, lists and dicts"
    raise malformed("reader", f"the reader yields {name} as {type(value).__name__}", repr(value), advice)


def epoch_ms(moment: datetime, name: str = "ts") -> int:
    """Return the epoch milliseconds of a datetime. Finer digits are cut off. Raises MalformedEvent (bad_ts) without a time zone.

    >>> epoch_ms(datetime(1970, 1, 1, 0, 0, 1, 5999, UTC))
    1005
    """
    if moment.tzinfo is None:
        advice = "say which zone it has, such as moment.replace(tzinfo=UTC)"
        raise malformed("bad_ts", f"{name} is a datetime without a time zone", str(moment), advice)
    return (moment - _EPOCH) // _MS


def _usual_time(sent: Any) -> int:
    """Return the epoch milliseconds of ISO-8601 text or of a datetime. Raises ValueError for anything else."""
    ts = fields.ts_of(sent) if type(sent) is str else epoch_ms(sent) if isinstance(sent, datetime) else None
    if ts is None:
        raise ValueError("not a time")
    return ts
