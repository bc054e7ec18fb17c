"""Protobuf records -> JSON, with the protobuf package.

Fields keep the names of the .proto file. Numbers stay numbers, enums are their names, bytes are base64, Timestamp is ISO-8601 text. A
text field without presence is left out while it is empty: Protobuf does not say whether it was set.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from streammetrics.events.encodings.avro import nonfinite_as_text
from streammetrics.events.encodings.frames import message_indexes
from streammetrics.events.encodings.schema_text import SchemaProblemError, damaged, encode_json, needed
from streammetrics.events.sent_value import ToJson

_Convert: TypeAlias = Callable[[Any], Any]
_STRING, _BYTES = 9, 12
"""Protobuf's numbers of these field types."""
_OWN_JSON: Final = "google.protobuf."
"""Messages of this package have a JSON form of their own: Timestamp, Duration, Struct, wrappers."""
_WELL_KNOWN: Final = ["any", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "type", "wrappers"]


class ProtobufSchema:
    """A file of messages with all that it imports.

    `files` is a serialized FileDescriptorSet; the last file is the one whose messages records have. Raises SchemaProblemError, and
    MissingPackageError without protobuf.
    """

    def __init__(self, files: bytes) -> None:
        pool = _library("descriptor_pool").DescriptorPool()
        try:
            found = _library("descriptor_pb2").FileDescriptorSet.FromString(files).file
            if not found:
                raise SchemaProblemError("it names no file")
            files_by_name, added = {file.name: file for file in found}, set[str]()
            for name in files_by_name:
                _add(pool, name, files_by_name, added)
            self._file = pool.FindFileByName(found[-1].name)
        except SchemaProblemError:
            raise
        except Exception as error:  # the package raises TypeError, KeyError, DecodeError and others for files that do not fit together
            raise SchemaProblemError(f"it is not a valid Protobuf schema: {error or type(error).__name__}") from None
        self._pool = pool
        self._readers: dict[tuple[int, ...], ToJson] = {}

    @property
    def messages(self) -> tuple[str, ...]:
        """The full names of the messages of the file, without nested ones."""
        return tuple(message.full_name for message in self._file.message_types_by_name.values())

    def reader(self, message: str = "", body_at: int = 0) -> ToJson:
        """Return a reader of one message by its full name; without a name, of the first message. Raises SchemaProblemError."""
        try:
            kind = self._pool.FindMessageTypeByName(message) if message else self._at((0,))
        except KeyError:
            raise SchemaProblemError(f"it has no message {message}; it has {', '.join(self.messages)}") from None
        if kind is None:
            raise SchemaProblemError("it has no message")
        read = _message_reader(kind)
        return lambda value: read(value[body_at:])

    def named_reader(self, name: str) -> ToJson:
        """Return a reader of a message by its name without the package; without a name, of the first message. Raises SchemaProblemError."""
        full = next((message for message in self.messages if message.rpartition(".")[2] == name), name)
        return self.reader(full)

    def reader_at(self, indexes: Sequence[int]) -> ToJson:
        """Return a reader of the message at these indexes in the file. Raises SchemaProblemError."""
        kind = self._at(indexes)
        if kind is None:
            raise SchemaProblemError(f"it has no message at the indexes {list(indexes)}")
        return _message_reader(kind)

    def framed_reader(self, indexes_at: int) -> ToJson:
        """Return a reader of records that name their message at `indexes_at`, before the body.

        Confluent writes the indexes of the message in its file, and Apicurio its name: the size of a message of Protobuf with one text
        field, and that message.
        """
        by_name = {_named(name): name for name in (message.rpartition(".")[2] for message in self.messages)}
        sizes = sorted({len(start) for start in by_name})

        def to_json(value: bytes) -> bytes:
            for size in sizes:
                if (name := by_name.get(value[indexes_at : indexes_at + size])) is not None:
                    at = next(at for at, each in enumerate(self.messages) if each.rpartition(".")[2] == name)
                    return self._kept_reader((at,))(value[indexes_at + size :])
            found = message_indexes(value, indexes_at)
            if found is None:
                raise damaged("Protobuf in a registry's frame", "the indexes of its message are damaged")
            indexes, body_at = found
            return self._kept_reader(indexes)(value[body_at:])

        return to_json

    def _kept_reader(self, indexes: tuple[int, ...]) -> ToJson:
        """Return the reader of the message that a record names. Refuses the record if its schema has no such message that can be read."""
        if indexes not in self._readers:
            try:
                self._readers[indexes] = self.reader_at(indexes)
            except SchemaProblemError as error:
                raise damaged("Protobuf of its schema", error, "correct the schema, or its sender") from None
        return self._readers[indexes]

    def _at(self, indexes: Sequence[int]) -> Any:
        """Return the message at these indexes, or None. They are positions in the file, then in the message, and so on."""
        proto = _library("descriptor_pb2").FileDescriptorProto()
        self._file.CopyToProto(proto)
        nested, name = proto.message_type, self._file.package
        for index in indexes:
            if index >= len(nested):
                return None
            name = f"{name}.{nested[index].name}" if name else nested[index].name
            nested = nested[index].nested_type
        return self._pool.FindMessageTypeByName(name)


