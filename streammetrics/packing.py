"""The stored form of what a session is made of, event by event: a commit then has only bytes to gather.

Pure. None of a session's events ever changes, and most were part of the last commit already. Each is packed as it comes, while the
processor has it at hand: that costs a fraction of finding it again later among the events of all users.
"""

from __future__ import annotations

import msgspec

_pack = msgspec.msgpack.Encoder().encode


def packed(value: msgspec.Struct) -> msgspec.Raw:
    """MessagePack that goes into any other as it is.

    >>> from streammetrics.copies import Facts
    >>> whole = msgspec.msgpack.encode([packed(Facts("i", 0, ("a", "b"), (), (), (), 0))])
    >>> msgspec.msgpack.decode(whole)
    [['i', 0, ['a', 'b'], [], [], [], 0]]
    """
    return msgspec.Raw(_pack(value))
