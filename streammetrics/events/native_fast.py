"""The fast decoder of the native schema: the parser decodes whole events into typed structs.

It returns the same events as the reference decoder in `native` and raises for every input that it does not accept.

There are two parsers. The common one handles times in milliseconds and items that are strings; it builds feedback events directly. The
general one handles every valid form. Senders rarely change their form, so each event is first tried with the parser of the previous
event. This changes the speed, never the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from streammetrics.events import fields
from streammetrics.events.items import Item, ranked
from streammetrics.events.json_text import BACKSLASH, DELETE, FLAT_BYTES_MAX, has_control, is_shallow, may_hold_control, too_deep
from streammetrics.events.label_cache import ABSENT, LabelSets, as_sent
from streammetrics.events.model import Event, EventLimits, Exposure, Feedback, Impression, Time

FEEDBACK_BYTES_MIN: Final = len(b'{"type":"feedback","user_id":"","ts":0,"item_id":"","action":""}')
"""Size of a feedback with empty strings. So no string is longer than the value's size minus this."""

IdT = TypeVar("IdT", bound=str)
TsT = TypeVar("TsT", bound="int | str")
ItemsT = TypeVar("ItemsT")
ActionT = TypeVar("ActionT", bound=str)


class _Impression(Struct, Generic[IdT, TsT, ItemsT], tag="impression", tag_field="type", gc=False):
    """An impression as sent. The type variables allow types with length limits. Labels stay JSON until they are looked up."""

    impression_id: IdT
    user_id: IdT
    ts: TsT
    items: ItemsT
    experiments: msgspec.Raw = ABSENT
    segments: msgspec.Raw = ABSENT
    fragment: bool | None = None


class _Feedback(Struct, Generic[IdT, ActionT], tag="feedback", tag_field="type", gc=False):
    """A feedback as sent, in any valid form."""

    user_id: IdT
    ts: Time | str
    item_id: IdT
    action: ActionT
    value: float | None = None
    impression_id: IdT | None = None


class _Exposure(Struct, Generic[IdT, ActionT], tag="exposure", tag_field="type", gc=False):
    """An exposure as sent, in any valid form."""

    user_id: IdT
    ts: Time | str
    experiment: ActionT
    variant: ActionT


def fast_decoder(limits: EventLimits) -> Callable[[bytes], Sequence[Event]]:
    """Return the fast decoder. It raises NOT_ACCEPTED (see `fallback`) for input that it leaves to the reference decoder.

    The common path is one function, because calls would take as long as the work itself.
    """
    label_sets, bytes_max = LabelSets(limits), limits.event_bytes_max
    parse_common, read_any = _common_parser(limits), _any_reader(limits, label_sets)
    cached, read_labels = label_sets.cached.get, label_sets.read
    short = FEEDBACK_BYTES_MIN + min(limits.id_chars_max, limits.label_chars_max)
    is_common = True

    def decode(value: bytes) -> Sequence[Event]:
        nonlocal is_common
        if len(value) > bytes_max:
            raise ValueError("oversized")
        if is_common:
            try:
                sent = parse_common(value)
            except msgspec.ValidationError:
                is_common = False
        if not is_common:
            event, is_common = read_any(value)
            return (event,)
        if not value.isascii() or BACKSLASH in value or DELETE in value:
            _reject_control(sent, value)
        if len(value) > FLAT_BYTES_MAX and not is_shallow(value):
            _reject_deep(sent, value)
        if type(sent) is Feedback:
            if len(value) > short:
                _reject_long(sent, value, limits)
            return (sent,)
        if type(sent) is Exposure:
            _reject_long_exposure(sent, limits)
            return (sent,)
        if sent.fragment:
            raise ValueError("an item without a position")
        experiments, segments, notes = cached(as_sent((sent.experiments, sent.segments))) or read_labels(sent.experiments, sent.segments)
        if notes:
            return (Impression(sent.impression_id, sent.user_id, sent.ts, sent.items, experiments, segments, label_notes=notes),)
        return (Impression(sent.impression_id, sent.user_id, sent.ts, sent.items, experiments, segments),)

    return decode


def _common_parser(limits: EventLimits) -> Callable[[bytes], Any]:
    """Return a parser of the common form. Feedback is built directly; its lengths are checked afterwards."""
    identity: Any = _text(limits.id_chars_max)
    items: Any = Annotated[tuple[identity, ...], Meta(max_length=limits.items_max)]
    kinds: Any = _generic(_Impression)[identity, Time, items] | Feedback
    if limits.exposures:
        kinds |= Exposure
    return msgspec.json.Decoder(kinds).decode


