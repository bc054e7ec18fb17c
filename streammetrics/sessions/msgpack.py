"""What a session is made of in its stored form, event by event: a commit then has only bytes to copy.

Pure. None of a session's events ever changes, and most were part of the last commit already. Each is packed as it comes, while the
processor has it at hand: that costs a fraction of finding it again later among the events of all users.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

_encoder = msgspec.msgpack.Encoder()
pack = _encoder.encode
"""One value as MessagePack."""
pack_into = _encoder.encode_into
"""One value as MessagePack, written into a bytearray from an index on; -1: after what it holds."""

_SHORT_HEADS = [bytes((0x90 | count,)) for count in range(1 << 4)]


def array_head(count: int) -> bytes:
    """What makes an array of the packed values that follow it, so many.

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
    """The packed values of an array of so many, without its head.

    >>> values_of(pack(["a", 7]), 2) == pack("a") + pack(7), values_of(pack(20 * [7]), 20) == 20 * pack(7)
    (True, True)
    """
    return array[len(array_head(count)) :]


def packed(values: Iterable[Any]) -> bytearray:
    """Values, packed one after the other."""
    whole = bytearray()
    for value in values:
        pack_into(value, whole, -1)
    return whole
