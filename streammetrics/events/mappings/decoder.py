"""The decoder of a topic with mappings: a record -> the events of every mapping that applies to it.

A typed parser reads the fields that the mappings need, and checks them. The explainer reads what the parser refuses, by the same compiled
mappings. So the parser changes the speed, never the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streammetrics.events.json_text import BACKSLASH, DELETE, FLAT_BYTES_MAX, is_shallow, may_hold_control, too_deep
from streammetrics.events.malformed import NOT_ACCEPTED
from streammetrics.events.mappings.compiled import Build, Whole, compile_rule, condition_reader, is_of_text
from streammetrics.events.mappings.explainer import IGNORED_RECORD, Explainer, with_note
from streammetrics.events.mappings.paths import Get
from streammetrics.events.mappings.plain import exact
from streammetrics.events.mappings.rules import MappingRule
from streammetrics.events.mappings.typed import NotTypedError, Shape, TypedAccess
from streammetrics.events.mappings.watch import NoteOf
from streammetrics.events.model import EventLimits, RecordPart

SELECTIONS_MAX: Final = 1_000
"""Most combinations of texts whose mappings are remembered."""

_REFUSED: Final = (*NOT_ACCEPTED, AttributeError)
"""What is raised for records that are left to the explainer: also for an object of an array in which another object is null."""

Act: TypeAlias = Callable[[Any, bytes], Sequence[RecordPart] | None]
"""Returns what the mappings make of a parsed record. None: no mapping applies."""


class Way(NamedTuple):
    """A compiled mapping: its conditions on texts, its other conditions, what it builds (None: nothing), and the watch of its paths."""

    texts: Sequence[Get]
    matches: Get | None
    build: Build | None
    watch: NoteOf | None


def mapped_decoder(
    rules: Sequence[MappingRule], limits: EventLimits, formats: Mapping[str, Whole], watches: Sequence[NoteOf | None] = ()
) -> Whole:
    """Return a decoder of records by mappings. Every mapping whose condition holds makes its events, in order.

    A record is ignored if only mappings with kind = ignore apply. It is malformed if none applies. `watches` has a function
    for each mapping, or is empty: the note that it returns follows the events of the mapping (see `watch`).

    >>> from streammetrics.events.mappings.rules import parse_mappings
    >>> rules = parse_mappings([{"kind": "feedback", "when": {"event": "click"}, "user_id": "user", "ts": "time", "ts_unit": "s",
    ...                          "items": "skus", "action": "event"}])
    >>> decode = mapped_decoder(rules, EventLimits(), {})
    >>> [event.item_id for event in decode(b'{"event":"click","user":7,"time":1772359200,"skus":["a","b"]}')]
    ['a', 'b']
    >>> decode(b'{"event":"page"}')[0].detail
    'no mapping applies to this record: event is "page"; add a mapping for it, or one with kind = "ignore"'
    """
    watches = watches or [None] * len(rules)
    explain = Explainer(rules, limits, formats, watches)
    with suppress(NotTypedError):
        explain.decode = typed_decoder(rules, limits, formats, watches, explain)
    return explain.decode


def typed_decoder(
    rules: Sequence[MappingRule],
    limits: EventLimits,
    formats: Mapping[str, Whole],
    watches: Sequence[NoteOf | None],
    explain: Whole,
) -> Whole:
    """Return a decoder by the typed parser, with `explain` for what the parser refuses. Raises NotTypedError.

    For each combination of the texts that tell records apart, the mappings that may apply are looked up only once. A record that may hold
    a control character, or has a field of no one type, is read value by value.
    """
    shape = Shape()
    alone = TypedAccess(shape, False)
    paths = {each.path: None for rule in rules for each in rule.when if is_of_text(each)}
    values_of = alone.values(list(paths), limits.label_chars_max)

    def compiled(access: TypedAccess) -> list[Way]:
        ways = []
        for rule, watch in zip(rules, watches, strict=True):
            settled = [each for each in rule.when if is_of_text(each) or (each.values is None and each.path in paths)]
            one = compile_rule(rule, access, limits, formats, settled)
            holds = [condition_reader(each, alone, rule.absent, limits.label_chars_max) for each in settled]
            ways.append(Way(holds, one.matches, one.build, watch))
        return ways

    compiled(alone)
    fast, careful = compiled(TypedAccess(shape, True)), compiled(alone)
    parse: Callable[[bytes], Any] = msgspec.json.Decoder(shape.struct(limits), float_hook=exact).decode
    at_once: dict[Any, Act] = {}
    one_by_one: dict[Any, Act] = {}
    checked = one_by_one if shape.is_loose else at_once
    select: Get = (lambda record: _texts(values_of(record))) if shape.is_loose else values_of
    bytes_max = limits.event_bytes_max

    def look_up(record: Any, key: Any, acts: dict[Any, Act]) -> Act:
        if len(acts) >= SELECTIONS_MAX:
            acts.clear()
        ways = fast if acts is at_once else careful
        act = acts[key] = _act([way for way in ways if all(holds(record) for holds in way.texts)])
        return act

    def decode(value: bytes | None) -> Sequence[RecordPart]:
        if value is None or len(value) > bytes_max:
            return explain(value)
        acts = checked
        try:
            if (not value.isascii() or BACKSLASH in value or DELETE in value) and may_hold_control(value):
                acts = one_by_one
            record = parse(value)
            if len(value) > FLAT_BYTES_MAX and not is_shallow(value) and too_deep(value):
                return explain(value)
            try:
                key = select(record)
                found = (acts.get(key) or look_up(record, key, acts))(record, value)
            except AttributeError:  # an object is null
                record = shape.filled(record)
                key = select(record)
                found = (acts.get(key) or look_up(record, key, acts))(record, value)
        except _REFUSED:
            return explain(value)
        return explain(value) if found is None else found

    return decode


def _texts(found: Any) -> Any:
    """Return a value, or each of several, if it is a text or absent; otherwise a mark that it is neither."""
    return tuple(map(_texts, found)) if type(found) is tuple else found if found is None or type(found) is str else ...


def _act(ways: Sequence[Way]) -> Act:
    """Return a function from a record to what these mappings make of it."""
    used = [(way.matches, way.build, way.watch) for way in ways if way.build is not None]
    ignoring = [way.matches for way in ways if way.build is None]
    if used and used[0][0] is None and len(used) == 1:
        return _only_act(*used[0][1:])

    def act(record: Any, value: bytes) -> Sequence[RecordPart] | None:
        found: Sequence[RecordPart] | None = None
        for matches, build, watch in used:
            if matches is not None and not matches(record):
                continue
            made = with_note(build(record, value), value, watch)
            found = made if found is None else [*found, *made]
        if found is not None:
            return found
        for matches in ignoring:
            if matches is None or matches(record):
                return IGNORED_RECORD
        return None

    return act


def _only_act(build: Build, watch: NoteOf | None) -> Act:
    """Return the same for the only mapping that makes events, the common case."""
    if watch is None:
        return build

    def act(record: Any, value: bytes) -> Sequence[RecordPart]:
        events = build(record, value)
        note = watch(events, value)
        return events if note is None else (*events, note)

    return act