def _named(name: str) -> bytes:
    """Return how Apicurio's serializer names a message, before the body."""
    text = name.encode()
    return bytes([len(text) + 2, 0x0A, len(text)]) + text if len(text) < 0x7E else text


def _library(name: str) -> Any:
    """Return a module of the package protobuf. Raises MissingPackageError."""
    return needed(f"google.protobuf.{name}", "protobuf", "protobuf", "Protobuf")


def descriptor_set(files: Mapping[str, str]) -> bytes:
    """Return a FileDescriptorSet of files in base64, as Confluent's Python client registers them. The last one is the schema.

    Raises SchemaProblemError.
    """
    descriptor_pb2 = _library("descriptor_pb2")
    found = descriptor_pb2.FileDescriptorSet()
    for name, text in files.items():
        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except Exception:  # base64 and protobuf raise errors of their own
            raise SchemaProblemError(f"{name} is neither the text of a .proto file nor a descriptor in base64") from None
        if name:
            file.name = name
        found.file.append(file)
    joined: bytes = found.SerializeToString()
    return joined


def is_descriptor(text: str) -> bool:
    """Return whether a registered schema is a descriptor in base64, and not the text of a .proto file.

    >>> is_descriptor('syntax = "proto3"; message Click {}'), is_descriptor("CgtjbGljay5wcm90bw==")
    (False, True)
    """
    return text.strip() != "" and not set(text.strip()) & set(' {;"')


def _add(pool: Any, name: str, files: Mapping[str, Any], added: set[str]) -> None:
    """Add a file to a pool, after its imports."""
    if name in added:
        return
    added.add(name)
    file = files[name] if name in files else _well_known(name)
    for imported in file.dependency:
        _add(pool, imported, files, added)
    pool.Add(file)


def _well_known(name: str) -> Any:
    """Return a file that comes with the package, such as google/protobuf/timestamp.proto."""
    short = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if short not in _WELL_KNOWN:
        raise SchemaProblemError(f"it imports {name}, which is not among its references")
    file = _library("descriptor_pb2").FileDescriptorProto()
    _library(f"{short}_pb2").DESCRIPTOR.CopyToProto(file)
    return file


def _message_reader(kind: Any) -> ToJson:
    """Return a reader of the bare bytes of a message. Raises SchemaProblemError if its messages hold each other too deeply."""
    try:
        parse: _Convert = _library("message_factory").GetMessageClass(kind).FromString
        convert = _Converters().of(kind)
    except RecursionError:
        raise SchemaProblemError(f"the messages inside {kind.full_name} are nested too deeply") from None

    def to_json(body: bytes) -> bytes:
        try:
            found = convert(parse(body))
            text = encode_json(found)
        except Exception as error:  # damaged bytes raise DecodeError, and times out of range others
            raise damaged(f"Protobuf of the message {kind.full_name}", error) from None
        return encode_json(nonfinite_as_text(found)) if b"null" in text else text

    return to_json


class _Converters:
    """Functions from messages to plain objects, one for each message type."""

    def __init__(self) -> None:
        self._made: dict[str, dict[int, tuple[str, _Convert | None]]] = {}

    def of(self, kind: Any) -> _Convert:
        if kind.full_name.startswith(_OWN_JSON):
            return _own_json
        if kind.full_name in self._made:  # it contains itself
            fields, empty = self._made[kind.full_name], _empty(kind)
        else:
            fields, empty = self._made.setdefault(kind.full_name, {}), _empty(kind)
            fields.update({field.number: (field.name, self._value(field)) for field in kind.fields})

        def convert(message: Any) -> dict[str, Any]:
            found = dict(empty)
            for field, value in message.ListFields():
                name, inner = fields[field.number]
                found[name] = value if inner is None else inner(value)
            return found

        return convert

    def _value(self, field: Any) -> _Convert | None:
        """Return how a field's value is converted; None: it stays."""
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field.message_type)
        one = self._single(field)
        if not field.is_repeated:
            return one
        return list if one is None else lambda values: [one(value) for value in values]

    def _single(self, field: Any) -> _Convert | None:
        if field.message_type is not None:
            return self.of(field.message_type)
        if field.enum_type is not None:
            names = {value.number: value.name for value in field.enum_type.values}
            return lambda number: names.get(number, number)
        return None

    def _map(self, entry: Any) -> _Convert:
        """Keys become text, as in JSON."""
        one = self._single(entry.fields_by_name["value"])
        is_text = entry.fields_by_name["key"].type == _STRING
        if one is None:
            return dict if is_text else lambda found: {_key(key): value for key, value in found.items()}
        return lambda found: {key if is_text else _key(key): one(value) for key, value in found.items()}


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _own_json(message: Any) -> Any:
    return _library("json_format").MessageToDict(message, preserving_proto_field_name=True)


def _empty(kind: Any) -> dict[str, Any]:
    """Return the values of fields that are not on the wire: numbers, booleans, enums, arrays and maps without presence."""
    return {field.name: value for field in kind.fields if (value := _default(field)) is not None}


def _default(field: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {}
    if field.is_repeated:
        return []
    if field.has_presence or field.type in (_STRING, _BYTES):
        return None
    return field.enum_type.values_by_number[0].name if field.enum_type is not None else field.default_value
