"""The decoder of a topic with mappings: a record -> the events of every mapping that applies to it.

Records are parsed into a struct with only the fields that the mappings need. Records that do not fit it, or that break a rule, are
parsed into plain objects instead, by the same compiled mappings. These name the broken rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.batches import decoded_batch, elements_of
from streammetrics.events.fallback import NOT_ACCEPTED
from streammetrics.events.json_text import FLAT_BYTES_MAX, is_shallow, read_document, too_deep
from streammetrics.events.malformed import malformed, without_traceback
from streammetrics.events.mappings.compiled import Compiled, Whole, compile_rule
from streammetrics.events.mappings.paths import DictAccess, Shape, walker
from streammetrics.events.mappings.plain import exact, parse_plain
from streammetrics.events.mappings.rules import MappingRule
from streammetrics.events.mappings.typed import typed_decoder
from streammetrics.events.mappings.values import named, shown
from streammetrics.events.mappings.watch import NoteOf
from streammetrics.events.model import EventLimits, RecordPart
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.recognize_bytes import explained_bytes

IGNORED_RECORD: Final = (MalformedEvent(IGNORED, "a mapping with kind = ignore applies"),)
"""The result for a record that mappings ignore. It is counted, but not as malformed and not dead-lettered."""

TYPED_FAILURES_MAX: Final = 20
TYPED_AGAIN: Final = 100
"""After so many records in a row that the typed decoder leaves to the general one, it sees only every hundredth."""


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
    shape = Shape()
    for rule in rules:
        compile_rule(rule, shape, limits, formats)
    struct = shape.struct()
    watches = watches or [None] * len(rules)
    reference = _Reference(rules, limits, formats, watches)
    if struct is None:
        return reference
    compiled = [(*compile_rule(rule, shape.access(), limits, formats)[1:], watch) for rule, watch in zip(rules, watches, strict=True)]
    parse: Callable[[bytes], Any] = msgspec.json.Decoder(struct, float_hook=exact).decode
    bytes_max = limits.event_bytes_max

    def decode(value: bytes | None) -> Sequence[RecordPart]:
        if value is None or len(value) > bytes_max:
            return reference(value)
        try:
            record = parse(value)
            if not value.isascii():
                value.decode()
            if len(value) > FLAT_BYTES_MAX and not is_shallow(value) and too_deep(value):
                return reference(value)
            found: Sequence[RecordPart] | None = None
            ignored = False
            for matches, build, watch in compiled:
                if matches is None or matches(record):
                    if build is None:
                        ignored = True
                    else:
                        made = with_note(build(record, value), value, watch)
                        found = made if found is None else [*found, *made]
        except NOT_ACCEPTED:
            return reference(value)
        if found is not None:
            return found
        return IGNORED_RECORD if ignored else reference(value)

    reference.decode = _with_typed(typed_decoder(rules, limits, watches), decode)
    return reference.decode


def _with_typed(typed: Callable[[bytes], Sequence[RecordPart] | None] | None, general: Whole) -> Whole:
    """Return a decoder that tries the typed one first, as long as it accepts records: senders rarely change their form.

    This changes the speed, never the result.
    """
    if typed is None:
        return general
    refused = 0

    def decode(value: bytes | None) -> Sequence[RecordPart]:
        nonlocal refused
        if value is None or (refused >= TYPED_FAILURES_MAX and (refused := refused + 1) % TYPED_AGAIN):
            return general(value)
        try:
            found = typed(value)
        except NOT_ACCEPTED:
            refused += 1
            return general(value)
        refused = 0
        return IGNORED_RECORD if found is None else found

    return decode


class _Reference:
    """The decoder that names the broken rule of a record. It works on plain objects."""

    def __init__(
        self, rules: Sequence[MappingRule], limits: EventLimits, formats: Mapping[str, Whole], watches: Sequence[NoteOf | None]
    ) -> None:
        self.limits = limits
        self.watches = watches
        self.decode: Whole = self
        """Decodes the elements of an array."""
        self.compiled = [compile_rule(rule, DictAccess(), limits, formats) for rule in rules]
        paths = {condition.path.text: condition.path for rule in rules for condition in rule.when}
        self.conditions = {text: walker(path.steps) for text, path in paths.items()}

    def __call__(self, value: bytes | None) -> Sequence[RecordPart]:
        try:
            sent = fields.check_value(value, self.limits)
            record = _parse(sent)
        except MalformedEvent as error:
            if error.reason == "bad_json" and (elements := elements_of(value)) is not None:
                return decoded_batch(elements, self.decode)
            return (explained_bytes(without_traceback(error), value),)
        pairs = zip(self.compiled, self.watches, strict=True)
        applied = [(each, watch) for each, watch in pairs if each.matches is None or each.matches(record)]
        used = [(each, watch) for each, watch in applied if each.build is not None]
        if used:
            return [event for each, watch in used for event in with_note(_built(each, record, sent), sent, watch)]
        return IGNORED_RECORD if applied else (self._unmapped(record),)

    def _unmapped(self, record: Any) -> MalformedEvent:
        found = ", ".join(f"{text} is {_excerpt(get(record))}" for text, get in self.conditions.items())
        rule = "no mapping applies to this record" + (f": {found}" if found else "")
        return without_traceback(malformed("bad_type", rule, None, 'add a mapping for it, or one with kind = "ignore"'))


def with_note(events: Sequence[RecordPart], value: bytes, watch: NoteOf | None) -> Sequence[RecordPart]:
    """Return the events of a mapping, and the note of its watched paths after them."""
    note = None if watch is None else watch(events, value)
    return events if note is None else (*events, note)


def _built(each: Compiled, record: Any, value: bytes) -> Sequence[RecordPart]:
    assert each.build is not None
    try:
        return each.build(record, value)
    except MalformedEvent as error:
        return (without_traceback(named(each.name, error)),)


def _parse(value: bytes) -> dict[str, Any]:
    """Return a record as plain objects. Raises MalformedEvent for anything but a JSON object."""
    read_document(value)  # it names what is wrong
    try:
        found: dict[str, Any] = parse_plain(value)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise malformed("bad_json", str(error), value, "send one JSON object in UTF-8") from None
    return found


def _excerpt(found: object) -> str:
    text = "absent" if found is None else shown(found)
    return text if len(text) <= 60 else text[:60] + "…"
