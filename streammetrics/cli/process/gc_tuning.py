"""When Python looks for garbage: seldom, because state is hundreds of thousands of live objects without cycles, looked through in vain."""

from __future__ import annotations

import gc
import threading
from typing import Final

YOUNG_MAX: Final = 1_000_000
"""So many objects more than were freed are made before Python looks through them: most of an event's are gone by then."""
LOOK_SECONDS: Final = 5.0
"""How long garbage is left meanwhile: clients leave some hundred objects a second in cycles, and now and then all that a fetch brought."""
FEW: Final = 50_000
"""How many young objects are looked through at once: all threads wait meanwhile."""
LOOKS_LEFT_OUT_MAX: Final = 11
"""Where there are more, garbage is left for a minute."""


def tune_garbage_collection() -> None:
    """Let Python look for garbage by itself only when many objects have been made; with it goes `look_for_garbage`."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, 50, 100)


def look_for_garbage(stop: threading.Event, every_seconds: float = LOOK_SECONDS) -> None:
    """Look through the youngest objects again and again until told to stop; where there are many, more seldom."""
    left_out = 0
    while not stop.wait(every_seconds):
        young, _, _ = gc.get_count()
        if young <= FEW or left_out == LOOKS_LEFT_OUT_MAX:
            gc.collect(0)
            left_out = 0
        else:
            left_out += 1
