"""The fields of sample records and what their values look like: ids of items, times, positions, users. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from streammetrics.events.mappings.plain import json_in_text

JsonRecord: TypeAlias = Mapping[str, Any]
FieldValues: TypeAlias = Mapping[str, list[Any]]
"""The values of each path in the samples. `[]` marks the elements of an array."""
Accept: TypeAlias = Callable[[Sequence[Any]], bool]

DEPTH_MAX: Final = 4
ELEMENTS_MAX: Final = 50
NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_ISO: Final = re.compile(r"\d{4}-?\d\d-?\d\d[Tt ]\d\d:?\d\d.*")
_JOINED: Final = re.compile(r"[\w.:-]{1,64}(?:([,|;])[\w.:-]{1,64})(?:\1[\w.:-]{1,64})*")
_DIGITS: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
_WORDS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CENTURY: Final = (946_684_800, 4_102_444_800)
"""The years 2000 to 2099, in seconds."""
PLACES_MAX: Final = 200
"""A greater number is an id, not a position."""


def flat(records: Iterable[JsonRecord]) -> dict[str, list[Any]]:
    """Return the values of each path of some records.

    >>> flat([{"a": {"b": 1}, "c": [{"d": 2}], "e": '{"f":3}'}])
    {'a.b': [1], 'c': [[{'d': 2}]], 'c[].d': [2], 'e.f': [3]}
    """
    found: dict[str, list[Any]] = {}
    for record in records:
        for path, value in _paths(record, "", 0):
            found.setdefault(path, []).append(value)
    return found


def _paths(record: JsonRecord, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    for name, sent in record.items():
        if '"' in name:
            continue  # no path can name it
        path = prefix + (name if NAME.fullmatch(name) else f'"{name}"')
        value = sent if not isinstance(sent, str) or (inside := json_in_text(sent)) is None else inside
        if isinstance(value, dict) and depth < DEPTH_MAX:
            yield from _paths(value, f"{path}.", depth + 1)
        elif isinstance(value, str) and (pieces := pieces_of(value)):
            yield path, pieces
            yield from ((f"{path}[]", piece) for piece in pieces)
        elif isinstance(value, list):
            yield path, value
            for element in value[:ELEMENTS_MAX]:
                if isinstance(element, dict) and depth < DEPTH_MAX:
                    yield from _paths(element, f"{path}[].", depth + 1)
                elif isinstance(element, str | int):
                    yield f"{path}[]", element
        elif value is not None:
            yield path, value


def pieces_of(text: str) -> list[str]:
    """Return the ids that are joined in a text by commas, bars or semicolons; empty for other texts.

    >>> pieces_of("a1,b2,c3"), pieces_of("a|b"), pieces_of("red, white")
    (['a1', 'b2', 'c3'], ['a', 'b'], [])
    """
    return [] if _JOINED.fullmatch(text) is None or unit_of(text) is not None else re.split("[,|;]", text)


def inside(fields: FieldValues, array: str) -> dict[str, list[Any]]:
    """Return the single values of a record (array is empty), or of the elements of an array, by their path in there."""
    start = f"{array}[]." if array else ""
    parts = {path[len(start) :]: values for path, values in fields.items() if path.startswith(start)}
    return {path: values for path, values in parts.items() if "[]" not in path and not isinstance(values[0], list)}


def words_of(path: str) -> set[str]:
    """Return the words of the last name of a path, in lower case.

    >>> sorted(words_of('data."memberId"')), sorted(words_of("shown_at"))
    (['id', 'member'], ['at', 'shown'])
    """
    last = path.rpartition(".")[2].strip('"')
    return {word.casefold() for word in _WORDS.findall(_CAMEL.sub(" ", last).replace("_", " "))}


def best_named(plain: FieldValues, names: Sequence[str], words: Sequence[str], accept: Accept) -> str | None:
    """Return the path with the best name: one of `names`, or else one with a word of `words`, each in their order."""
    fitting = {path: path.rpartition(".")[2].strip('"').lower() for path, values in plain.items() if accept(values)}
    for name in names:
        if matching := [path for path, last in fitting.items() if last == name]:
            return min(matching, key=lambda path: path.count("."))
    for word in words:
        if matching := [path for path in fitting if word in words_of(path)]:
            return min(matching, key=lambda path: (path.count("."), len(path)))
    return None


def are_ids(values: Sequence[Any]) -> bool:
    """Return whether values may be ids: texts, or whole numbers."""
    return all(type(value) in (str, int) for value in values) and not are_times(values)


def are_distinct(values: Sequence[Any]) -> bool:
    return len(set(map(str, values))) == len(values)


def are_times(values: Sequence[Any]) -> bool:
    """Return whether all values are times: ISO text, or numbers of this century in one of the usual units.

    >>> are_times([1772366400]), are_times(["1772366400123"]), are_times(["2026-03-01 12:00:00"]), are_times([5, 7]), are_times(["u1"])
    (True, True, True, False, False)
    """
    return bool(values) and all(unit_of(value) is not None for value in values)


def unit_of(value: Any) -> str | None:
    """Return the unit of a time as mappings name it; None for what is no time."""
    text = str(value)
    if type(value) is bool:
        return None
    if _DIGITS.fullmatch(text):
        number = float(text)
        units = (("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000))
        return next((unit for unit, factor in units if _CENTURY[0] <= number / factor < _CENTURY[1]), None)
    if not _ISO.fullmatch(text):
        return None
    return "ms" if re.search(r"(Z|z|[+-]\d\d:?(\d\d)?)$", text) else "utc"


def unit_of_all(values: Sequence[Any]) -> str:
    """Return the unit that most of some times have."""
    counted = Counter(unit for value in values if (unit := unit_of(value)) is not None)
    return counted.most_common(1)[0][0] if counted else "ms"


def arrays_of(values: Sequence[Any]) -> list[list[Any]]:
    return [value for value in values if isinstance(value, list)]


def distinct_in(arrays: Iterable[Sequence[Any]], name: str) -> bool:
    """Return whether all objects of each array have a text or a number at this name, all different."""
    for array in arrays:
        found = [element.get(name) for element in array if isinstance(element, dict)]
        if len(found) < len(array) or not are_ids(found) or len(set(map(str, found))) < len(found):
            return False
    return True


def are_ranks(arrays: Iterable[Sequence[Any]], name: str) -> bool:
    """Return whether the numbers at a name follow each other in every array, as positions do and ids do not."""
    for array in arrays:
        found = sorted(place for element in array if isinstance(element, dict) and (place := place_of(element.get(name))) is not None)
        if found and (found[-1] - found[0] >= len(found) or found[-1] > PLACES_MAX):
            return False
    return True


def place_of(value: Any) -> int | None:
    """Return a whole number, also one in a text as CSV has it; None for anything else."""
    if type(value) is str and value.isdecimal() and value.isascii():
        return int(value)
    return value if type(value) is int else None


def are_places(values: Sequence[Any]) -> bool:
    """Return whether values are small whole numbers, as positions are."""
    return all((place := place_of(value)) is not None and 0 <= place <= PLACES_MAX for value in values)


def share_in(values: Sequence[Any], known: Collection[str]) -> float:
    """Return the share of values that are among known ones."""
    return sum(str(value) in known for value in values) / len(values) if values else 0.0
