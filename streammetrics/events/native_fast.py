"""Events of the native schema decoded at the parser's speed. Only ever takes less than the law, which is in `native`.

Whatever is not understood whole raises, and goes the careful way. What is taken equals what the careful way finds.

There are two parsers. One knows the usual form: times in milliseconds, and lists of strings; it makes a feedback into the
very event. The other knows every form. Senders keep to their form, so that an event is first tried in the form of the one
before it. This changes the effort, never the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta, Struct

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.items import Item, ranked
from streammetrics.events.json_text import BACKSLASH, DELETE, FLAT_BYTES_MAX, has_control, is_shallow, may_hold_control, too_deep
from streammetrics.events.label_cache import ABSENT, LabelSets, as_sent
from streammetrics.events.model import Event, EventLimits, Feedback, Impression, Time

FEEDBACK_BYTES_MIN: Final = len(b'{"type":"feedback","user_id":"","ts":0,"item_id":"","action":""}')
"""What a feedback takes beside its strings, at least. None of them has more characters than it has bytes more than this."""

IdT = TypeVar("IdT", bound=str)
TsT = TypeVar("TsT", bound="int | str")
ItemsT = TypeVar("ItemsT")
ActionT = TypeVar("ActionT", bound=str)

_DOUBTS = (msgspec.MsgspecError, ValueError, RecursionError, MalformedEvent)
"""What is raised where the careful way must tell."""


class _Impression(Struct, Generic[IdT, TsT, ItemsT], tag="impression", tag_field="type", gc=False):
    """An impression as sent; the type variables stand for types that know the limits. Labels stay JSON until looked up."""

    impression_id: IdT
    user_id: IdT
    ts: TsT
    items: ItemsT
    experiments: msgspec.Raw = ABSENT
    segments: msgspec.Raw = ABSENT
    fragment: bool | None = None


class _Feedback(Struct, Generic[IdT, ActionT], tag="feedback", tag_field="type", gc=False):
    """A feedback as sent, in any form."""

    user_id: IdT
    ts: Time | str
    item_id: IdT
    action: ActionT
    value: float | None = None
    impression_id: IdT | None = None


def quick_decoder(
    limits: EventLimits, careful: Callable[[bytes | None], Event | MalformedEvent]
) -> Callable[[bytes | None], Sequence[Event | MalformedEvent]]:
    """A decoder that goes the quick way as far as that leads, and the careful way else.

    What most events need stands in one function, because calls would take as long as the work.
    """
    label_sets, bytes_max = LabelSets(limits), limits.event_bytes_max
    of_usual, of_any = _usual_parser(limits), _any_reader(limits, label_sets)
    held, read_labels = label_sets.held.get, label_sets.read
    short = FEEDBACK_BYTES_MIN + min(limits.id_chars_max, limits.label_chars_max)
    usual = True

    def decode(value: bytes | None) -> Sequence[Event | MalformedEvent]:
        nonlocal usual
        if value is None or len(value) > bytes_max:
            return (careful(value),)
        try:
            if usual:
                try:
                    sent = of_usual(value)
                except msgspec.ValidationError:
                    usual = False
            if not usual:
                event, usual = of_any(value)
                return (event,)
            if not value.isascii() or BACKSLASH in value or DELETE in value:
                _refuse_control(sent, value)
            if len(value) > FLAT_BYTES_MAX and not is_shallow(value):
                _refuse_deep(sent, value)
            if type(sent) is Feedback:
                if len(value) > short:
                    _refuse_long(sent, value, limits)
                return (sent,)
            if sent.fragment:
                raise ValueError("an item without a position")
            experiments, segments = held(as_sent((sent.experiments, sent.segments))) or read_labels(sent.experiments, sent.segments)
            return (Impression(sent.impression_id, sent.user_id, sent.ts, sent.items, experiments, segments),)
        except _DOUBTS:
            return (careful(value),)

    return decode


def _usual_parser(limits: EventLimits) -> Callable[[bytes], Any]:
    """A parser of the usual form. A feedback, which it makes at once, is not yet held against the limits."""
    identity: Any = _text(limits.id_chars_max)
    items: Any = Annotated[tuple[identity, ...], Meta(max_length=limits.items_max)]
    kinds: Any = _generic(_Impression)[identity, Time, items] | Feedback
    return msgspec.json.Decoder(kinds).decode


def _any_reader(limits: EventLimits, label_sets: LabelSets) -> Callable[[bytes], tuple[Event, bool]]:
    """A reader of any form: the event, and whether the form was the usual one."""
    identity: Any = _text(limits.id_chars_max)
    label: Any = _text(limits.label_chars_max)
    item: Any = identity | _generic(Item)[identity, label]
    items: Any = Annotated[tuple[item, ...], Meta(max_length=limits.items_max)]
    kinds: Any = _generic(_Impression)[identity, Time | str, items] | _generic(_Feedback)[identity, label]
    parse: Callable[[bytes], Any] = msgspec.json.Decoder(kinds).decode

    def read(value: bytes) -> tuple[Event, bool]:
        sent = parse(value)
        _refuse_control(sent, value)
        if len(value) > FLAT_BYTES_MAX and not is_shallow(value):
            _refuse_deep(sent, value)
        in_ms = type(sent.ts) is int
        ts = sent.ts if in_ms else _time(sent.ts)
        if type(sent) is _Feedback:
            return Feedback(sent.user_id, ts, sent.item_id, sent.action, sent.value, sent.impression_id), in_ms
        experiments, segments = label_sets.of(sent.experiments, sent.segments)
        if not (sent.fragment or Item in map(type, sent.items)):
            return Impression(sent.impression_id, sent.user_id, ts, sent.items, experiments, segments), in_ms
        items, positions, teams = ranked(sent.items, bool(sent.fragment))
        return Impression(sent.impression_id, sent.user_id, ts, items, experiments, segments, positions, teams), False

    return read


def _text(chars_max: int) -> Any:
    """The type of an id or of a label under a limit."""
    return Annotated[str, Meta(min_length=1, max_length=chars_max)]


def _generic(kind: Any) -> Any:
    """A generic struct to be parametrised with types made at run time, which no type checker can follow."""
    return kind


def _refuse_control(sent: Any, value: bytes) -> None:
    """Raise ValueError for text that is no UTF-8, and for control characters; those of labels are looked for when they are read."""
    if may_hold_control(value) and has_control(_ids(sent)):
        raise ValueError("a control character")


def _refuse_deep(sent: Any, value: bytes) -> None:
    objects = list(map(type, sent.items)).count(Item) if type(sent) is _Impression else 0
    if too_deep(value, objects):
        raise ValueError("nested too deep")


def _refuse_long(sent: Feedback, value: bytes, limits: EventLimits) -> None:
    """Raise ValueError where a string has more characters than the limits allow. Ids, which may be long, are seldom looked at."""
    ids_max = limits.id_chars_max
    too_long = len(sent.action) > limits.label_chars_max
    if not too_long and len(value) > FEEDBACK_BYTES_MIN + ids_max:
        too_long = max(len(sent.user_id), len(sent.item_id), len(sent.impression_id or "")) > ids_max
    if too_long:
        raise ValueError("a string too long")


def _ids(sent: Any) -> str:
    """All strings that must not hold control characters, but labels of lists, joined."""
    if type(sent) is not _Impression:
        return "".join((sent.user_id, sent.item_id, sent.action, sent.impression_id or ""))
    items = [item if type(item) is str else item.id + (item.team or "") for item in sent.items]
    return "".join([sent.impression_id, sent.user_id, *items])


def _time(text: str) -> int:
    ts = fields.ts_of(text)
    if ts is None:
        raise ValueError("no time")
    return ts
