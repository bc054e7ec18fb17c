"""Schemas as values, and the errors about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias

import msgspec

from streammetrics.errors import MalformedEvent
from streammetrics.events.sent_value import ToJson

SchemaType: TypeAlias = Literal["AVRO", "PROTOBUF", "JSON"]

encode_json: Final = msgspec.json.Encoder(decimal_format="number").encode
"""Encodes what the libraries decode to: objects, arrays, texts, numbers, bytes (base64), decimals, dates and times (ISO-8601)."""


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema as a registry or a file has it. `references` are the schemas that it imports, by the names that it uses, dependencies first.

    Protobuf is the text of a .proto file, or a FileDescriptorProto in base64.
    """

    type: SchemaType
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


class SchemaProblemError(ValueError):
    """A schema that cannot be used. The message says why."""


def needed(module: str, package: str, extra: str, what: str) -> Any:
    """Return a module that only some installations have. Raises MissingPackageError."""
    try:
        return import_module(module)
    except ImportError:
        raise MissingPackageError(package, extra, what) from None


class MissingPackageError(Exception):
    """A package that an encoding needs is not installed."""

    def __init__(self, package: str, extra: str, what: str) -> None:
        super().__init__(f"{what} needs the package {package}: pip install 'streammetrics[{extra}]'")
        self.extra = extra


def damaged(what: str, error: object, advice: str = "send it again with the serializer of this schema") -> MalformedEvent:
    """Return the error for bytes that do not fit their schema."""
    return MalformedEvent("bad_encoding", f"the record is not {what}: {problem_of(error)[:200]}; {advice}")


def problem_of(error: object) -> str:
    """Return what a parser met, as text for people.

    >>> problem_of(EOFError("cannot read double from <_io.BytesIO object at 0x7f3a36fbfc40>")), problem_of(KeyError())
    ('it ends too early', 'KeyError')
    """
    return "it ends too early" if isinstance(error, EOFError) else str(error) or type(error).__name__


def of_unknown_schema(detail: str) -> ToJson:
    """Return the reader for records whose schema is unknown: it refuses them."""
    return refusing("unknown_schema", detail)


def of_unusable_schema(detail: str) -> ToJson:
    """Return the reader for records whose schema cannot be used, or is not named properly: it refuses them."""
    return refusing("bad_encoding", detail)


def refusing(reason: str, detail: str) -> ToJson:
    """Return a reader that refuses every record, with the same reason."""

    def refuse(value: bytes) -> bytes:
        raise MalformedEvent(reason, detail)

    return refuse
