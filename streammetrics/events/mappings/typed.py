"""The fastest decoder of mapped records: the parser checks the types and lengths of all fields.

It is for topics with simple mappings: one field tells the kinds of records apart, ids are texts, and no value is composed. It returns the
same events as the other decoders, and raises NOT_ACCEPTED (see `fallback`) for every record that it leaves to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Meta

from streammetrics.events.fields import POSITION_MAX, ts_of
from streammetrics.events.json_text import BACKSLASH, DELETE, FLAT_BYTES_MAX, is_shallow, may_hold_control, too_deep
from streammetrics.events.mappings.labels import NO_LABELS, labels_reader
from streammetrics.events.mappings.paths import Get, Path
from streammetrics.events.mappings.rules import Constant, FieldSource, MappingRule
from streammetrics.events.mappings.watch import NoteOf
from streammetrics.events.model import TS_MAX, Event, EventLimits, Feedback, Impression, RecordPart

BuildTyped: TypeAlias = Callable[[Any], Event]
_Way: TypeAlias = tuple[BuildTyped | None, NoteOf | None]
"""What to build from a record, or None to ignore it, and the watch of its mapping."""

_NO_TEXTS: Final = frozenset({""})
_UNCLEAR: Final = "left to the other decoders"


class NotSimpleError(Exception):
    """The mappings need another decoder."""


class TypedShape:
    """The fields that simple mappings need, each with one type."""

    def __init__(self) -> None:
        self.fields: dict[str, TypedShape | Any] = {}
        self.names: dict[Get, str] = {}
        """The attribute of each getter, so that several can be read in one call."""

    def get(self, path: Path, kind: Any = Any) -> Get:
        """Add a field; return its getter. Raises NotSimpleError if the field has another use already."""
        names: list[str] = []
        node = self
        for step in path.steps[:-1]:
            node = node._field(step, names, TypedShape())
            if not isinstance(node, TypedShape):
                raise NotSimpleError
        if node._field(path.steps[-1], names, kind) != kind:
            raise NotSimpleError
        get = attrgetter(".".join(names))
        self.names[get] = ".".join(names)
        return get

    def array(self, path: Path) -> Get:
        raise NotSimpleError

    def elements(self, path: Path) -> Any:
        raise NotSimpleError

    def _field(self, step: object, names: list[str], default: Any) -> Any:
        if type(step) is not str:
            raise NotSimpleError
        found = self.fields.setdefault(step, default)
        names.append(f"f{list(self.fields).index(step)}")
        return found

    def struct(self) -> Any:
        fields = []
        for index, kind in enumerate(self.fields.values()):
            inner = kind.struct() if isinstance(kind, TypedShape) else None
            fields.append((f"f{index}", kind, None) if inner is None else (f"f{index}", inner, inner()))
        return msgspec.defstruct("Fields", fields, rename={f"f{at}": name for at, name in enumerate(self.fields)}, gc=False, frozen=True)


def typed_decoder(
    rules: Sequence[MappingRule], limits: EventLimits, watches: Sequence[NoteOf | None]
) -> Callable[[bytes], Sequence[RecordPart] | None] | None:
    """Return the decoder, or None if the mappings are not simple. Its result None means that the record is ignored."""
    try:
        shape = TypedShape()
        select, table, default = _table(rules, shape, limits, watches)
    except NotSimpleError:
        return None
    parse: Callable[[bytes], Any] = msgspec.json.Decoder(shape.struct()).decode
    bytes_max = limits.event_bytes_max

    def decode(value: bytes) -> Sequence[RecordPart] | None:
        if len(value) > bytes_max:
            raise ValueError(_UNCLEAR)
        if (not value.isascii() or BACKSLASH in value or DELETE in value) and may_hold_control(value):
            raise ValueError(_UNCLEAR)
        record = parse(value)
        if len(value) > FLAT_BYTES_MAX and not is_shallow(value) and too_deep(value):
            raise ValueError(_UNCLEAR)
        build, watch = table.get(select(record), default)
        if build is None:
            return None
        events = (build(record),)
        if watch is None or (note := watch(events, value)) is None:
            return events
        return (*events, note)

    return decode


def _unclear(record: Any) -> Event:
    raise ValueError(_UNCLEAR)


def _table(
    rules: Sequence[MappingRule], shape: TypedShape, limits: EventLimits, watches: Sequence[NoteOf | None]
) -> tuple[Get, Mapping[Any, _Way], _Way]:
    """Return the getter of the selecting field, and what to do for each of its values and for all others."""
    used = [rule for rule in rules if rule.kind != "ignore"]
    paths = {condition.path for rule in rules for condition in rule.when}
    if len(paths) > 1 or any(rule.kind not in ("impression", "feedback") or rule.absent != _NO_TEXTS for rule in used):
        raise NotSimpleError
    label: Any = Annotated[str, Meta(max_length=limits.label_chars_max)] | None
    select: Get = shape.get(paths.pop(), label) if paths else lambda record: None
    table: dict[Any, _Way] = {}
    default: _Way = _unclear, None
    pairs = sorted(zip(rules, watches, strict=True), key=lambda pair: pair[0].kind == "ignore")
    for rule, watch in pairs:
        build = None if rule.kind == "ignore" else (_impression if rule.kind == "impression" else _feedback)(rule, shape, limits)
        if not rule.when:
            if build is not None and (len(rules) > 1 or table):
                raise NotSimpleError
            default = build, watch
            continue
        values = rule.when[0].values
        if len(rule.when) > 1 or values is None or not rule.when[0].holds_if_found or not all(type(value) is str for value in values):
            raise NotSimpleError
        for value in values:
            if build is not None and value in table:
                raise NotSimpleError  # one record, several events
            table.setdefault(value, (build, watch))
    return select, table, default


def _text(source: FieldSource, shape: TypedShape, chars_max: int) -> Get:
    """Return a function to the first text that is not empty, or None."""
    kind: Any = Annotated[str, Meta(max_length=chars_max)] | None
    alternatives, renamed = source.alternatives, source.rename
    if len(alternatives) == 1 and isinstance(alternatives[0], Constant):
        text = alternatives[0].value
        if type(text) is not str:
            raise NotSimpleError
        return lambda record: text
    gets = [shape.get(path, kind) for path in alternatives if isinstance(path, Path)]
    if len(gets) < len(alternatives):
        raise NotSimpleError
    if len(gets) == 1 and not renamed:
        return gets[0]

    def read(record: Any) -> Any:
        for get in gets:
            if found := get(record):
                return renamed.get(found, found)
        return None

    return read


def _time(rule: MappingRule, shape: TypedShape) -> Get:
    assert rule.ts is not None
    if len(rule.ts.alternatives) > 1 or rule.ts.rename or not isinstance(rule.ts.alternatives[0], Path):
        raise NotSimpleError
    in_ms = rule.ts_unit == "ms"
    get = shape.get(rule.ts.alternatives[0], (Annotated[int, Meta(ge=0, le=TS_MAX)] | None) if in_ms else (str | None))

    def read(record: Any) -> int:
        found = get(record)
        ts = None if found is None or found.isdigit() else ts_of(found)
        if ts is None:
            raise ValueError(_UNCLEAR)
        return ts

    return get if in_ms else read


def _feedback(rule: MappingRule, shape: TypedShape, limits: EventLimits) -> BuildTyped:
    if rule.items is not None or rule.item_id is None or rule.action is None or rule.user_id is None:
        raise NotSimpleError
    user_of, time_of = _text(rule.user_id, shape, limits.id_chars_max), _time(rule, shape)
    item_of, action_of = _text(rule.item_id, shape, limits.id_chars_max), _text(rule.action, shape, limits.label_chars_max)
    list_of: Get = (lambda record: None) if rule.impression_id is None else _text(rule.impression_id, shape, limits.id_chars_max)
    value_of: Get = lambda record: None  # noqa: E731
    if rule.value is not None:
        if len(rule.value.alternatives) > 1 or rule.value.rename or not isinstance(rule.value.alternatives[0], Path):
            raise NotSimpleError
        value_of = shape.get(rule.value.alternatives[0], float | None)

    def build(record: Any) -> Event:
        user, ts, item, action = user_of(record), time_of(record), item_of(record), action_of(record)
        if not user or not item or not action or ts is None:
            raise ValueError(_UNCLEAR)
        return Feedback(user, ts, item, action, value_of(record), list_of(record) or None)

    gets = (user_of, time_of, item_of, action_of, value_of, list_of)
    if not all(get in shape.names for get in gets):
        return build
    read = attrgetter(*[shape.names[get] for get in gets])

    def build_at_once(record: Any) -> Event:
        user, ts, item, action, value, impression_id = read(record)
        if not user or not item or not action or ts is None:
            raise ValueError(_UNCLEAR)
        return Feedback(user, ts, item, action, value, impression_id or None)

    return build_at_once


def _impression(rule: MappingRule, shape: TypedShape, limits: EventLimits) -> BuildTyped:
    if rule.items is None or rule.fragment or rule.item_team is not None or rule.user_id is None or rule.impression_id is None:
        raise NotSimpleError
    user_of, list_of = _text(rule.user_id, shape, limits.id_chars_max), _text(rule.impression_id, shape, limits.id_chars_max)
    time_of, items_of = _time(rule, shape), _items(rule, shape, limits)
    experiments_of, segments_of = labels_reader("experiments", rule, shape, limits), labels_reader("segments", rule, shape, limits)

    def build(record: Any) -> Event:
        user, impression_id, ts = user_of(record), list_of(record), time_of(record)
        if not user or not impression_id or ts is None:
            raise ValueError(_UNCLEAR)
        experiments, notes = NO_LABELS if experiments_of is None else experiments_of(record)
        segments, more_notes = NO_LABELS if segments_of is None else segments_of(record)
        if notes or more_notes:
            raise ValueError(_UNCLEAR)
        return Impression(impression_id, user, ts, items_of(record), experiments, segments)

    return build


def _items(rule: MappingRule, shape: TypedShape, limits: EventLimits) -> Get:
    """Return a function to the items of a list, in order."""
    assert rule.items is not None
    path = rule.items.alternatives[0]
    if len(rule.items.alternatives) > 1 or not isinstance(path, Path):
        raise NotSimpleError
    if rule.item_id is None:
        if rule.item_position is not None:
            raise NotSimpleError
        return _texts(path, shape, limits)
    return _objects(path, rule, rule.item_id, shape, limits)


def _texts(path: Path, shape: TypedShape, limits: EventLimits) -> Get:
    """Return a function to the items of an array of ids."""
    full: Any = Annotated[str, Meta(min_length=1, max_length=limits.id_chars_max)]
    get = shape.get(path, Annotated[tuple[full, ...], Meta(max_length=limits.items_max)] | None)

    def read(record: Any) -> tuple[str, ...]:
        found: tuple[str, ...] | None = get(record)
        if found is None:
            raise ValueError(_UNCLEAR)
        return found

    return read


def _objects(path: Path, rule: MappingRule, item_id: FieldSource, shape: TypedShape, limits: EventLimits) -> Get:
    """Return a function to the items of an array of objects, each with an id and perhaps a position."""
    inside = TypedShape()
    id_of, position_of = _text(item_id, inside, limits.id_chars_max), _position(rule, inside, limits)
    order_counts = rule.order_counts
    elements_of = shape.get(path, _array_of(inside.struct(), limits))

    def read(record: Any) -> tuple[str, ...]:
        elements = elements_of(record)
        if elements is None:
            raise ValueError(_UNCLEAR)
        ids = tuple([id_of(element) for element in elements])
        if not all(ids):
            raise ValueError(_UNCLEAR)
        if position_of is not None and ids:
            positions = [position_of(element) for element in elements]
            if order_counts and not any(position is not None for position in positions):
                return ids
            if None in positions or positions != sorted(positions) or len(set(positions)) < len(positions):
                raise ValueError(_UNCLEAR)
        return ids

    return read


def _position(rule: MappingRule, inside: TypedShape, limits: EventLimits) -> Get | None:
    """Return a function to the position of an item; None if the mapping has none."""
    source = rule.item_position
    if source is None:
        return None
    place = source.alternatives[0]
    if limits.first_place is not None or len(source.alternatives) > 1 or source.rename or not isinstance(place, Path):
        raise NotSimpleError
    return inside.get(place, Annotated[int, Meta(ge=0, le=POSITION_MAX)] | None)


def _array_of(kind: Any, limits: EventLimits) -> Any:
    return Annotated[list[kind], Meta(max_length=limits.items_max)] | None
