"""Experiments and segments of a mapped list: from an object in the record, or from one path for each name.

The rules of labels are those of native events: a label that breaks one is dropped, and the list counts without it. Whole numbers, decimal
numbers and booleans become text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import msgspec

from streammetrics.events.fields import UsableLabels, usable_experiments, usable_segments
from streammetrics.events.mappings.paths import Access, Get
from streammetrics.events.mappings.plain import json_in_text
from streammetrics.events.mappings.rules import FieldSource, MappingRule
from streammetrics.events.mappings.values import reader_of
from streammetrics.events.model import EventLimits

SETS_MAX = 10_000
"""Most label sets in a cache before it is cleared. The cache saves work and never changes a result."""

Values: TypeAlias = tuple[tuple[str, Any], ...] | None
"""Names and values as found. None: the value at the path is not an object."""

NO_LABELS = UsableLabels(())
_CACHED = {str, type(None)}
"""Types of cached values. Others may be equal and still read differently, such as 1 and true."""


def labels_reader(
    key: Literal["experiments", "segments"], rule: MappingRule, access: Access, limits: EventLimits
) -> Callable[[Any], UsableLabels] | None:
    """Return a function from a record to its labels. None if the mapping has none."""
    source = rule.experiments if key == "experiments" else rule.segments
    if source is None:
        return None
    absent = rule.absent
    usable = usable_experiments if key == "experiments" else usable_segments
    values_of = _object(source, access, absent) if isinstance(source, FieldSource) else _named(source, access, absent)
    cache: dict[Any, UsableLabels] = {}

    def read(record: Any) -> UsableLabels:
        values = values_of(record)
        if values is None:
            return usable(None, limits)
        is_plain = {type(value) for _, value in values} <= _CACHED
        if is_plain and (found := cache.get(values)) is not None:
            return found
        labels = usable({name: _text(value) for name, value in values if not (type(value) is str and value in absent)}, limits)
        if is_plain:
            if len(cache) >= SETS_MAX:
                cache.clear()
            cache[values] = labels
        return labels

    if isinstance(source, FieldSource) or len(source) != 1:
        return read
    get = reader_of(next(iter(source.values())), access, absent)

    def read_one(record: Any) -> UsableLabels:
        """The same for one name, the common case: its value is the key of the cache."""
        value = get(record)
        if type(value) is not str:
            return NO_LABELS if value is None else read(record)
        found = cache.get(value)
        if found is None:
            found = read(record)
            cache[value] = found
        return found

    return read_one


def _named(sources: Mapping[str, FieldSource], access: Access, absent: frozenset[str]) -> Get:
    gets = [(name, reader_of(source, access, absent)) for name, source in sources.items()]
    return lambda record: tuple([(name, get(record)) for name, get in gets])


def _object(source: FieldSource, access: Access, absent: frozenset[str]) -> Get:
    get = reader_of(source, access, absent)

    def read(record: Any) -> Values:
        found = get(record)
        if found is None:
            return ()
        if type(found) is str and type(inside := json_in_text(found)) is dict:
            found = inside
        return tuple(found.items()) if type(found) is dict else None

    return read


def _text(value: object) -> msgspec.Raw:
    """Return a value as JSON: numbers and booleans as texts, everything else as it is."""
    if type(value) is bool:
        value = "true" if value else "false"
    elif type(value) in (int, Decimal):
        value = str(value)
    return msgspec.Raw(msgspec.json.encode(value))
