"""The aliases of Avro fields: a value under its former names too, so that paths of mappings outlive a renamed field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

AliasAdder: TypeAlias = Callable[[Any], object]
"""Adds the aliases of fields to a decoded value, in place."""


def alias_adder(schema: Any, named: Mapping[str, Any]) -> AliasAdder | None:
    """Return a function that adds aliases to decoded values. None if no field has an alias. `named` are the types that have a name.

    A name that the record has already keeps its value. Of a union, the record with exactly the fields of a value is taken.

    >>> fields = [{"name": "query", "type": "string", "aliases": ["search"]}]
    >>> record, add = {"query": "q"}, alias_adder({"type": "record", "name": "R", "fields": fields}, {})
    >>> add(record)
    >>> record
    {'query': 'q', 'search': 'q'}
    """
    if not any(field.get("aliases") for each in (schema, *named.values()) for field in _fields(each)):
        return None
    return _Aliases(named).of(schema)


def _fields(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the fields of all records that are written out in a schema."""
    if isinstance(schema, list):
        for each in schema:
            yield from _fields(each)
    elif isinstance(schema, Mapping):
        for field in schema.get("fields", ()):
            yield field
            yield from _fields(field["type"])
        for inner in ("type", "items", "values"):
            yield from _fields(schema.get(inner))


class _Aliases:
    """Makes the functions of a schema. A named type has one function, because it may contain itself."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._made: dict[str, AliasAdder] = {}

    def of(self, schema: Any) -> AliasAdder:
        if isinstance(schema, list):
            return self._union(schema)
        written = self._written(schema)
        kind = written.get("type")
        if "fields" in written:
            return self._record(written["name"], written["fields"])
        if kind == "array":
            inner = self.of(written["items"])
            return lambda found: [inner(each) for each in found]
        if kind == "map":
            inner = self.of(written["values"])
            return lambda found: [inner(each) for each in found.values()]
        return self.of(kind) if isinstance(kind, list | Mapping) else _nothing

    def _written(self, schema: Any) -> Mapping[str, Any]:
        found = self._named.get(schema) if isinstance(schema, str) else schema
        return found if isinstance(found, Mapping) else {}

    def _record(self, name: str, fields: Sequence[Mapping[str, Any]]) -> AliasAdder:
        """Return the function of a record. That of its fields is made when it is first called."""

        def add(found: Any) -> None:
            made = self._made.get(name)
            if made is None:
                made = self._made[name] = self._of_fields(fields)
            made(found)

        return add

    def _of_fields(self, fields: Sequence[Mapping[str, Any]]) -> AliasAdder:
        inner = [(field["name"], self.of(field["type"])) for field in fields]
        aliases = [(field["name"], alias) for field in fields for alias in field.get("aliases", ())]

        def add(found: Any) -> None:
            for name, change in inner:
                change(found[name])
            for name, alias in aliases:
                found.setdefault(alias, found[name])

        return add

    def _union(self, kinds: Sequence[Any]) -> AliasAdder:
        written = [(self._written(kind), self.of(kind)) for kind in kinds]
        records = [(frozenset(field["name"] for field in each["fields"]), change) for each, change in written if "fields" in each]
        arrays = next((change for each, change in written if each.get("type") == "array"), _nothing)
        maps = next((change for each, change in written if each.get("type") == "map"), _nothing)

        def add(found: Any) -> None:
            if type(found) is list:
                arrays(found)
            elif type(found) is dict:
                next((change for names, change in records if names == found.keys()), maps)(found)

        return add


def _nothing(found: Any) -> None:
    pass
