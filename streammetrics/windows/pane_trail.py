"""Lists and sums of variants over time: final panes, merged into at most SPANS_MAX spans of equal length. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from streammetrics.windows.panes import Group
from streammetrics.windows.rolling import WindowAggregator
from streammetrics.windows.tally_deltas import add_tallies

SPANS_MAX: Final = 192

ArmSums: TypeAlias = Mapping[tuple[str, str], Sequence[int]]
"""Chosen sums of each variant, by experiment and variant."""


class TrailSpan(NamedTuple):
    """The sums over the final panes with start_ms <= start < end_ms. A variant without lists is absent."""

    start_ms: int
    end_ms: int
    sums: ArmSums


class PaneTrail:
    """Reads each final pane once and keeps what `choose` returns for each variant's tally, unless it is None.

    The spans double in length when there would be too many. Old spans are dropped whole.
    """

    def __init__(self, aggregator: WindowAggregator, choose: Callable[[Group, Sequence[int]], Sequence[int] | None]) -> None:
        self._aggregator, self._choose = aggregator, choose
        self._width = aggregator.rules.pane_ms
        self._spans: dict[int, ArmSums] = {}
        self._end: int | None = None
        self._revisions = 0

    def spans(self, start: int, end: int) -> tuple[TrailSpan, ...]:
        """Return the spans of the final panes from `start` to `end`. Neither may go back, unless the panes were revised."""
        aggregator = self._aggregator
        if self._end is None or aggregator.revisions != self._revisions or end < self._end:
            self._spans, self._end, self._width = {}, start, aggregator.rules.pane_ms
            self._revisions = aggregator.revisions
        for pane_start in aggregator.starts(max(start, self._end), end):
            self._add(pane_start)
        self._end = end
        self._spans = {place: sums for place, sums in self._spans.items() if (place + 1) * self._width > start}
        return tuple(TrailSpan(place * self._width, (place + 1) * self._width, self._spans[place]) for place in sorted(self._spans))

    def _add(self, pane_start: int) -> None:
        chosen: dict[tuple[str, str], Sequence[int]] = {}
        for group, tally in self._aggregator.pane(pane_start).items():
            if group.experiment and not group.segment and (sums := self._choose(group, tally)) is not None:
                chosen[group.experiment, group.variant] = sums
        place = pane_start // self._width
        self._spans[place] = _merged(self._spans.get(place, {}), chosen)
        while len(self._spans) > SPANS_MAX:
            self._width *= 2
            halved: dict[int, ArmSums] = {}
            for at, arms in self._spans.items():
                halved[at // 2] = _merged(halved.get(at // 2, {}), arms)
            self._spans = halved


def _merged(one: ArmSums, other: ArmSums) -> ArmSums:
    """Return the sums of both, as a new value: earlier ones may be shown."""
    return dict(one) | {arm: add_tallies(list(one[arm]), list(sums)) if arm in one else sums for arm, sums in other.items()}
