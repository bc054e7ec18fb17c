"""JSON behind a frame, and the check of JSON records by a JSON Schema, with jsonschema-rs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText, damaged, needed
from streammetrics.events.encodings.sent_value import ToJson

CHECKS_MAX: Final = 100_000
"""Most parts of a schema that check one value, each counted as often as others refer to it."""
_parse = msgspec.json.Decoder().decode


def json_reader(body_at: int = 0) -> ToJson:
    """Return a reader of JSON behind a frame. It checks nothing."""
    return lambda value: bytes(value[body_at:])


def checked_json_reader(schema: SchemaText, body_at: int = 0) -> ToJson:
    """Return a reader of JSON that refuses records which do not follow the schema.

    Raises SchemaProblemError, and MissingPackageError without jsonschema-rs. No reference is ever fetched.
    """
    check = _checker(schema)

    def to_json(value: bytes) -> bytes:
        body = bytes(value[body_at:])
        try:
            found = _parse(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return body  # the decoder of events says what is wrong with it
        problem = check(found)
        if problem is not None:
            raise damaged("valid by its JSON Schema", problem, "correct the sender, or the schema")
        return body

    return to_json


def _checker(schema: SchemaText) -> Callable[[Any], str | None]:
    """Return a function from a value to what is wrong with it."""
    library = needed("jsonschema_rs", "jsonschema-rs", "json-schema", "a check by JSON Schema")

    def referenced(uri: str) -> Any:
        for name, text in schema.references.items():
            if uri == name or uri.endswith(f"/{name}"):
                return msgspec.json.decode(text)
        raise SchemaProblemError(f"it refers to {uri}, which is not among its references")

    try:
        found = msgspec.json.decode(schema.text)
        _require_bounded(found)
        validator = library.validator_for(found, retriever=referenced)
    except SchemaProblemError:
        raise
    except RecursionError:
        raise SchemaProblemError("it is nested too deeply") from None
    except Exception as error:  # the package raises several kinds for a schema that is not valid
        message = (str(error) or type(error).__name__).splitlines()[0]
        raise SchemaProblemError(f"it is not a valid JSON Schema: {message}") from None

    def check(found: Any) -> str | None:
        if validator.is_valid(found):
            return None
        try:
            error = next(iter(validator.iter_errors(found)))
        except ValueError:  # the package converts nested values up to a limit
            return "it is nested too deeply to say what is wrong with it"
        where = "/".join(map(str, error.instance_path))
        return f"{error.message[:160]}{f' at {where}' if where else ''}"

    return check


def _require_bounded(schema: Any) -> None:
    """Raise SchemaProblemError if parts that refer to each other stand for more checks of one value than a machine can make."""
    known: dict[int, int] = {}
    left = [schema]
    while left:
        part = left.pop()
        if _checks(part, schema, known, set()) > CHECKS_MAX:
            raise SchemaProblemError(f"its parts refer to each other so often that one value would need more than {CHECKS_MAX:,} checks")
        left += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()


def _checks(part: Any, schema: Any, known: dict[int, int], open_parts: set[int]) -> int:
    """Return how many parts check the same value as a part does, each as often as it is referred to. A part inside itself counts once."""
    if not isinstance(part, dict) or id(part) in open_parts:
        return 1
    if id(part) not in known:
        open_parts.add(id(part))
        known[id(part)] = 1 + sum(_checks(each, schema, known, open_parts) for each in _parts_of_same_value(part, schema))
        open_parts.discard(id(part))
    return known[id(part)]


def _parts_of_same_value(part: Mapping[str, Any], schema: Any) -> Iterator[Any]:
    for name in ("not", "if", "then", "else"):
        yield part.get(name)
    for name in ("allOf", "anyOf", "oneOf"):
        yield from part[name] if isinstance(part.get(name), list) else ()
    for name in ("dependentSchemas", "dependencies"):
        yield from part[name].values() if isinstance(part.get(name), dict) else ()
    if isinstance(part.get("$ref"), str):
        yield _pointed(part["$ref"], schema)


def _pointed(reference: str, schema: Any) -> Any:
    """Return the part of a schema that a JSON pointer names (RFC 6901); None if it is elsewhere or not there."""
    if not reference.startswith("#"):
        return None
    found = schema
    for part in reference.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found
