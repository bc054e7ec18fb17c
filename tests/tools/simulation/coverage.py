"""The tables of what was covered: each fault, each pair of faults, each state of a task."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from tests.tools.simulation.schedule import CALM, EVENTS, FAULTS
from tests.tools.simulation.search import Outcome

MORE = (
    "a rebalance in the middle of a step",
    "a process stops because a key is missing",
    "a process stops because all state is lost",
)
"""Faults that follow from others."""
NAMES = (*(name for name in EVENTS if name not in CALM), *FAULTS, *MORE)
RAREST = 12


class Coverage:
    """Counts over all schedules."""

    def __init__(self) -> None:
        self.schedules = 0
        self.states: Counter[str] = Counter()
        self._times: Counter[str] = Counter()
        self._schedules: Counter[str] = Counter()
        self._pairs: Counter[tuple[str, str]] = Counter()

    def add(self, outcome: Outcome) -> None:
        """Add one schedule."""
        self.schedules += 1
        self.states.update(outcome.states)
        seen = [name for name in NAMES if outcome.seen[name]]
        self._times.update({name: outcome.seen[name] for name in seen})
        self._schedules.update(seen)
        self._pairs.update(combinations(seen, 2))

    def pairs(self) -> list[tuple[int, str, str]]:
        """Return in how many schedules each pair of faults came together, the rarest first."""
        return sorted((self._pairs[pair], *pair) for pair in combinations(NAMES, 2))

    def print(self, console: Console, all_pairs: bool) -> None:
        """Print the tables, with all pairs of faults or the rarest."""
        faults = _table("fault", "times", "schedules")
        for name in NAMES:
            faults.add_row(name, f"{self._times[name]:,}", f"{self._schedules[name]:,}")
        states = _table("state of a task before a turn", "times")
        for name, times in self.states.most_common():
            states.add_row(name, f"{times:,}")
        pairs, counts = _table("pair of faults", "schedules"), self.pairs()
        for schedules, one, other in counts if all_pairs else counts[:RAREST]:
            pairs.add_row(f"{one} + {other}", f"{schedules:,}")
        console.print(faults, states, pairs)
        never = sum(1 for schedules, *_ in counts if not schedules)
        remark = "" if all_pairs else f"; the {RAREST} rarest are above, --pairs shows all"
        console.print(f"{len(counts) - never:,} of {len(counts):,} pairs of faults came together in a schedule{remark}")


def _table(name: str, *counts: str) -> Table:
    table = Table(box=MARKDOWN, title=None)
    table.add_column(name, overflow="fold")
    for count in counts:
        table.add_column(count, justify="right")
    return table