def _any_reader(limits: EventLimits, label_sets: LabelSets) -> Callable[[bytes], tuple[Event, bool]]:
    """Return a reader of any valid form: the event, and whether the common parser would have accepted it."""
    numeric = limits.numeric_ids
    identity: Any = _text(limits.id_chars_max) | _generic(int) if numeric else _text(limits.id_chars_max)
    label: Any = _text(limits.label_chars_max)
    item: Any = identity | _generic(Item)[identity, label]
    items: Any = Annotated[tuple[item, ...], Meta(max_length=limits.items_max)]
    kinds: Any = _generic(_Impression)[identity, Time | str, items] | _generic(_Feedback)[identity, label]
    if limits.exposures:
        kinds |= _generic(_Exposure)[identity, label]
    parse: Callable[[bytes], Any] = msgspec.json.Decoder(kinds).decode

    def read(value: bytes) -> tuple[Event, bool]:
        sent = parse(value)
        had_numbers = numeric and _to_text(sent, limits.id_chars_max)
        _reject_control(sent, value)
        if len(value) > FLAT_BYTES_MAX and not is_shallow(value):
            _reject_deep(sent, value)
        in_ms = type(sent.ts) is int and not had_numbers
        ts = sent.ts if type(sent.ts) is int else _time(sent.ts)
        if type(sent) is _Feedback:
            return Feedback(sent.user_id, ts, sent.item_id, sent.action, sent.value, sent.impression_id), in_ms
        if type(sent) is _Exposure:
            return Exposure(sent.user_id, ts, sent.experiment, sent.variant), in_ms
        experiments, segments, notes = label_sets.of(sent.experiments, sent.segments)
        if not (sent.fragment or Item in map(type, sent.items)):
            return Impression(sent.impression_id, sent.user_id, ts, sent.items, experiments, segments, label_notes=notes), in_ms
        items, positions, teams = ranked(sent.items, bool(sent.fragment), limits)
        return Impression(sent.impression_id, sent.user_id, ts, items, experiments, segments, positions, teams, notes), False

    return read


_ID_FIELDS: Final[Mapping[type, tuple[str, ...]]] = {
    _Impression: ("user_id", "impression_id"),
    _Feedback: ("user_id", "impression_id", "item_id"),
    _Exposure: ("user_id",),
}


def _to_text(sent: Any, chars_max: int) -> bool:
    """Replace ids that are numbers by their decimal text. Return whether there were any."""
    had_numbers = False
    names = _ID_FIELDS[type(sent)]
    for name in names:
        if type(found := getattr(sent, name)) is int:
            setattr(sent, name, _decimal(found, chars_max))
            had_numbers = True
    if type(sent) is _Impression and any(type(item) is int or (type(item) is Item and type(item.id) is int) for item in sent.items):
        sent.items = tuple(
            _decimal(item, chars_max)
            if type(item) is int
            else Item(_decimal(item.id, chars_max), item.position, item.team)
            if type(item) is Item and type(item.id) is int
            else item
            for item in sent.items
        )
        had_numbers = True
    return had_numbers


def _decimal(number: int, chars_max: int) -> str:
    text = str(number)
    if len(text) > chars_max:
        raise ValueError("an id too long")
    return text


def _text(chars_max: int) -> Any:
    """Return the type of an id or label under a limit."""
    return Annotated[str, Meta(min_length=1, max_length=chars_max)]


def _generic(kind: Any) -> Any:
    """Return `kind` untyped: type checkers cannot follow parameters that are made at run time."""
    return kind


def _reject_control(sent: Any, value: bytes) -> None:
    """Raise ValueError for invalid UTF-8 or control characters. Labels are checked when they are read."""
    if may_hold_control(value) and has_control(_ids(sent)):
        raise ValueError("a control character")


def _reject_deep(sent: Any, value: bytes) -> None:
    objects = list(map(type, sent.items)).count(Item) if type(sent) is _Impression else 0
    if too_deep(value, objects):
        raise ValueError("nested too deep")


def _reject_long(sent: Feedback, value: bytes, limits: EventLimits) -> None:
    """Raise ValueError if a string exceeds its limit. Short values skip the check of the ids."""
    ids_max = limits.id_chars_max
    too_long = len(sent.action) > limits.label_chars_max
    if not too_long and len(value) > FEEDBACK_BYTES_MIN + ids_max:
        too_long = max(len(sent.user_id), len(sent.item_id), len(sent.impression_id or "")) > ids_max
    if too_long:
        raise ValueError("a string too long")


def _reject_long_exposure(sent: Exposure, limits: EventLimits) -> None:
    """Raise ValueError if a string exceeds its limit."""
    if len(sent.user_id) > limits.id_chars_max or max(len(sent.experiment), len(sent.variant)) > limits.label_chars_max:
        raise ValueError("a string too long")


def _ids(sent: Any) -> str:
    """Return all strings that must not have control characters, joined. Labels of lists are excluded."""
    if type(sent) is Exposure or type(sent) is _Exposure:
        return "".join((sent.user_id, sent.experiment, sent.variant))
    if type(sent) is not _Impression:
        return "".join((sent.user_id, sent.item_id, sent.action, sent.impression_id or ""))
    items = [item if type(item) is str else item.id + (item.team or "") for item in sent.items]
    return "".join([sent.impression_id, sent.user_id, *items])


def _time(text: str) -> int:
    ts = fields.ts_of(text)
    if ts is None:
        raise ValueError("not a time")
    return ts
