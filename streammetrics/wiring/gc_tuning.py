"""Garbage collection tuned for state: hundreds of thousands of live objects without cycles, which need no scans."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

YOUNG_MAX: Final = 1_000_000
"""Threshold of the youngest generation. By the time it is reached, most objects of processed events are freed."""
RARE: Final = (YOUNG_MAX, 50, 100)
"""Thresholds of the three generations."""
COLLECT_SECONDS: Final = 5.0
"""Time between two collections. Clients leave about a hundred objects a second in cycles, sometimes a whole fetch response."""
YOUNG_FEW: Final = 50_000
"""Maximum young objects for an ordinary collection, because all threads wait while it runs."""
ALL_SECONDS: Final = 60.0
"""Minimum time between two collections of all garbage. The others leave what was in use at an earlier collection."""
ALL_SHARE_MAX: Final = 0.001
"""Maximum share of the time for them. One takes about 0.3 s for a million objects in containers, so it runs every five minutes then."""
SKIPPED_MAX: Final = 11
"""Maximum skipped collections in a row: with more young objects than YOUNG_FEW, one runs every minute."""


def tune_garbage_collection() -> None:
    """Make automatic collections rare. Run `collect_garbage` in a thread as well."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*RARE)


@contextmanager
def rare_garbage_collection() -> Iterator[None]:
    """Make automatic collections rare for a while, as in a command that reads files and makes few cycles.

    What the process has frozen before stays frozen.
    """
    thresholds, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    if is_frozen:
        gc.set_threshold(*RARE)
    else:
        tune_garbage_collection()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not is_frozen:
            gc.unfreeze()


def collect_garbage(stop: threading.Event, every_seconds: float = COLLECT_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
    """Collect garbage periodically until `stop` is set: the youngest generation, less often when it is large; all of it more rarely.

    What survives one collection is old. Python would collect it after millions of new objects, which these collections prevent.
    """
    skipped, all_at = 0, clock() + ALL_SECONDS
    while not stop.wait(every_seconds):
        begin = clock()
        if begin >= all_at:
            gc.collect()
            all_at = begin + max(ALL_SECONDS, (clock() - begin) / ALL_SHARE_MAX)
            skipped = 0
        elif gc.get_count()[0] <= YOUNG_FEW or skipped == SKIPPED_MAX:
            gc.collect(0)
            skipped = 0
        else:
            skipped += 1
