"""Avro records -> JSON, with fastavro.

Values become what a mapping expects: timestamp-millis is a whole number of milliseconds, all finer and other times are ISO-8601 text,
decimals are numbers, enums are texts, bytes are base64. Numbers that JSON lacks (NaN, Infinity) are texts. A field also has the names of
its aliases.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from streammetrics.events.encodings.avro_aliases import AliasAdder, alias_adder
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText, damaged, encode_json, needed
from streammetrics.events.sent_value import ToJson

SINGLE_OBJECT_BYTES: Final = 10
"""The marker and the fingerprint before the body in single object encoding."""
_SINGLE_OBJECT: Final = b"\xc3\x01"
_PLAIN_LOGICAL: Final = ("timestamp-millis", "uuid", "timestamp-nanos", "local-timestamp-nanos", "duration")
"""Logical types that are read as their plain type."""
_KINDS: Final = ("record", "error", "enum", "array", "map", "fixed", "union")
_PRIMITIVE_BYTES: Final = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "enum": 1}


def avro_reader(schema: SchemaText, body_at: int = 0) -> ToJson:
    """Return a reader of records whose body begins at `body_at`.

    Raises SchemaProblemError for a schema that is not valid, and MissingPackageError without fastavro.
    """
    parsed, shape = _parsed(schema)
    add_aliases = alias_adder(parsed, shape.named)
    read: Callable[..., Any] = (import_module("fastavro._read_py") if shape.is_recursive else _fastavro()).schemaless_reader

    def to_json(value: bytes) -> bytes:
        body = io.BytesIO(value)
        body.seek(body_at)
        try:
            found = read(body, parsed, None)
            if body.tell() != len(value):
                raise ValueError(f"{len(value) - body.tell()} bytes follow the record")
            if add_aliases is not None:
                add_aliases(found)
            text = encode_json(found)
        except Exception as error:  # damaged bytes raise whatever the parser meets
            raise damaged("Avro of its schema", error) from None
        return encode_json(nonfinite_as_text(found)) if shape.has_floats and b"null" in text else text

    return to_json


def single_object_reader(schema: SchemaText) -> ToJson:
    """Return a reader of Avro's single object encoding. It checks the fingerprint."""
    read, expected = avro_reader(schema, SINGLE_OBJECT_BYTES), _fingerprint(schema)

    def to_json(value: bytes) -> bytes:
        if value[:2] != _SINGLE_OBJECT:
            raise damaged("Avro in single object encoding", "it does not begin with c3 01")
        if value[2:SINGLE_OBJECT_BYTES] != expected:
            raise damaged("Avro of this schema", f"its fingerprint is {value[2:SINGLE_OBJECT_BYTES].hex()}, not {expected.hex()}")
        return read(value)

    return to_json


def container_shape(schema: SchemaText) -> tuple[bool, AliasAdder | None]:
    """Return whether the schema of a file contains itself, and a function that adds the aliases of fields to rows (None without any).

    Raises SchemaProblemError for a schema that is not valid, and for one by which a few bytes could claim any number of rows or elements.
    """
    parsed, shape = _parsed(schema)
    if shape.bytes_min == 0:
        raise SchemaProblemError("its rows have no bytes, so a short file could claim any number of them")
    return shape.is_recursive, alias_adder(parsed, shape.named)


def nonfinite_as_text(found: Any) -> Any:
    """Replace numbers that JSON lacks by texts, as Protobuf's JSON mapping does.

    >>> nonfinite_as_text({"a": [1.5, float("nan")], "b": float("-inf")})
    {'a': [1.5, 'NaN'], 'b': '-Infinity'}
    """
    if type(found) is float and not math.isfinite(found):
        return "NaN" if math.isnan(found) else "Infinity" if found > 0 else "-Infinity"
    if type(found) is dict:
        return {name: nonfinite_as_text(value) for name, value in found.items()}
    return [nonfinite_as_text(value) for value in found] if type(found) is list else found


def _parsed(schema: SchemaText) -> tuple[Any, _Shape]:
    parse, named = _fastavro().parse_schema, dict[str, Any]()
    try:
        for text in schema.references.values():
            parse(_plain(json.loads(text)), named)
        parsed = parse(_plain(json.loads(schema.text)), named)
        shape = _Shape(named, parsed)
    except RecursionError:
        raise SchemaProblemError("it is nested too deeply") from None
    except SchemaProblemError:
        raise
    except Exception as error:  # the parser raises many kinds for a schema that is not valid
        raise SchemaProblemError(f"it is not a valid Avro schema: {error or type(error).__name__}") from None
    return parsed, shape


def _fingerprint(schema: SchemaText) -> bytes:
    library = import_module("fastavro.schema")
    return bytes.fromhex(library.fingerprint(library.to_parsing_canonical_form(json.loads(schema.text)), "CRC-64-AVRO"))


def _fastavro() -> Any:
    return needed("fastavro", "fastavro", "avro", "Avro")


def _plain(schema: Any) -> Any:
    """Return a schema without the logical types that are read as their plain type, and without default values, which are not used."""
    if isinstance(schema, list):
        return [_plain(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    plain = {name: _plain(value) if name in ("type", "items", "values", "fields") else value for name, value in schema.items()}
    if plain.get("logicalType") in _PLAIN_LOGICAL:
        del plain["logicalType"]
    plain.pop("default", None)
    return plain


class _Shape:
    """What a schema can hold: does it contain itself, does it have floats, and how few bytes may a value have?

    A schema that contains itself is read by fastavro's Python code: deep data would end the process in its C code. An array of values
    without bytes is refused: a few bytes could claim any number of elements.
    """

    def __init__(self, named: Mapping[str, Any], schema: Any) -> None:
        self.named = named
        self.is_recursive = self.has_floats = False
        self._open: set[str] = set()
        self._known: dict[str, int] = {}
        self.bytes_min = self.least_bytes(schema)

    def least_bytes(self, schema: Any) -> int:
        if isinstance(schema, list):
            return 1 + min((self.least_bytes(each) for each in schema), default=0)
        if isinstance(schema, str):
            return self._named(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array" and self.least_bytes(schema["items"]) == 0:
            raise SchemaProblemError("it has an array of values without bytes, so a short record could claim any number of elements")
        if kind == "map":
            self.least_bytes(schema["values"])
        if kind in ("array", "map"):
            return 1
        return int(schema["size"]) if kind == "fixed" else self.least_bytes(kind)

    def _named(self, name: str) -> int:
        self.has_floats |= name in ("float", "double")
        if name in _PRIMITIVE_BYTES:
            return _PRIMITIVE_BYTES[name]
        if name in self._open:
            self.is_recursive = True
            return 1
        return self._known[name] if name in self._known else self.least_bytes(self.named[name])

    def _record(self, schema: Mapping[str, Any]) -> int:
        name = schema["name"]
        if name in _KINDS:
            raise SchemaProblemError(f"a type is named {name}, which fastavro cannot read; give it a namespace")
        self._open.add(name)
        self._known[name] = sum([self.least_bytes(field["type"]) for field in schema["fields"]])
        self._open.discard(name)
        return self._known[name]
