"""JSON as plain objects with exact numbers, and JSON that is inside a text."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final

import msgspec

_TOO_LARGE: Final = Decimal("Infinity")


def exact(number: str) -> Decimal:
    """Return a number without rounding. A number with an absurd exponent is infinite, so that no field takes it."""
    try:
        return Decimal(number)
    except InvalidOperation:
        return _TOO_LARGE


parse_plain = msgspec.json.Decoder(float_hook=exact).decode


@lru_cache(maxsize=8)
def json_in_text(text: str) -> Any:
    """Return the object or the array that a text holds; None if it holds none. The result is shared: do not change it.

    >>> json_in_text('{"a":[1]}'), json_in_text("{broken"), json_in_text("7")
    ({'a': [1]}, None, None)
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return parse_plain(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
