"""The lists of experiments in the panes of all tasks: the final ones of the last day, and those after a variant's last list. Pure.

The final lists of the last day are exact sums: by variant and segment value, and of each variant over time. They are read when a pane
has become final, not at every report. They explain a difference; see `explanation`.
`MeasureColumns` says where a tally has the sums of a measure. `LaterLists` counts the lists of other variants after the last list of a
variant, which tell whether it has stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streammetrics.events.event_time import DAY_MS
from streammetrics.metrics import TallyLayout
from streammetrics.metrics.names import K_MAX, Metric
from streammetrics.metrics.records import METRICS
from streammetrics.windows.pane_trail import PaneTrail, TrailSpan
from streammetrics.windows.panes import Group
from streammetrics.windows.rolling import WindowAggregator

RECENT_MS: Final = DAY_MS
"""Length of the span, if the store keeps panes for so long."""
RANK_FAMILIES: Final = tuple(sorted((name for name in METRICS if METRICS[name].rank_place), key=lambda name: METRICS[name].rank_place))
"""Families whose value at a cut-off is a sum over ranks, the nearest to ndcg first. `hit_rate` and `mrr` count a list's first hit."""
PANES_MAX: Final = 32
"""Panes that are read after a last list. Of more, every second, fourth, eighth one is read, and counts as often."""
PANES_OPEN: Final = 3
"""The newest panes are read again each time, because lists still come to them."""
LISTS: Final = 0
"""The index of the number of lists in a tally."""


class MeasureColumns(NamedTuple):
    """Indexes in a tally: the sum of a measure, and its denominator. `lists` is that of all lists, `top` is in units of 2**-scale_bits."""

    lists: int
    top: int
    bottom: int
    scale_bits: int

    def sums(self, tally: Sequence[int]) -> tuple[int, int, int]:
        """Return lists, top and bottom of a tally."""
        return tally[self.lists], tally[self.top], tally[self.bottom]


class RankColumns(NamedTuple):
    """Cut-offs of one family, ascending, each with its places. The denominator of all is that of the last one."""

    family: str
    cutoffs: tuple[int, ...]
    places: tuple[MeasureColumns, ...]


def measure_columns(layout: TallyLayout, name: str) -> MeasureColumns | None:
    """Return where a measure's sums are; None for one that tallies do not have, such as `user_hit_rate@10`.

    >>> from streammetrics.metrics import Scorer
    >>> layout = TallyLayout(Scorer(["hit_rate@10", "item_hit_rate@10"]))
    >>> measure_columns(layout, "item_hit_rate@10"), measure_columns(layout, "user_hit_rate@10")
    (MeasureColumns(lists=0, top=3, bottom=4, scale_bits=0), None)
    """
    for index, column in enumerate(layout.columns):
        if str(column.metric) == name and column.kind in ("sum", "hits", "numerator"):
            place = layout.place_of(index)
            return MeasureColumns(LISTS, place, LISTS if column.kind == "sum" else place + 1, column.scale_bits)
    return None


def rank_columns(layout: TallyLayout, family: str, k: int) -> RankColumns | None:
    """Return the places of the sums by rank up to k (0: all tallied ranks), of the measure's own family or another sum over ranks.

    None if no such family has two cut-offs.

    >>> from streammetrics.metrics import Scorer
    >>> layout = TallyLayout(Scorer(["ndcg@10", "mrr@5", "mrr@10"]))
    >>> rank_columns(layout, "ndcg", 10).family, rank_columns(layout, "ndcg", 5)
    ('mrr', None)
    """
    ranks, families = k or K_MAX, (family, *RANK_FAMILIES) if family in RANK_FAMILIES else RANK_FAMILIES
    for name in families:
        cutoffs = sorted({column.metric.k for column in layout.columns if column.metric.name == name and 0 < column.metric.k <= ranks})
        places = tuple(place for cutoff in cutoffs if (place := measure_columns(layout, str(Metric(name, cutoff)))) is not None)
        if len(places) > 1 and len(places) == len(cutoffs):
            return RankColumns(name, tuple(cutoffs), places)
    return None


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
    measures: Mapping[str, Mapping[str, MeasureColumns]]
    spans: tuple[TrailSpan, ...]


class RecentReader:
    """Reads the recent lists of all tasks. `deciding` returns the names of an experiment's deciding measures."""

    def __init__(self, aggregator: WindowAggregator, layout: TallyLayout, deciding: Callable[[str], Sequence[str]]) -> None:
        self._aggregator, self._layout, self._deciding = aggregator, layout, deciding
        self._trail = PaneTrail(aggregator, self._chosen)
        self._measures: dict[str, dict[str, MeasureColumns]] = {}
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
            of_names = {name: measure_columns(self._layout, name) for name in self._deciding(group.experiment)}
            places = self._measures[group.experiment] = {name: place for name, place in of_names.items() if place is not None}
        return [self._layout.lists(tally), *(tally[index] for place in places.values() for index in (place.top, place.bottom))]


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
        last_before_ms, complete = self._complete.get((experiment, variant), (None, {}))
        if last_before_ms != last_ms:
            complete = {}
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
