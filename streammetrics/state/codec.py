"""The version of all stored values, and the error for those that cannot be read.

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
