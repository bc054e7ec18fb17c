"""A fast decoder backed by a reference decoder. What either decoder accepts is defined in its own module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from streammetrics.errors import MalformedEvent

DecodedT = TypeVar("DecodedT")

NOT_ACCEPTED: Final = (msgspec.MsgspecError, ValueError, RecursionError, MalformedEvent)
"""What a fast decoder raises for input that it leaves to the reference decoder."""


def with_fallback(fast: Callable[[bytes], DecodedT], reference: Callable[[bytes | None], DecodedT]) -> Callable[[bytes | None], DecodedT]:
    """Return a decoder that tries `fast` and calls `reference` where `fast` raises NOT_ACCEPTED.

    The reference decoder defines the result. A fast decoder may accept fewer inputs, but must return the same result
    for each input that it accepts. Absent bytes (None) always go to the reference decoder.

    >>> decode = with_fallback(lambda value: int(value), lambda value: -1)
    >>> decode(b"7"), decode(b"x"), decode(None)
    (7, -1, -1)
    """

    def decode(value: bytes | None) -> DecodedT:
        if value is not None:
            try:
                return fast(value)
            except NOT_ACCEPTED:
                pass
        return reference(value)

    return decode
