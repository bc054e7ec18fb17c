"""Notes which optional paths of a mapping each record has, so that a path that finds nothing is not lost without a word.

The note is a value next to the record's events. The engine counts it. Nothing of it changes an event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from streammetrics.events.mappings.nearest import nearest_path
from streammetrics.events.mappings.paths import Path
from streammetrics.events.mappings.rules import Constant, FieldSource, MappingRule, Template
from streammetrics.events.model import Feedback, Impression, PathsFound, RecordPart, WatchedPath

LOOKS_MAX: Final = 20
"""Records in which the nearest name of a path is looked for."""
SETS_MAX: Final = 10_000
"""Most label sets whose paths are remembered."""

LABEL_USED: Final = "variant_as_text"
"""The only note of a label that is about one that was not dropped."""

_parse = msgspec.json.Decoder().decode


class Shipped(NamedTuple):
    """The format that a mapping ships with, and the names of the segments that the settings use. Its other segments are not watched."""

    format: str
    segments: Collection[str]


def watched_sources(rule: MappingRule, shipped: Shipped | None = None) -> list[tuple[str, FieldSource]]:
    """Return the optional fields of a mapping and their sources, but not those with a constant, which always have a value."""
    if rule.kind == "impression":
        sources = [*_labels("experiments", rule.experiments), *_labels("segments", rule.segments), ("item_team", rule.item_team)]
    elif rule.kind == "feedback":
        value = ("value", rule.value) if rule.item_value is None else ("item_value", rule.item_value)
        sources = [("impression_id", rule.impression_id), value]
    else:
        sources = []
    unused = () if shipped is None else [name for name, _ in sources if name.startswith("segments.") and name[9:] not in shipped.segments]
    given = [(name, source) for name, source in sources if source is not None and name not in unused]
    return [(name, source) for name, source in given if not any(map(_is_constant, source.alternatives))]


def _labels(key: str, sources: Any) -> list[tuple[str, FieldSource | None]]:
    if sources is None or isinstance(sources, FieldSource):
        return [(key, sources)]
    return [(f"{key}.{name}", source) for name, source in sources.items()]


def _is_constant(alternative: object) -> bool:
    return isinstance(alternative, Constant)


def watched_paths(rule: MappingRule, shipped: Shipped | None = None) -> tuple[WatchedPath, ...]:
    """Return the paths of a mapping that are watched.

    >>> from streammetrics.events.mappings.rules import parse_mappings
    >>> click = {"kind": "feedback", "user_id": "u", "ts": "t", "item_id": "i", "action": "a", "value": "seconds"}
    >>> watched_paths(parse_mappings([click])[0])
    (WatchedPath(mapping='mapping 1', field='value', path='seconds', format=''),)
    """
    format = "" if shipped is None else shipped.format
    return tuple(WatchedPath(rule.name, name, str(source), format) for name, source in watched_sources(rule, shipped))


class PathWatch:
    """The watched paths of one mapping."""

    def __init__(self, rule: MappingRule, shipped: Shipped | None = None) -> None:
        self.paths, self._places = watched_paths(rule, shipped), [_place(source) for _, source in watched_sources(rule, shipped)]
        self._all = (1 << len(self.paths)) - 1
        self._bits = {path.field: 1 << at for at, path in enumerate(self.paths)}
        self._marks: dict[int, PathsFound] = {}
        self._looked = 0
        self._near = [""] * len(self.paths)
        self._of_labels: dict[Any, int] = {}
        self._names = [(name, *field.partition(".")[::2]) for field, name in self._bits.items()]
        self._team = self._bits.get("item_team", 0)
        self._list, self._value = self._bits.get("impression_id", 0), self._bits.get("value", 0) | self._bits.get("item_value", 0)

    def of(self, events: Sequence[RecordPart], value: bytes) -> PathsFound | None:
        """Return the note for a record. None if it has no event. `value` is the record's JSON."""
        bits = -1
        for event in events:
            if type(event) is Feedback:
                own = (0 if event.impression_id is None else self._list) | (0 if event.value is None else self._value)
            elif type(event) is Impression:
                own = self._of_labels.get((event.experiments, event.segments), -1)
                if own < 0 or (event.label_notes and _has_dropped(event)):
                    own = self._labels_of(event)
                if event.teams:
                    own |= self._team
            else:
                continue
            bits = own if bits < 0 else bits | own
        if bits < 0:
            return None
        if bits != self._all and self._looked < LOOKS_MAX:
            self._look(bits, value)
        return self._marks.get(bits) or self._mark(bits)

    def _labels_of(self, event: Impression) -> int:
        """Return the labels that a list has. A label that was dropped has a reason of its own."""
        labels, has_dropped = {"experiments": event.experiments, "segments": event.segments}, _has_dropped(event)
        bits = 0
        for bit, kind, name in self._names:
            found = labels.get(kind)
            if found is not None and (has_dropped or (any(name == each for each, _ in found) if name else bool(found))):
                bits |= bit
        if not has_dropped:
            if len(self._of_labels) >= SETS_MAX:
                self._of_labels.clear()
            self._of_labels[event.experiments, event.segments] = bits
        return bits

    def _look(self, bits: int, value: bytes) -> None:
        """Look for the nearest names of the paths without a value."""
        self._looked += 1
        missing = [at for at in range(len(self.paths)) if not bits >> at & 1 and not self._near[at]]
        if not missing:
            return
        try:
            record = _parse(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return
        for at in missing:
            place = self._places[at]
            if place is not None and (near := nearest_path(record, place)) is not None and near != place.text:
                self._near[at] = near
                self._marks.clear()

    def _mark(self, bits: int) -> PathsFound:
        found = tuple(path for at, path in enumerate(self.paths) if bits >> at & 1)
        absent = tuple((path, self._near[at]) for at, path in enumerate(self.paths) if not bits >> at & 1)
        mark = self._marks[bits] = PathsFound(self.paths[0].mapping, found, absent)
        return mark


def _has_dropped(event: Impression) -> bool:
    return bool(event.label_notes) and any(note != LABEL_USED for note in event.label_notes)


def _place(source: FieldSource) -> Path | None:
    """Return the first path of a source."""
    for alternative in source.alternatives:
        parts = alternative.parts if isinstance(alternative, Template) else (alternative,)
        if (path := next((part for part in parts if isinstance(part, Path)), None)) is not None:
            return path
    return None


NoteOf: TypeAlias = Callable[[Sequence[RecordPart], bytes], PathsFound | None]
"""Returns the note of a record's events."""


def watch_of(rule: MappingRule, shipped: Shipped | None = None) -> NoteOf | None:
    """Return a function from the events of a record to its note. None if the mapping has no watched path."""
    return PathWatch(rule, shipped).of if watched_sources(rule, shipped) else None
