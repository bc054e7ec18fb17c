"""The clock. Modules that need the time get a clock as an argument, so that tests control it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The time: monotonic seconds, and epoch milliseconds."""

    def monotonic(self) -> float: ...

    def wall_ms(self) -> int: ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The time of this machine."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
