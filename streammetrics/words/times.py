"""Times and spans of time as text for people, in UTC. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

HOUR_MS: Final = 3_600_000


_DAY_MS: Final = 86_400_000
SPAN_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": _DAY_MS}
SPAN_MS_MAX: Final = 366 * _DAY_MS
"""The longest span that is read from text: a leap year. Longer ones are typing errors, and the limit keeps sums of spans small."""
CALENDAR_MS: Final = 146_097 * _DAY_MS
"""400 years, after which the calendar repeats."""


def minute_text(at_ms: int | None) -> str:
    """Format a time (epoch ms) to the minute.

    >>> minute_text(1_732_183_200_123), minute_text(253_402_300_800_000), minute_text(None)
    ('2024-11-21 10:00 UTC', '10000-01-01 00:00 UTC', 'an unknown time')
    """
    return "an unknown time" if at_ms is None else _text(at_ms, "%H:%M")


def second_text(at_ms: int) -> str:
    """Format a time (epoch ms) to the second.

    >>> second_text(1_732_183_200_123)
    '2024-11-21 10:00:00 UTC'
    """
    return _text(at_ms, "%H:%M:%S")


def _text(at_ms: int, clock: str) -> str:
    """Format a time of any year: `datetime` ends with the year 9999, and a window may end later."""
    cycles, rest_ms = divmod(at_ms, CALENDAR_MS)
    at = datetime.fromtimestamp(rest_ms // 1_000, UTC)
    return f"{at.year + 400 * cycles:04}-{at:%m-%d} {at:{clock}} UTC"


def span_text(ms: int) -> str:
    """Return a span of time with its largest unit, rounded to two digits, or to whole units from 10 on.

    >>> [span_text(ms) for ms in (900, 61_000, 150_000, 3 * 3_600_000, 5_400_000, 50 * 3_600_000, 5 * 86_400_000 - 1, -61_000)]
    ['900 ms', '61 s', '2.5 min', '3 h', '90 min', '2.1 days', '5 days', '-61 s']
    """
    if ms < 0:
        return f"-{span_text(-ms)}"
    for unit, name in ((86_400_000, "days"), (3_600_000, "h"), (60_000, "min")):
        if ms >= 2 * unit:
            count = ms / unit
            return f"{count:.0f} {name}" if count >= 10 else f"{count:.1f}".removesuffix(".0") + f" {name}"
    return f"{ms / 1_000:.3g} s" if ms >= 1_000 else f"{ms} ms"


def parse_since(text: str, now_ms: int) -> int:
    """Read a time with its zone, or a span before now (epoch ms), to epoch ms. Raises ValueError.

    >>> parse_since("2024-11-21T11:00:00.5+01:00", 0), parse_since("40m", 1_732_183_200_000)
    (1732183200500, 1732180800000)
    >>> parse_since("noon", 0)
    Traceback (most recent call last):
    ValueError: a time has a date and a zone, such as 2026-02-01T09:00:00Z; a span ago is such as 40m
    """
    rule = "a time has a date and a zone, such as 2026-02-01T09:00:00Z; a span ago is such as 40m"
    try:
        return now_ms - span_ms(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(rule) from None
    if moment.tzinfo is None or "T" not in text:
        raise ValueError(rule)
    return round(moment.timestamp() * 1_000)


def moment_text(at_ms: int) -> str:
    """Format a time (epoch ms) so that `parse_since` reads it.

    >>> moment_text(1_732_183_200_123), parse_since(moment_text(1_732_183_200_123), 0)
    ('2024-11-21T10:00:00.123+00:00', 1732183200123)
    """
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(timespec="milliseconds")


def span_ms(text: str) -> int:
    """Read a span of time such as `90s`, `5m`, `1h`, `7d`, `1500ms`, or a plain number of milliseconds. Raises ValueError for others.

    >>> span_ms("40m"), span_ms("250")
    (2400000, 250)
    """
    match = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d)?", text)
    if match is None:
        raise ValueError("a duration is a whole number with ms, s, m, h or d, such as 5m")
    ms = int(match[1]) * SPAN_UNITS_MS[match[2] or "ms"]
    if not 0 < ms <= SPAN_MS_MAX:
        raise ValueError("a duration is more than 0 and at most 366d")
    return ms
