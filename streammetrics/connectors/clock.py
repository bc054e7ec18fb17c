"""The one real clock; whoever needs time is given one."""

from __future__ import annotations

import time


class SystemClock:
    """The machine's time."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
