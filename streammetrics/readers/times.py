"""Times as systems write them -> epoch milliseconds, the `ts` of an event. Finer digits are cut off. Raises ValueError for no time."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from streammetrics.events.json_text import iso_ms

_FORMS: Final = re.compile(
    r"(\d{4}-?\d\d-?\d\d)[Tt ]+(\d\d:?\d\d(?::?\d\d(?:[.,]\d+)?)?) *(Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def seconds(value: float | str | Decimal) -> int:
    """Return the milliseconds of a time in seconds, with or without a fraction.

    >>> seconds(1732183200.123), seconds("1732183200")
    (1732183200123, 1732183200000)
    """
    return _scaled(value, 1_000)


def micros(value: float | str | Decimal) -> int:
    """Return the milliseconds of a time in microseconds.

    >>> micros(1732183200123999), micros("1732183200123456")
    (1732183200123, 1732183200123)
    """
    return _scaled(value, Decimal("0.001"))


def text(value: str, zone: str = "") -> int:
    """Return the milliseconds of a date and a time. `zone` is used for times without one, such as `Z` or `+01:00`.

    The zone may stand after a space, be `UTC`, or have no colon.

    >>> text("2026-03-01 12:00:00.123 UTC"), text("2026-03-01T04:00:00-0800"), text("2026-03-01 12:00:00", "Z")
    (1772366400123, 1772366400000, 1772366400000)
    >>> text("2026-03-01 12:00:00")
    Traceback (most recent call last):
    ...
    ValueError: '2026-03-01 12:00:00' has no time zone; if you know it, say it: text(value, "Z")
    """
    match = _FORMS.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is no date and time, such as 2026-03-01 12:00:00 UTC")
    offset = match[3] or zone
    if not offset:
        raise ValueError(f'{value!r} has no time zone; if you know it, say it: text(value, "Z")')
    ms = iso_ms(f"{match[1]}T{match[2]}{'Z' if offset.upper() in ('UTC', 'GMT') else offset}")
    if ms is None:
        raise ValueError(f"{value!r} is no date and time, such as 2026-03-01 12:00:00 UTC")
    return ms


def _scaled(value: float | str | Decimal, factor: int | Decimal) -> int:
    """Return the whole milliseconds of a number, exactly as it is written. A float is taken as its shortest decimal text."""
    try:
        if isinstance(value, bool):
            raise TypeError("a boolean")
        return int(Decimal(str(value)) * factor)
    except (InvalidOperation, OverflowError, TypeError, ValueError):
        raise ValueError(f"{value!r} is no number") from None
