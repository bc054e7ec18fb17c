"""The one source of chance of a run. It counts what happened, for the tables of coverage."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from random import Random

CALLS_MAX = 100_000
"""Most calls of a run, about 60 times as many as any makes. A run with more would never end."""


class ProcessDied(BaseException):
    """A simulated process died in the middle of a call."""


class Fate:
    """Decides what happens. `shares` has the chance of each fault at each call."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self.chance = Random(0)
        self.seen: Counter[str] = Counter()
        """How often each fault came."""
        self.states: Counter[str] = Counter()
        """How often a task was in each state before a turn."""
        self.is_calm = False
        self._shares = shares
        self._calls = 0

    def begin(self, seed: int) -> None:
        """Begin an event. What is chosen in it depends on its own seed alone."""
        self.chance.seed(seed)
        random.seed(seed)  # the jitter of the product's own waiting times

    def strikes(self, fault: str) -> bool:
        """Return whether a fault happens now. Raises AssertionError after CALLS_MAX calls."""
        self._calls += 1
        assert self._calls <= CALLS_MAX, f"no end after {CALLS_MAX:,} calls: something is tried again for ever"
        if self.is_calm or self.chance.random() >= self._shares[fault]:
            return False
        self.seen[fault] += 1
        return True

    def note(self, fault: str) -> None:
        """Count a fault that has happened."""
        self.seen[fault] += 1

    def may_die(self) -> None:
        """Let the process that makes this call die here, now and then."""
        if self.strikes("a process dies in a call"):
            raise ProcessDied
