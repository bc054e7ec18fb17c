"""The final lists of the last day, as exact sums: by variant and segment value, and of each variant over time. Pure.

They are read when a pane has become final, not at every report. The exact sums explain a difference; see `explanation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streammetrics.events.event_time import DAY_MS
from streammetrics.metrics import TallyLayout
from streammetrics.reports.measure_places import MeasurePlaces, places_of
from streammetrics.windows.pane_trail import PaneTrail, TrailSpan
from streammetrics.windows.panes import Group
from streammetrics.windows.rolling import WindowAggregator

RECENT_MS: Final = DAY_MS
"""Length of the span, if the store keeps panes for so long."""


@dataclass(frozen=True, slots=True)
class RecentLists:
    """The final lists of experiments with from_ms <= ts < end_ms.

    tallies: by group of an experiment.
    measures: the deciding measures of each experiment that tallies have.
    spans: over time, per variant: the number of lists, then top and bottom of each of the `measures`.
    """

    from_ms: int
    end_ms: int
    tallies: Mapping[Group, Sequence[int]]
    measures: Mapping[str, Mapping[str, MeasurePlaces]]
    spans: tuple[TrailSpan, ...]


class RecentReader:
    """Reads the recent lists of all tasks. `deciding` returns the names of an experiment's deciding measures."""

    def __init__(self, aggregator: WindowAggregator, layout: TallyLayout, deciding: Callable[[str], Sequence[str]]) -> None:
        self._aggregator, self._layout, self._deciding = aggregator, layout, deciding
        self._trail = PaneTrail(aggregator, self._chosen)
        self._measures: dict[str, dict[str, MeasurePlaces]] = {}
        self._read: RecentLists | None = None
        self._revisions = 0

    def read(self, watermark_ms: int, oldest_kept_ms: int, newest_ms: int) -> RecentLists | None:
        """Return the recent lists; None before a pane is final. Arguments as in `WindowAggregator.window`."""
        span = self._aggregator.final_span(RECENT_MS, watermark_ms, oldest_kept_ms, newest_ms)
        if span is None:
            return None
        if self._read is None or (self._read.from_ms, self._read.end_ms) != span or self._aggregator.revisions != self._revisions:
            self._revisions = self._aggregator.revisions
            tallies = {group: tally for group, tally in self._aggregator.final_tallies(*span).items() if group.experiment}
            spans = self._trail.spans(*span)
            self._measures = {name: self._measures[name] for name in {group.experiment for group in tallies} & self._measures.keys()}
            self._read = RecentLists(*span, tallies, dict(self._measures), spans)
        return self._read

    def _chosen(self, group: Group, tally: Sequence[int]) -> Sequence[int]:
        places = self._measures.get(group.experiment)
        if places is None:
            of_names = {name: places_of(self._layout, name) for name in self._deciding(group.experiment)}
            places = self._measures[group.experiment] = {name: place for name, place in of_names.items() if place is not None}
        return [self._layout.lists(tally), *(tally[index] for place in places.values() for index in (place.top, place.bottom))]
