"""The lists of other variants after the last list of a variant: they tell whether it has stopped. From panes, so they count at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streammetrics.windows.panes import Group
from streammetrics.windows.rolling import WindowAggregator

PANES_MAX: Final = 30
"""Panes that are read after a last list. A variant that should have had lists has missed enough of them by then."""


class LaterLists:
    """Counts the lists of an experiment after the last one of each variant. What is complete is read once."""

    def __init__(self, aggregator: WindowAggregator) -> None:
        self._aggregator = aggregator
        self._complete: dict[tuple[str, str], tuple[int, int]] = {}
        """By experiment and variant, its last list and the count."""

    def of(self, experiment: str, last_ms: Mapping[str, int]) -> dict[str, int]:
        """Return by variant the lists of all other variants in the panes that begin after its last list (`last_ms`)."""
        return {variant: self._count(experiment, variant, at) for variant, at in last_ms.items()}

    def _count(self, experiment: str, variant: str, last_ms: int) -> int:
        known_ms, complete = self._complete.get((experiment, variant), (None, 0))
        if known_ms == last_ms:
            return complete
        starts = self._aggregator.starts(last_ms + 1)[:PANES_MAX]
        count = sum(self._others(experiment, variant, start) for start in starts)
        if len(starts) == PANES_MAX:
            self._complete[experiment, variant] = last_ms, count
        return count

    def _others(self, experiment: str, variant: str, start: int) -> int:
        layout, pane = self._aggregator.layout, self._aggregator.pane(start)
        return sum(layout.lists(tally) for group, tally in pane.items() if _is_of_another(group, experiment, variant))


def _is_of_another(group: Group, experiment: str, variant: str) -> bool:
    return group.experiment == experiment and group.variant != variant and not group.segment
