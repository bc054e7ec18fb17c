"""Experiments and segments of a mapped list: from an object in the record, or from one path for each name.

The rules of labels are those of native events: a label that breaks one is dropped, and the list counts without it. Whole numbers, decimal
numbers and booleans become text. A path with such a value, or a text, in the place of an object has one label, named like its last step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

import msgspec

from streammetrics.events.fields import usable_experiments, usable_segments
from streammetrics.events.label_cache import LabelCache, LabelSet
from streammetrics.events.mappings.paths import Access, Get, Path, PlainAccess
from streammetrics.events.mappings.plain import json_in_text, parse_plain
from streammetrics.events.mappings.rules import Constant, FieldSource, MappingRule
from streammetrics.events.mappings.values import ANY, reader_of
from streammetrics.events.model import EventLimits

LabelSource: TypeAlias = FieldSource | Mapping[str, FieldSource] | None
_NONE: LabelSet = ((), (), ())
_VALUES: Final = (str, int, bool, Decimal)
_encode = msgspec.json.Encoder().encode


def labels_reader(rule: MappingRule, access: Access, limits: EventLimits) -> Callable[[Any, bytes], LabelSet]:
    """Return a function from a record and its JSON to its labels. They are cached by the JSON at their paths."""
    if rule.experiments is None and rule.segments is None:
        return lambda record, value: _NONE
    experiments_of = _values(rule.experiments, rule.absent)
    segments_of = _values(rule.segments, rule.absent)

    def of_plain(record: Any) -> LabelSet:
        experiments = usable_experiments(experiments_of(record), limits)
        segments = usable_segments(segments_of(record), limits)
        return experiments.labels, segments.labels, experiments.notes + segments.notes

    paths = list(dict.fromkeys([*_paths(rule.experiments), *_paths(rule.segments)]))
    sent = access.sent(paths)
    if sent is None:
        return lambda record, value: of_plain(record)
    cache = LabelCache()
    cached = cache.cached.get

    def of_typed(record: Any, value: bytes) -> LabelSet:
        values = sent(record)
        try:
            key = b",".join(values)
        except TypeError:  # not all of them are JSON
            key = _encode(values)
        return cached(key) or cache.put(key, of_plain(parse_plain(value)))

    return of_typed


def _paths(source: LabelSource) -> Iterator[Path]:
    sources = () if source is None else (source,) if isinstance(source, FieldSource) else source.values()
    for alternative in (each for one in sources for each in one.alternatives if not isinstance(each, Constant)):
        yield from [alternative] if isinstance(alternative, Path) else [part for part in alternative.parts if isinstance(part, Path)]


def _values(source: LabelSource, absent: frozenset[str]) -> Callable[[Any], dict[str, msgspec.Raw] | None]:
    """Return a function from a plain record to the JSON of its labels. None: the value at the path is not an object."""
    if source is None:
        return lambda record: {}
    found_in = _object(source, absent) if isinstance(source, FieldSource) else _named(source, absent)

    def read(record: Any) -> dict[str, msgspec.Raw] | None:
        found = found_in(record)
        if type(found) is not dict:
            return None
        return {name: _json(value) for name, value in found.items() if not (type(value) is str and value in absent)}

    return read


def _named(sources: Mapping[str, FieldSource], absent: frozenset[str]) -> Get:
    gets = [(name, reader_of(source, PlainAccess(), absent, ANY)) for name, source in sources.items()]
    return lambda record: {name: get(record) for name, get in gets}


def _object(source: FieldSource, absent: frozenset[str]) -> Get:
    get = reader_of(source, PlainAccess(), absent, ANY)
    path = next(iter(_paths(source)), None)
    name = path.steps[-1] if path is not None else None

    def read(record: Any) -> Any:
        found = get(record)
        if type(found) is str and (inside := json_in_text(found)) is not None:
            return inside
        is_value = type(found) in _VALUES and type(name) is str
        return {} if found is None or found == "" else {name: found} if is_value else found

    return read


def _json(value: object) -> msgspec.Raw:
    """Return a value as JSON: numbers and booleans as texts, everything else as it is."""
    if type(value) is bool:
        value = "true" if value else "false"
    elif type(value) in (int, Decimal):
        value = str(value)
    return msgspec.Raw(msgspec.json.encode(value))
