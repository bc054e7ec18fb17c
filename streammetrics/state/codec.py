"""The version of all stored values, the error for those that cannot be read, and helpers for MessagePack.

Every value begins with the version, in an array. Another version is refused with what to do. What is stored by user, and unique users,
is MessagePack. Panes, sums of experiments and the control record are JSON, because their integers may exceed 64 bits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from streammetrics.errors import StateError, UnfitStateError

ReadT = TypeVar("ReadT", bound=tuple[Any, ...])

VERSION: Final = 1

encode_json = msgspec.json.Encoder().encode
plain_json: Callable[[bytes], Any] = msgspec.json.Decoder().decode
plain_msgpack: Callable[[bytes], Any] = msgspec.msgpack.Decoder().decode
"""Decode any value, to find out why it cannot be read."""


def check_version(version: Any, what: str) -> None:
    """Raise StateError for state of another version."""
    if version != VERSION:
        raise UnfitStateError(
            f"{what} in the store has version {version}, this program reads version {VERSION}",
            "run the version that wrote it, or start a new redis.namespace and replay",
        )


def refusal(stored: bytes, plain: Callable[[bytes], Any], what: str, error: Exception) -> StateError:
    """Return the error for bytes that cannot be decoded. If they name another version, that is the reason."""
    with contextlib.suppress(msgspec.DecodeError):
        content = plain(stored)
        if isinstance(content, list) and content and isinstance(content[0], int):
            check_version(content[0], what)
    return StateError(f"{what} in the store cannot be read ({error})", "start a new redis.namespace and replay from the topics")


def reader(decode: Callable[[bytes], ReadT], plain: Callable[[bytes], Any], what: str) -> Callable[[bytes], ReadT]:
    """Return a function that decodes values, tuples that begin with the version. It raises StateError for any other value."""

    def read(stored: bytes) -> ReadT:
        try:
            value = decode(stored)
        except msgspec.DecodeError as error:
            raise refusal(stored, plain, what, error) from error
        check_version(value[0], what)
        return value

    return read


_encoder = msgspec.msgpack.Encoder()
pack = _encoder.encode
"""Return a value as MessagePack."""
pack_into = _encoder.encode_into
"""Append a value to a bytearray as MessagePack: `pack_into(value, buffer, -1)`."""

_SHORT_HEADS = [bytes((0x90 | count,)) for count in range(1 << 4)]


def array_head(count: int) -> bytes:
    """Return the head of an array of `count` packed values.

    >>> values = array_head(3) + pack("a") + pack(7) + pack("b")
    >>> msgspec.msgpack.decode(values), msgspec.msgpack.decode(array_head(20) + 20 * pack(7)) == 20 * [7]
    (['a', 7, 'b'], True)
    """
    if count < 1 << 4:
        return _SHORT_HEADS[count]
    if count < 1 << 16:
        return b"\xdc" + count.to_bytes(2)
    return b"\xdd" + count.to_bytes(4)


def values_of(array: bytes, count: int) -> bytes:
    """Return the packed values of an array of `count` values, without its head.

    >>> values_of(pack(["a", 7]), 2) == pack("a") + pack(7), values_of(pack(20 * [7]), 20) == 20 * pack(7)
    (True, True)
    """
    return array[len(array_head(count)) :]
