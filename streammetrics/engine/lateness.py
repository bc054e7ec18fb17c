"""How late the late events of an input are, and which event made them late. Kept small, for reports and dead letters."""

from __future__ import annotations

from typing import NamedTuple

KEPT_BITS = 4
"""Significant bits of a delay that are kept: a median is exact to about 7 %."""


class TimeSetter(NamedTuple):
    """The event that last moved the time of an input: its offset, user and time (ms)."""

    offset: int
    user: str
    ts: int


class StoredLateness(NamedTuple):
    """Late events of one input by rounded delay (ms), the greatest delay, and the event that set the time for the latest one."""

    delays: tuple[tuple[int, int], ...] = ()
    greatest_ms: int = 0
    setter: TimeSetter | None = None


class Lateness:
    """Counts late events by their delay: how long before the oldest admitted time they are (ms)."""

    __slots__ = ("delays", "greatest_ms", "setter")

    def __init__(self) -> None:
        self.restore(StoredLateness())

    def restore(self, stored: StoredLateness) -> None:
        self.delays, self.greatest_ms, self.setter = dict(stored.delays), stored.greatest_ms, stored.setter

    def stored(self) -> StoredLateness:
        return StoredLateness(tuple(sorted(self.delays.items())), self.greatest_ms, self.setter)

    def add(self, delay_ms: int, setter: TimeSetter | None) -> None:
        """Count a late event. `setter` moved the time of its input; None if the input has no time yet."""
        delay = rounded(delay_ms)
        self.delays[delay] = self.delays.get(delay, 0) + 1
        if delay_ms > self.greatest_ms:
            self.greatest_ms, self.setter = delay_ms, setter

    def merge(self, other: StoredLateness) -> None:
        """Add other late events of the same input. Of several latest ones, that of the least setter counts."""
        for delay, count in other.delays:
            self.delays[delay] = self.delays.get(delay, 0) + count
        greatest = (self.greatest_ms, self.setter)
        if other.greatest_ms > self.greatest_ms or (other.greatest_ms == self.greatest_ms and _is_before(other.setter, self.setter)):
            greatest = (other.greatest_ms, other.setter)
        self.greatest_ms, self.setter = greatest


def _is_before(one: TimeSetter | None, other: TimeSetter | None) -> bool:
    return one is not None and (other is None or one.offset < other.offset)


def rounded(delay_ms: int) -> int:
    """Return a delay with its first bits only.

    >>> rounded(9), rounded(1_000), rounded(65_537)
    (9, 960, 65536)
    """
    shift = max(0, delay_ms.bit_length() - KEPT_BITS)
    return delay_ms >> shift << shift


def median_ms(delays: dict[int, int]) -> int:
    """Return the lower median of delays by count; 0 if there are none.

    >>> median_ms({10: 1, 20: 1, 900: 2}), median_ms({})
    (20, 0)
    """
    half = (sum(delays.values()) + 1) // 2
    for delay, count in sorted(delays.items()):
        half -= count
        if half <= 0:
            return delay
    return 0
