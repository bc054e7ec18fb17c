"""Event time, in milliseconds from the epoch: its days and panes, its ends, and the bounds that follow from where a watermark stands.

Pure, and knows nothing of events. NEVER and FOREVER are times like others when they are compared; nothing is added to them or taken away.
"""

from __future__ import annotations

from typing import Final

DAY_MS: Final = 86_400_000
NEVER: Final = -(1 << 62)
"""Before every event: where a watermark stands before it has seen one."""
FOREVER: Final = 1 << 62
"""After every event: where a watermark stands after a flush, when nothing more will come."""

SECONDS_BELOW: Final = 10_000_000_000
"""Epoch milliseconds of April 1970, and seconds of the year 2286."""


def seems_seconds(ts: int) -> bool:
    """Whether a time is one of today if it is in seconds, and one of 1970 in milliseconds; NEVER and 0 are neither.

    >>> seems_seconds(1_732_183_200), seems_seconds(1_732_183_200_000), seems_seconds(NEVER)
    (True, False, False)
    """
    return 0 < ts < SECONDS_BELOW


def pane_start(ts: int, pane_ms: int) -> int:
    """The start of the pane that holds `ts`, counted from the epoch; the start belongs to the pane, the end does not.

    Where it is asked for list after list, in `scoring` and in `task`, it is written out: a call costs more than what it does.

    >>> [pane_start(ts, 10) for ts in (-1, 0, 9, 10)]
    [-10, 0, 0, 10]
    """
    return ts - ts % pane_ms


def close_bound(watermark_ms: int, lateness_ms: int) -> int:
    """No event before this time (ms) is admitted any more.

    >>> [close_bound(watermark, 5) for watermark in (NEVER, 20, FOREVER)] == [NEVER, 15, FOREVER]
    True
    """
    return watermark_ms if watermark_ms in (NEVER, FOREVER) else watermark_ms - lateness_ms


def final_bound(watermark_ms: int, lateness_ms: int, waiting_ms: int) -> int:
    """Every pane that ends at or before this time (ms), and whose lists wait so long, is complete and will not change."""
    return close_bound(watermark_ms, lateness_ms + waiting_ms)
