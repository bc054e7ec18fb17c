"""MessagePack helpers: events are packed when they arrive, so a commit only copies bytes.

Events never change, and most were part of an earlier commit. Packing an event while it is in the processor's cache costs much less than
finding it again at the commit.
"""

from __future__ import annotations

import msgspec

_encoder = msgspec.msgpack.Encoder()
pack = _encoder.encode
"""Return a value as MessagePack."""

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
