"""The lists of other variants after the last list of a variant: they tell whether it has stopped. From panes, so they count at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streammetrics.windows.panes import Group
from streammetrics.windows.rolling import WindowAggregator

PANES_MAX: Final = 32
"""Panes that are read after a last list. Of more, every second, fourth, eighth one is read, and counts as often."""
PANES_OPEN: Final = 3
"""The newest panes are read again each time, because lists still come to them."""


class LaterLists:
    """Counts the lists of an experiment after the last one of each variant. Panes that are complete are read once.

    The count grows as long as the variant has no list. Its share is taken from a block of hours to which the others go on to add lists. A
    count that stood still would mean less and less, until the variant seemed to run again.
    """

    def __init__(self, aggregator: WindowAggregator) -> None:
        self._aggregator = aggregator
        self._complete: dict[tuple[str, str], tuple[int, dict[int, int]]] = {}
        """By experiment and variant, its last list, and the lists of complete panes by their start."""

    def of(self, experiment: str, last_ms: Mapping[str, int]) -> dict[str, int]:
        """Return by variant the lists of all other variants in the panes that begin after its last list (`last_ms`)."""
        return {variant: self._count(experiment, variant, at) for variant, at in last_ms.items()}

    def _count(self, experiment: str, variant: str, last_ms: int) -> int:
        known_ms, known = self._complete.get((experiment, variant), (None, {}))
        complete = known if known_ms == last_ms else {}
        starts, step = self._aggregator.starts(last_ms + 1), 1
        while len(starts) > step * PANES_MAX:
            step *= 2
        chosen = [start for start in starts if start // self._aggregator.rules.pane_ms % step == 0]
        counts = {start: complete[start] if start in complete else self._others(experiment, variant, start) for start in chosen}
        still_open = starts[-PANES_OPEN:]
        self._complete[experiment, variant] = last_ms, {start: count for start, count in counts.items() if start not in still_open}
        return step * sum(counts.values())

    def _others(self, experiment: str, variant: str, start: int) -> int:
        layout, pane = self._aggregator.layout, self._aggregator.pane(start)
        return sum(layout.lists(tally) for group, tally in pane.items() if _is_of_another(group, experiment, variant))


def _is_of_another(group: Group, experiment: str, variant: str) -> bool:
    return group.experiment == experiment and group.variant != variant and not group.segment
