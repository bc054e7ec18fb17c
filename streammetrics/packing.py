"""What a session is made of in its stored form, event by event: a commit then has only bytes to copy.

Pure. None of a session's events ever changes, and most were part of the last commit already. Each is packed as it comes, while the
processor has it at hand: that costs a fraction of finding it again later among the events of all users.
"""

from __future__ import annotations

import msgspec

pack = msgspec.msgpack.Encoder().encode
"""One value as MessagePack."""


def array_of(count: int, pieces: list[bytes]) -> msgspec.Raw:
    """So many values, packed one after the other in some pieces, as an array that goes into any other MessagePack as it is.

    The pieces become one, so that the next time there is only what is new to look for.

    >>> pieces = [pack("a"), pack(7) + pack("b")]
    >>> whole = pack([array_of(3, pieces), array_of(20, [pack(7) * 20]), array_of(0, [])])
    >>> msgspec.msgpack.decode(whole) == [["a", 7, "b"], [7] * 20, []], len(pieces)
    (True, 1)
    """
    if count < 1 << 4:
        head = bytes((0x90 | count,))
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2)
    else:
        head = b"\xdd" + count.to_bytes(4)
    if len(pieces) != 1:
        pieces[:] = (b"".join(pieces),)
    return msgspec.Raw(head + pieces[0])
