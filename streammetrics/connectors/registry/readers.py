"""Schemas -> readers of records, for records of a registry and for records whose schema is a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal, TypeAlias

from streammetrics.connectors.registry.protoc import compiled, run_protoc
from streammetrics.errors import ConfigError, Problem
from streammetrics.events.encodings.avro import avro_reader, single_object_reader
from streammetrics.events.encodings.frames import APICURIO_BYTES, CONFLUENT_BYTES, SchemaRef
from streammetrics.events.encodings.json_schema import checked_json_reader, json_reader
from streammetrics.events.encodings.protobuf import ProtobufSchema
from streammetrics.events.encodings.schema_text import MissingPackageError, SchemaProblemError, SchemaText
from streammetrics.events.sent_value import ToJson

FileEncoding: TypeAlias = Literal["json", "avro", "protobuf"]
Frame: TypeAlias = Literal["none", "confluent", "apicurio", "single_object"]
_FRAME_BYTES: Final = {"none": 0, "confluent": CONFLUENT_BYTES, "apicurio": APICURIO_BYTES}
_DESCRIPTORS: Final = (".desc", ".pb", ".binpb", ".protoset", ".fds")
SCHEMA_BYTES_MAX: Final = 8 << 20


def registered_reader(schema: SchemaText, ref: SchemaRef, check_json: bool) -> ToJson:
    """Return a reader of records of a registered schema. Raises SchemaProblemError and MissingPackageError."""
    if schema.type == "AVRO":
        return avro_reader(schema, ref.body_at)
    if schema.type == "JSON":
        return checked_json_reader(schema, ref.body_at) if check_json else json_reader(ref.body_at)
    messages = ProtobufSchema(compiled(schema))
    if ref.kind == "guid":
        return messages.reader_at(ref.indexes or (0,))
    return messages.framed_reader(ref.body_at) if ref.body_at else messages.named_reader(ref.message)


def file_reader(path: str, encoding: FileEncoding, frame: Frame = "none", message: str = "", key: str = "events") -> ToJson:
    """Return a reader of records whose schema is a file. A frame before the body is skipped.

    Raises ConfigError for a file or a schema that cannot be used, and for a missing package. `key` begins the names of the settings.
    """
    try:
        return _file_reader(Path(path), encoding, frame, message)
    except OSError as error:
        raise ConfigError([Problem(f"{key}.schema_file", path, f"must be a file that can be read ({error.strerror or error})")]) from None
    except SchemaProblemError as error:
        raise ConfigError([Problem(f"{key}.schema_file", path, f"cannot be used: {error}")]) from None
    except MissingPackageError as error:
        raise ConfigError([Problem(f"{key}.encoding", encoding, str(error))]) from None


def skipped_frame(frame: Frame) -> ToJson:
    """Return a reader of JSON behind a frame, without its schema."""
    return json_reader(_FRAME_BYTES[frame])


def _file_reader(path: Path, encoding: FileEncoding, frame: Frame, message: str) -> ToJson:
    with path.open("rb") as file:
        content = file.read(SCHEMA_BYTES_MAX + 1)
    if len(content) > SCHEMA_BYTES_MAX:
        raise SchemaProblemError(f"it has more than {SCHEMA_BYTES_MAX} bytes")
    if encoding == "protobuf":
        is_set = path.suffix in _DESCRIPTORS
        messages = ProtobufSchema(content if is_set else run_protoc(path.parent.resolve(), path.name))
        body_at = _FRAME_BYTES[frame]
        return messages.framed_reader(body_at) if body_at else messages.reader(message)
    schema = SchemaText("AVRO" if encoding == "avro" else "JSON", _text(content))
    if encoding == "json":
        return checked_json_reader(schema, _FRAME_BYTES[frame])
    return single_object_reader(schema) if frame == "single_object" else avro_reader(schema, _FRAME_BYTES[frame])


def _text(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
        json.loads(text)
    except UnicodeDecodeError:
        raise SchemaProblemError("it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise SchemaProblemError(f"it is not JSON: {error}") from None
    return text
