"""The frames of schema registries: where a record names its schema, and where its body begins. Pure.

| frame | bytes |
|---|---|
| Confluent, and Apicurio since 3.0 | `00`, schema id (4 bytes, big-endian), body |
| Apicurio before 3.0 | `00`, global id (8 bytes, big-endian), body |
| Confluent, in headers | `__value_schema_id`: `01` and a UUID; the body is bare |
| Apicurio, in headers | `apicurio.value.globalId` or `apicurio.value.contentId`: 8 bytes, big-endian; the body is bare |

With Protobuf, `apicurio.protobuf.type` is the name of the message.

Registries count ids from 1, so an id of four zero bytes begins an id of eight bytes. With Protobuf, the indexes of the message follow the
id: in the body, or in Confluent's header.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias
from uuid import UUID

from streammetrics.events.sent_value import Headers

IdKind: TypeAlias = Literal["schema_id", "global_id", "content_id", "guid"]
"""What an id means: Confluent's schema id, Apicurio's global or content id, or Confluent's GUID."""

MAGIC: Final = 0
CONFLUENT_BYTES: Final = 5
APICURIO_BYTES: Final = 9
INDEXES_MAX: Final = 64
"""Deepest nesting of a Protobuf message in its file."""

_GUID_HEADER: Final = "__value_schema_id"
_GUID_VERSION: Final = b"\x01"
_ID_HEADERS: Final[Sequence[tuple[str, IdKind]]] = (("apicurio.value.globalId", "global_id"), ("apicurio.value.contentId", "content_id"))
_TYPE_HEADER: Final = "apicurio.protobuf.type"
_ZERO_ID: Final = bytes(CONFLUENT_BYTES)


class SchemaRef(NamedTuple):
    """Names one schema of a registry. `indexes` or `message` name the message of Protobuf, if a header does and not the body."""

    kind: IdKind
    id: str
    body_at: int
    indexes: tuple[int, ...] | None = None
    message: str = ""

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.id}"


def frame_key(value: bytes) -> bytes | None:
    """Return the bytes that name the schema of a framed record; None for a record without a frame.

    >>> frame_key(b"\\x00\\x00\\x00\\x00\\x07body"), frame_key(bytes(8) + b"\\x07body"), frame_key(b'{"type":"feedback"}')
    (b'\\x00\\x00\\x00\\x00\\x07', b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07', None)
    """
    if len(value) < CONFLUENT_BYTES or value[0] != MAGIC:
        return None
    key = value[:CONFLUENT_BYTES]
    if key != _ZERO_ID:
        return bytes(key)
    return bytes(value[:APICURIO_BYTES]) if len(value) >= APICURIO_BYTES else None


def framed_ref(key: bytes, kind: IdKind) -> SchemaRef:
    """Return the schema that a frame names. `kind` is what the ids of this registry mean.

    >>> framed_ref(b"\\x00\\x00\\x00\\x00\\x07", "schema_id")
    SchemaRef(kind='schema_id', id='7', body_at=5, indexes=None, message='')
    """
    return SchemaRef(kind, str(int.from_bytes(key[1:])), len(key))


class HeaderKey(NamedTuple):
    """The header that names the schema of a record, and the one that names its Protobuf message, if there is one."""

    name: str
    found: bytes
    message: bytes = b""


def header_key(headers: Headers) -> HeaderKey | None:
    """Return the headers that name the schema of a record; None if there are none."""
    for name in (_GUID_HEADER, *(name for name, _ in _ID_HEADERS)):
        found = headers.get(name)
        if found is not None:
            return HeaderKey(name, found, headers.get(_TYPE_HEADER) or b"")
    return None


def header_ref(name: str, found: bytes, message: bytes = b"") -> SchemaRef | None:
    """Return the schema that headers name; None if they are not valid.

    >>> header_ref("apicurio.value.globalId", bytes(7) + b"\\x03", b"Click")
    SchemaRef(kind='global_id', id='3', body_at=0, indexes=None, message='Click')
    >>> header_ref("__value_schema_id", b"\\x01" + bytes(15) + b"\\x07\\x02\\x02").indexes
    (1,)
    """
    if name == _GUID_HEADER:
        if len(found) < 17 or found[:1] != _GUID_VERSION:
            return None
        indexes: tuple[int, ...] | None = None
        if len(found) > 17:
            read = message_indexes(found, 17)
            if read is None or read[1] != len(found):
                return None
            indexes = read[0]
        return SchemaRef("guid", str(UUID(bytes=bytes(found[1:17]))), 0, indexes)
    kind = dict(_ID_HEADERS)[name]
    text = message.decode("utf-8", "replace")
    return SchemaRef(kind, str(int.from_bytes(found)), 0, message=text) if len(found) == 8 else None


def message_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int] | None:
    """Return the indexes of a Protobuf message in its file, and where its body begins. None if they are damaged.

    They are zigzag varints: their number, then one for each level. A single zero byte is the first message.

    >>> message_indexes(b"\\x00body", 0), message_indexes(b"\\x04\\x02\\x00body", 0)
    (((0,), 1), ((1, 0), 3))
    >>> message_indexes(b"\\x04\\x02", 0) is None
    True
    """
    count, at = _varint(data, at)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        return None
    indexes = []
    for _ in range(count):
        index, at = _varint(data, at)
        if index < 0:
            return None
        indexes.append(index)
    return tuple(indexes), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it; -1 for one that is damaged or longer than 32 bits."""
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    return -1, at
