"""Arithmetic on event times: days, panes, and the bounds that follow from a watermark.

Pure. All times are milliseconds since the epoch. NEVER and FOREVER may be compared with other times, but not added to them.
"""

from __future__ import annotations

from typing import Final

DAY_MS: Final = 86_400_000
NEVER: Final = -(1 << 62)
"""Earlier than every event: a watermark's value before its first event."""
FOREVER: Final = 1 << 62
"""Later than every event: a watermark's value after a flush."""

SECONDS_BELOW: Final = 10_000_000_000
"""10 billion is April 1970 in milliseconds and the year 2286 in seconds."""
MILLISECONDS_ADVICE: Final = "multiply ts by 1,000 in the reader: it must be in milliseconds, not seconds"
"""What to do about a time that seems to be in seconds."""


def seems_seconds(ts: int) -> bool:
    """Return whether a time looks like seconds that were sent as milliseconds. NEVER and 0 do not.

    >>> seems_seconds(1_732_183_200), seems_seconds(1_732_183_200_000), seems_seconds(NEVER)
    (True, False, False)
    """
    return 0 < ts < SECONDS_BELOW


def pane_start(ts: int, pane_ms: int) -> int:
    """Return the start of the pane that contains `ts`. A pane includes its start and excludes its end.

    Per-list loops (`tally_deltas`, the engine) inline this expression, because a call costs more than the arithmetic.

    >>> [pane_start(ts, 10) for ts in (-1, 0, 9, 10)]
    [-10, 0, 0, 10]
    """
    return ts - ts % pane_ms


def close_bound(watermark_ms: int, lateness_ms: int) -> int:
    """Return the time (ms) before which no event is admitted any more.

    >>> [close_bound(watermark, 5) for watermark in (NEVER, 20, FOREVER)] == [NEVER, 15, FOREVER]
    True
    """
    return watermark_ms if watermark_ms in (NEVER, FOREVER) else watermark_ms - lateness_ms


def final_bound(watermark_ms: int, lateness_ms: int, waiting_ms: int) -> int:
    """Return the time (ms) up to which panes are complete, if their lists wait `waiting_ms` for feedback."""
    return close_bound(watermark_ms, lateness_ms + waiting_ms)
