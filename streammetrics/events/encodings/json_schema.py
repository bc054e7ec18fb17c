"""JSON behind a frame, and the check of JSON records by a JSON Schema, with jsonschema-rs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from streammetrics.events.encodings.json_schema_bounds import SchemaBounds
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText, damaged, needed
from streammetrics.events.sent_value import ToJson

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
        for name, text in references.items():
            if uri == name or uri.endswith(f"/{name}"):
                return text
        raise SchemaProblemError(f"it refers to {uri}, which is not among its references")

    try:
        found = msgspec.json.decode(schema.text)
        references = {name: msgspec.json.decode(text) for name, text in schema.references.items()}
        bounds = SchemaBounds(found, references)
        bounds.require()
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
        if not bounds.are_explained(found):
            return "it is nested too deeply, or its schema has too many branches, to say what is wrong with it"
        error = next(iter(validator.iter_errors(found)))
        where = "/".join(map(str, error.instance_path))
        return f"{error.message[:160]}{f' at {where}' if where else ''}"

    return check
