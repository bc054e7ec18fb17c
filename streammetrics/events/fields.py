"""Validation rules for single fields: raw JSON -> value, or MalformedEvent with the reason.

The schema modules decide which fields an event has. A rule depends only on the value and the limits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.json_text import has_control, iso_ms
from streammetrics.events.model import TS_MAX, EventLimits, Labels
from streammetrics.events.outcomes import malformed
from streammetrics.events.unknown_names import NULL_NOTE

POSITION_MAX: Final = 2**63 - 1
"""Greatest position of an item. Stored state packs positions as signed 64-bit integers."""

OTHER_EVENTS: Final = "send other events to another topic, or write a reader that yields ignore(…) for them"
"""What to do about events of another type."""

Value = TypeVar("Value")

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_whole = msgspec.json.Decoder(int).decode
_number = msgspec.json.Decoder(float).decode
_text_or_whole: Callable[[msgspec.Raw], int | str] = msgspec.json.Decoder(int | str).decode
_boolean = msgspec.json.Decoder(bool).decode
_number_or_boolean: Callable[[msgspec.Raw], float | bool] = msgspec.json.Decoder(float | bool).decode


class Fields:
    """The fields of one JSON object. Each method reads one field under its rule. A null field counts as absent.

    `within` is the object's path in the event (such as `items[0].`), for messages.
    """

    __slots__ = ("limits", "raws", "within")

    def __init__(self, raws: Mapping[str, msgspec.Raw], limits: EventLimits, within: str = "") -> None:
        self.raws, self.limits, self.within = raws, limits, within

    def get(self, name: str) -> msgspec.Raw | None:
        """Return the raw JSON of a field, or None if it is absent or null."""
        raw = self.raws.get(name)
        return None if raw is None or is_text(raw, b"null") else raw

    def need(self, name: str) -> msgspec.Raw:
        """Return the raw JSON of a required field."""
        raw = self.get(name)
        if raw is None:
            field = self.within + name
            raise MalformedEvent("missing_field", f"{field} is required and must not be null; send {name}", missing=field)
        return raw

    def kind(self, name: str, kinds: tuple[str, ...], advice: str = OTHER_EVENTS) -> str:
        raw = self.need(name)
        rule = f"{self.within}{name} must be {' or '.join(kinds)}"
        text = _decoded(_string, raw, "bad_type", rule, advice)
        if text not in kinds:
            raise MalformedEvent("bad_type", malformed("bad_type", rule, raw, advice).detail, text)
        return text

    def identity(self, name: str) -> str:
        return read_id(self.within + name, self.need(name), self.limits)

    def optional_identity(self, name: str) -> str | None:
        raw = self.get(name)
        return None if raw is None else read_id(self.within + name, raw, self.limits)

    def label(self, name: str) -> str:
        return read_label(self.within + name, self.need(name), self.limits)

    def optional_label(self, name: str) -> str | None:
        raw = self.get(name)
        return None if raw is None else read_label(self.within + name, raw, self.limits)

    def variant(self, name: str) -> str:
        raw = self.need(name)
        text = _as_text(raw)
        return read_label(self.within + name, raw, self.limits) if text is None else check_label(self.within + name, text, self.limits)

    def time(self, name: str) -> int:
        return read_ts(self.within + name, self.need(name))

    def number(self, name: str) -> float | None:
        raw = self.get(name)
        return None if raw is None else read_number(self.within + name, raw)

    def position(self, name: str) -> int | None:
        raw = self.get(name)
        return None if raw is None else read_position(self.within + name, raw)

    def flag(self, name: str) -> bool:
        raw = self.get(name)
        rule = f"{self.within}{name} must be a boolean or null"
        return raw is not None and _decoded(_boolean, raw, "bad_value", rule, "send true or false")

    def array(self, name: str) -> list[msgspec.Raw]:
        advice = "send an array, or a|b|c in a CSV file"
        return _decoded(_array, self.need(name), "bad_value", f"{self.within}{name} must be an array", advice)


def is_text(raw: msgspec.Raw, text: bytes) -> bool:
    """Return whether raw JSON equals `text`, without copying it."""
    view: object = memoryview(raw)
    return view == text


def read_object(name: str, raw: msgspec.Raw, reason: str) -> dict[str, msgspec.Raw]:
    """Return the unparsed fields of a nested object. The last of duplicate keys wins."""
    return _decoded(_object, raw, reason, f"{name} must be an object", "send an object")


def read_id(name: str, raw: msgspec.Raw, limits: EventLimits) -> str:
    """Read an id: a string of 1 … id_chars_max characters without control characters.

    Numbers are rejected, unless `numeric_ids` is on: the decimal text of a whole number is then the id.
    """
    if limits.numeric_ids:
        rule = f"{name} must be a string or a whole number"
        identity = _decoded(_text_or_whole, raw, "bad_id", rule, "send ids as strings or whole numbers")
        return _sized_id(name, str(identity), raw, limits)
    return _sized_id(name, _decoded(_string, raw, "bad_id", f"{name} must be a string", _id_advice(raw)), raw, limits)


def _sized_id(name: str, text: str, raw: msgspec.Raw, limits: EventLimits) -> str:
    if not 0 < len(text) <= limits.id_chars_max or has_control(text):
        rule = f"{name} must have 1 to {limits.id_chars_max} characters and no control characters"
        raise malformed("bad_id", rule, raw, "shorten the id or remove control characters")
    return text


def _id_advice(raw: msgspec.Raw) -> str:
    is_number = bytes(memoryview(raw)[:1]) in b"-0123456789"
    return "send ids as strings, or set events.numeric_ids = true for whole numbers" if is_number else "send ids as strings"


def read_label(name: str, raw: msgspec.Raw, limits: EventLimits) -> str:
    """Read a required label, such as an action or a team."""
    text = _decoded(_string, raw, "bad_label", f"{name} must be a string", "send labels as strings")
    return check_label(name, text, limits)


def check_label(name: str, text: str, limits: EventLimits, chars_min: int = 1) -> str:
    """Return a label that follows the rule of labels. Raises MalformedEvent (bad_label) otherwise."""
    if not chars_min <= len(text) <= limits.label_chars_max or has_control(text):
        rule = f"{name} must have {chars_min} to {limits.label_chars_max} characters and no control characters"
        raise malformed("bad_label", rule, text, "shorten the label or remove control characters")
    return text


def sorted_labels(labels: Mapping[str, str] | None) -> Labels:
    """Return labels as (name, value) pairs, sorted by name."""
    if not labels:
        return ()
    return tuple(labels.items()) if len(labels) == 1 else tuple(sorted(labels.items()))


class UsableLabels(NamedTuple):
    """The labels of a list that can be used, sorted by name, and the reason for each one that was dropped or read as text."""

    labels: Labels
    notes: tuple[str, ...] = ()


def read_experiments(raw: msgspec.Raw | None, limits: EventLimits) -> UsableLabels:
    """Read an object experiment -> variant: the first experiments_max by name. A null variant means that the list is not in it.

    Feature flags and client libraries often give an index or a boolean: it is read as its JSON text, and counted.

    >>> read_experiments(msgspec.Raw(b'{"checkout":true,"ranker":1}'), EventLimits())
    UsableLabels(labels=(('checkout', 'true'), ('ranker', '1')), notes=('variant_as_text', 'variant_as_text'))
    """
    raws = _labels_object(raw)
    labels = _first_labels(*_usable(raws, limits, of_variants=True), limits.experiments_max, "too_many_experiments")
    notes = null_notes([name for name, variant in (raws or {}).items() if is_text(variant, b"null")], limits)
    return UsableLabels(labels.labels, labels.notes + notes) if notes else labels


def null_notes(experiments: Iterable[str], limits: EventLimits) -> tuple[str, ...]:
    """Return the notes of a list about the experiments whose variant is null; at most experiments_max, the first ones by name.

    >>> null_notes(["ranker"], EventLimits())
    ('null_variant:ranker',)
    """
    return tuple(NULL_NOTE + name for name in sorted(experiments)[: limits.experiments_max])


def read_segments(raw: msgspec.Raw | None, limits: EventLimits) -> UsableLabels:
    """Read an object segment -> value: the first segments_max by name. An empty or null value equals an absent one."""
    return _first_labels(*_usable(_labels_object(raw), limits, of_variants=False), limits.segments_max, "too_many_segments")


def _first_labels(labels: Labels, notes: list[str], most: int, reason: str) -> UsableLabels:
    """Keep the first labels, and drop the others for this reason."""
    return UsableLabels(labels[:most], tuple(sorted([*notes, *[reason] * (len(labels) - most)])))


def _labels_object(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    """Return the unparsed labels of an object; none if it is absent or null. None for any other value."""
    try:
        return {} if raw is None or is_text(raw, b"null") else _object(raw)
    except msgspec.ValidationError:
        return None


def _usable(raws: Mapping[str, msgspec.Raw] | None, limits: EventLimits, of_variants: bool) -> tuple[Labels, list[str]]:
    """Drop each label that breaks a rule, so that a bad label costs only itself. Null values are absent, not dropped.

    A variant must not be empty, and may be a number or a boolean.
    """
    labels: dict[str, str] = {}
    notes: list[str] = []
    if raws is None:
        notes.append("label_bad_type")
    for name, raw in (raws or {}).items():
        if is_text(raw, b"null"):
            continue
        text = _as_text(raw) if of_variants else None
        if text is not None:
            notes.append("variant_as_text")
        try:
            value = _string(raw) if text is None else text
        except msgspec.ValidationError:
            notes.append("label_bad_type")
            continue
        if not name or (of_variants and not value):
            notes.append("label_empty")
        elif len(name) > limits.label_chars_max or len(value) > limits.label_chars_max:
            notes.append("label_too_long")
        elif has_control(name) or has_control(value):
            notes.append("label_bad_text")
        else:
            labels[name] = value
    return sorted_labels(labels), notes


def _as_text(raw: msgspec.Raw) -> str | None:
    """Return the JSON text of a number or a boolean; None for any other value."""
    try:
        _number_or_boolean(raw)
    except msgspec.ValidationError:
        return None
    return bytes(raw).decode("ascii")


def read_ts(name: str, raw: msgspec.Raw) -> int:
    """Read an event time: an integer of epoch milliseconds in 0 … TS_MAX, or ISO-8601 with a zone (see `iso_ms`)."""
    rule = f"{name} must be an integer of epoch milliseconds in 0 … {TS_MAX}, or ISO-8601 with a zone"
    try:
        ts = ts_of(_text_or_whole(raw))
    except (msgspec.MsgspecError, ValueError):
        ts = None
    if ts is None:
        raise malformed("bad_ts", rule, raw, _ts_advice(raw)) from None
    return ts


_PLAUSIBLE_SECONDS: Final = (946_684_800, 4_102_444_800)
"""The years 2000 to 2099."""
_UNITS: Final = (
    ("seconds", 1, "multiply by 1000 and cut off the fraction"),
    ("milliseconds", 1_000, "send them as a number without a fraction"),
    ("microseconds", 1_000_000, "divide by 1000"),
    ("nanoseconds", 1_000_000_000, "divide by 1000000"),
)


def _ts_advice(raw: msgspec.Raw) -> str:
    """Return what to do about a time that cannot be read: the unit that it seems to have, if it is a number in this century."""
    text = bytes(memoryview(raw)[:32])
    try:
        number = float(text.strip(b'"'))
    except ValueError:
        return "send a number, or a time such as 2026-01-31T09:00:00Z"
    first, last = _PLAUSIBLE_SECONDS
    for unit, per_second, advice in _UNITS:
        if first <= number / per_second < last:
            return f"it looks like {unit}: {advice}"
    return "send milliseconds without a fraction or exponent"


def ts_of(time: int | str) -> int | None:
    """Return the event time (ms) of an integer or ISO text, or None if an event cannot have that time."""
    ts = iso_ms(time) if isinstance(time, str) else time
    return None if ts is None or not 0 <= ts <= TS_MAX else ts


def read_number(name: str, raw: msgspec.Raw) -> float:
    """Read a finite number: any JSON number that fits a double."""
    rule, advice = f"{name} must be a finite number", "send a number or null"
    number = _decoded(_number, raw, "bad_value", rule, advice)
    if not math.isfinite(number):
        raise malformed("bad_value", rule, raw, advice)
    return number


def read_position(name: str, raw: msgspec.Raw) -> int:
    """Read a position: an integer in 0 … POSITION_MAX."""
    rule, advice = f"{name} must be an integer in 0 … {POSITION_MAX}", "send the position in the list as an integer"
    position = _decoded(_whole, raw, "bad_position", rule, advice)
    if not 0 <= position <= POSITION_MAX:
        raise malformed("bad_position", rule, raw, advice)
    return position


def check_count(elements: int, limits: EventLimits) -> None:
    """Raise MalformedEvent (too_many_items) if a list has more than items_max items."""
    if elements > limits.items_max:
        rule = f"a list may have at most {limits.items_max} items, but this one has {elements}"
        raise malformed("too_many_items", rule, None, "send shorter lists or raise items_max")


def check_value(value: bytes | None, limits: EventLimits) -> bytes:
    """Return the bytes of one event. Raises MalformedEvent if there are none, only white space, or too many."""
    if value is None or not value.strip():
        raise malformed("empty", "a record must contain an event", value, "do not send tombstones to this topic")
    if len(value) > limits.event_bytes_max:
        is_cut = len(value) == limits.event_bytes_max + 1  # a file source cuts an oversized line here, so its full length is unknown
        rule = f"an event may have at most {limits.event_bytes_max} bytes, but this one has {'more' if is_cut else len(value)}"
        raise malformed("oversized", rule, value, "send smaller events or raise event_bytes_max")
    return value


def _decoded(decode: Callable[[msgspec.Raw], Value], raw: msgspec.Raw, reason: str, rule: str, advice: str) -> Value:
    try:
        return decode(raw)
    except (msgspec.MsgspecError, ValueError):
        raise malformed(reason, rule, raw, advice) from None
