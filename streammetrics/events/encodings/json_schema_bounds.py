"""How many checks a JSON Schema makes of one value, and of all values of a record. A few lines of a schema can ask for endless checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from streammetrics.events.encodings.schema_text import SchemaProblemError

CHECKS_MAX: Final = 100_000
"""Most parts of a schema that check one value, each counted as often as others refer to it."""
EXPLAINED_MAX: Final = 10_000
"""Most parts of a schema that check a record of which we say what is wrong. Each costs far more than in a check that says yes or no."""
DEPTH_MAX: Final = 64
"""Deepest record of which we say what is wrong."""

SchemaPart: TypeAlias = Any
"""A part of a schema: an object, or true or false."""
_OF_SAME_VALUE: Final = ("not", "if", "then", "else", "allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies")
_OF_INNER_VALUES: Final = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames")
_OF_ELEMENTS: Final = ("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains")
_MAPS: Final = ("dependentSchemas", "dependencies", "properties", "patternProperties")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class SchemaBounds:
    """The parts of a schema and of those that it refers to by name, and how they refer to each other."""

    def __init__(self, schema: SchemaPart, references: Mapping[str, SchemaPart]) -> None:
        self._schema, self._references = schema, references
        self._documents: dict[int, SchemaPart] = {}
        """The document of each part, by the part's identity. References are relative to it."""
        self._parts = list[SchemaPart]()
        self._named: dict[str, SchemaPart] = {}
        """Parts by the last word of their `$id`, or by their anchor after a `#`."""
        for document in (schema, *references.values()):
            self._add_all(document)
        self._levels = [dict[int, int]()]

    def require(self) -> None:
        """Raise SchemaProblemError if parts that refer to each other stand for more checks of one value than a machine can make."""
        known: dict[int, int] = {}
        if any(self._count(part, known, set(), lambda inner: 0, CHECKS_MAX) > CHECKS_MAX for part in self._parts):
            raise SchemaProblemError(f"its parts refer to each other so often that one value would need more than {CHECKS_MAX:,} checks")

    def are_explained(self, record: Any) -> bool:
        """Return whether a record needs few enough checks to say what is wrong with it."""
        depth, level = 0, [record]
        while level and depth <= DEPTH_MAX:
            depth += 1
            level = [inner for each in level for inner in _inside(each)]
        while len(self._levels) <= min(depth, DEPTH_MAX) and self._levels[-1].get(id(self._schema), 0) <= EXPLAINED_MAX:
            self._add_level()
        return depth <= DEPTH_MAX and self._levels[min(depth, len(self._levels) - 1)].get(id(self._schema), 1) <= EXPLAINED_MAX

    def _add_level(self) -> None:
        """Count the checks of records that are one level deeper than before."""
        shallower, known = self._levels[-1], dict[int, int]()
        for part in self._parts:
            self._count(part, known, set(), lambda inner: shallower.get(id(inner), 1), EXPLAINED_MAX)
        self._levels.append(known)

    def _count(self, part: SchemaPart, known: dict[int, int], opened: set[int], inside: Callable[[SchemaPart], int], most: int) -> int:
        """Return how many parts check a value, each as often as it is referred to, and what `inside` returns for each part that checks a
        value inside it. More than `most` count as one more. A part inside itself counts once.
        """
        if not isinstance(part, dict) or id(part) in opened:
            return 1
        if id(part) not in known:
            opened.add(id(part))
            count = 1 + sum(inside(inner) for inner in _inner(part, _OF_INNER_VALUES + _OF_ELEMENTS))
            for each in (*_inner(part, _OF_SAME_VALUE), *self._referred(part)):
                count = min(count + self._count(each, known, opened, inside, most), most + 1)
            opened.discard(id(part))
            known[id(part)] = count
        return known[id(part)]

    def _add_all(self, document: SchemaPart) -> None:
        left = [(document, document)]
        while left:
            found, document = left.pop()
            if isinstance(found, dict):
                document = self._add(found, document)
            left += [
                (inner, document) for inner in (found.values() if isinstance(found, dict) else found if isinstance(found, list) else ())
            ]

    def _add(self, part: dict[str, Any], document: SchemaPart) -> SchemaPart:
        """Add a part. Returns the document of what is inside it: itself, if it has an `$id`."""
        self._parts.append(part)
        self._named |= {f"#{part[name]}": part for name in _ANCHORS if isinstance(part.get(name), str)}
        identity = part.get("$id", part.get("id"))
        if isinstance(identity, str):
            self._named[identity if identity.startswith("#") else identity.rstrip("#").rpartition("/")[2]] = part
            document = document if identity.startswith("#") else part
        self._documents[id(part)] = document
        return document

    def _referred(self, part: Mapping[str, Any]) -> Iterator[SchemaPart]:
        for name in _REFERENCES:
            if isinstance(part.get(name), str):
                yield self._found(part[name], self._documents.get(id(part)))

    def _found(self, reference: str, document: SchemaPart) -> SchemaPart:
        """Return the part that a reference names; None if it is not there."""
        uri, _, fragment = reference.partition("#")
        if uri:
            document = next((text for name, text in self._references.items() if uri == name or uri.endswith(f"/{name}")), None)
            document = document if document is not None else self._named.get(uri.rpartition("/")[2])
        return _pointed(fragment, document) if not fragment or fragment.startswith("/") else self._named.get(f"#{fragment}")


def _inside(found: Any) -> Iterable[Any]:
    """Return the values inside an object or an array."""
    return found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()


def _inner(part: Mapping[str, Any], names: Sequence[str]) -> Iterator[SchemaPart]:
    for name in names:
        found = part.get(name)
        if isinstance(found, list):
            yield from found
        elif isinstance(found, dict) and name in _MAPS:
            yield from found.values()
        elif found is not None:
            yield found


def _pointed(pointer: str, document: SchemaPart) -> SchemaPart:
    """Return the part of a document that a JSON pointer names (RFC 6901); None if it is not there."""
    found = document
    for part in pointer.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found
