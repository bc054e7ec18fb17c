"""Reads the records that the typed parser refuses, as plain objects, and names the rule that a malformed one breaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events import fields
from streammetrics.events.advice.recognize_bytes import explained_bytes
from streammetrics.events.batches import decoded_batch, elements_of
from streammetrics.events.json_text import read_document, too_deep
from streammetrics.events.malformed import malformed, without_traceback
from streammetrics.events.mappings.compiled import Compiled, Whole, compile_rule
from streammetrics.events.mappings.paths import PlainAccess, walker
from streammetrics.events.mappings.plain import parse_plain
from streammetrics.events.mappings.rules import MappingRule
from streammetrics.events.mappings.values import named, shown
from streammetrics.events.mappings.watch import NoteOf
from streammetrics.events.model import EventLimits, RecordPart
from streammetrics.events.outcomes import IGNORED

IGNORED_RECORD: Final = (MalformedEvent(IGNORED, "a mapping with kind = ignore applies"),)
"""The result for a record that mappings ignore. It is counted, but not as malformed and not dead-lettered."""


class Explainer:
    """Decodes any record by mappings, more slowly than the typed parser. `decode` decodes the elements of an array."""

    def __init__(
        self, rules: Sequence[MappingRule], limits: EventLimits, formats: Mapping[str, Whole], watches: Sequence[NoteOf | None]
    ) -> None:
        self.decode: Whole = self
        self._limits, self._watches = limits, watches
        self._compiled = [compile_rule(rule, PlainAccess(), limits, formats) for rule in rules]
        paths = {condition.path.text: condition.path for rule in rules for condition in rule.when}
        self._conditions = {text: walker(path.steps) for text, path in paths.items()}

    def __call__(self, value: bytes | None) -> Sequence[RecordPart]:
        try:
            sent = fields.check_value(value, self._limits)
            record = _parse(sent)
        except MalformedEvent as error:
            if error.reason == "bad_json" and (elements := elements_of(value)) is not None:
                return decoded_batch(elements, self.decode)
            return (explained_bytes(without_traceback(error), value),)
        pairs = zip(self._compiled, self._watches, strict=True)
        applied = [(each, watch) for each, watch in pairs if each.matches is None or each.matches(record)]
        used = [(each, watch) for each, watch in applied if each.build is not None]
        if used:
            return [part for each, watch in used for part in with_note(_built(each, record, sent), sent, watch)]
        return IGNORED_RECORD if applied else (self._unmapped(record),)

    def _unmapped(self, record: Any) -> MalformedEvent:
        found = ", ".join(f"{text} is {_excerpt(get(record))}" for text, get in self._conditions.items())
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
    problem = ""
    try:
        value.decode()
        found: Any = parse_plain(value)
        if type(found) is dict and not too_deep(value):
            return found
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        problem = str(error)
    read_document(value)  # it names what is wrong
    raise malformed("bad_json", problem, value, "send one JSON object in UTF-8")


def _excerpt(found: object) -> str:
    text = "absent" if found is None else shown(found)
    return text if len(text) <= 60 else text[:60] + "…"
