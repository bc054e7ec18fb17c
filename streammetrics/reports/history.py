"""How the verdicts of experiments came about: a bounded memory of looks, for people. Pure; nothing is ever computed from it.

A look is what an experiment said at one event time. Of the looks of one experiment and scope the first one of each cell of
`width_ms` is kept, and cells double when there would be more than LOOKS_MAX: so what is kept depends on which looks there were
and not on their order, and two processes that looked at different times can put theirs together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments import THIS_DAY, ExperimentReport, MeasureReport
from streammetrics.experiments.verdict import Word
from streammetrics.reports.headline_metrics import main_among

T = TypeVar("T")

LOOK_MS: Final = 60_000
"""Looks are at least in different minutes of event time."""
LOOKS_MAX: Final = 96
"""Most looks of one experiment and scope: as many as a page can show side by side."""
TRAILS_MAX: Final = 40
"""Most experiments and scopes; those that were looked at most often are kept, so that newcomers take no known one's place."""
MEASURES_MAX: Final = 6
VARIANTS_MAX: Final = 6
"""Most measures and compared variants of a look."""

_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Downsampled(Generic[T]):
    """Values at times (epoch ms), in the order of time: the first one of each cell of `width_ms`, and at most LOOKS_MAX.

    >>> found = Downsampled().take(5_000, "a").take(61_000, "b").take(59_000, "c")
    >>> found.kept
    ((5000, 'a'), (61000, 'b'))
    """

    width_ms: int = LOOK_MS
    kept: tuple[tuple[int, T], ...] = ()

    def wants(self, at_ms: int) -> bool:
        """Whether a value at this time would be kept."""
        cell = at_ms // self.width_ms
        return not any(at // self.width_ms == cell and at <= at_ms for at, _ in reversed(self.kept))

    def take(self, at_ms: int, value: T) -> Downsampled[T]:
        """The same with one value more, if it is wanted."""
        return self.merge(Downsampled(LOOK_MS, ((at_ms, value),))) if self.wants(at_ms) else self

    def since(self, from_ms: int | None) -> Downsampled[T]:
        """Those from a time on; None: all."""
        kept = tuple(each for each in self.kept if from_ms is None or each[0] >= from_ms)
        if len(kept) == len(self.kept):
            return self
        return Downsampled(self.width_ms, kept) if kept else Downsampled()

    def merge(self, other: Downsampled[T]) -> Downsampled[T]:
        """What both have kept, thinned; of two values at one time this one's counts."""
        width_ms = max(self.width_ms, other.width_ms)
        by_time = dict(sorted((dict(other.kept) | dict(self.kept)).items()))
        while True:
            first = {at // width_ms: at for at in reversed(by_time)}
            if len(first) <= LOOKS_MAX:
                return Downsampled(width_ms, tuple((at, by_time[at]) for at in sorted(first.values())))
            width_ms *= 2


class Point(NamedTuple):
    """A variant against its control by one measure, as it was known then."""

    variant: str
    metric: str
    k: int
    lift: float | None
    lift_lower: float | None
    lift_upper: float | None


class HistorySnapshot(NamedTuple):
    """What an experiment said at one event time: the word for all of it, its users, and its main points."""

    verdict: Word
    users: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class HistorySeries:
    """The looks at one experiment in one scope."""

    experiment: str
    scope: str
    looks: Downsampled[HistorySnapshot] = Downsampled()

    def since(self, from_ms: int | None) -> HistorySeries:
        """The looks from a time on alone; None: all."""
        return replace(self, looks=self.looks.since(from_ms))

    def merge(self, other: HistorySeries) -> HistorySeries:
        """Both together; of a scope that is one day, the looks of the later day alone."""
        if self.scope == THIS_DAY and self.looks.kept and other.looks.kept:
            ours, theirs = (_day(each.looks.kept[-1][0]) for each in (self, other))
            if ours != theirs:
                return self if ours > theirs else other
        return replace(self, looks=self.looks.merge(other.looks))


@dataclass(frozen=True, slots=True)
class History:
    """All trails, sorted by experiment and scope."""

    trails: tuple[HistorySeries, ...] = ()

    def of(self, experiment: str, scope: str) -> HistorySeries:
        """The trail of one experiment and scope; an empty one when nobody has looked yet."""
        return next(
            (each for each in self.trails if (each.experiment, each.scope) == (experiment, scope)), HistorySeries(experiment, scope)
        )

    def take(self, at_ms: int, experiments: Iterable[ExperimentReport]) -> History:
        """Look at all experiments there are at `at_ms`, the event time up to which all is in them. The others are forgotten."""
        trails = []
        for each in experiments:
            known = self.of(each.experiment, each.scope).since(each.known_from_ms)
            new_day = each.scope == THIS_DAY and bool(known.looks.kept) and _day(at_ms) != _day(known.looks.kept[-1][0])
            if new_day or known.looks.wants(at_ms):
                look = HistorySeries(each.experiment, each.scope, Downsampled(LOOK_MS, ((at_ms, look_at(each)),)))
                known = known.merge(look).since(each.known_from_ms)
            if known.looks.kept:
                trails.append(known)
        found = _bounded(trails)
        return self if found == self.trails else History(found)

    def merge(self, other: History) -> History:
        """The trails of both."""
        trails = {(each.experiment, each.scope): each for each in self.trails}
        for each in other.trails:
            known = trails.get((each.experiment, each.scope))
            trails[each.experiment, each.scope] = each if known is None else known.merge(each)
        return History(_bounded(trails.values()))

    def about(self, experiments: Iterable[ExperimentReport]) -> History:
        """The looks at these experiments and scopes; what was said of an earlier life or day of that name is not about them."""
        known_from = {(each.experiment, each.scope): each.known_from_ms for each in experiments}
        mine = ((each, (each.experiment, each.scope)) for each in self.trails)
        since = (each.since(known_from[name]) for each, name in mine if name in known_from)
        return History(tuple(each for each in since if each.looks.kept))

    def only(self, other: History) -> History:
        """The trails of what the other history has trails of as well."""
        names = {(each.experiment, each.scope) for each in other.trails}
        return History(tuple(each for each in self.trails if (each.experiment, each.scope) in names))

    def to_json(self) -> list[dict[str, Any]]:
        """The history as plain JSON values; points are arrays in the order of `Point`."""
        plain = msgspec.to_builtins(self)
        assert isinstance(plain, dict)
        return [*plain["trails"]]

    @classmethod
    def from_json(cls, plain: object) -> History:
        """What `to_json` gave, read back. Raises msgspec.ValidationError for what it did not give."""
        return cls(_bounded(msgspec.convert(plain, tuple[HistorySeries, ...])))


def look_at(experiment: ExperimentReport) -> HistorySnapshot:
    """What is remembered of an experiment as it is now."""
    measures = main_measures(experiment)
    compared = [variant for variant in experiment.variants if variant.variant != experiment.control][:VARIANTS_MAX]
    points = (_point(variant.variant, each) for variant in compared for each in variant.measures if (each.metric, each.k) in measures)
    return HistorySnapshot(experiment.verdict.word, sum(variant.users for variant in experiment.variants), tuple(points))


def main_measures(experiment: ExperimentReport) -> tuple[tuple[str, int], ...]:
    """The measures that people look at first: those that may wake somebody, then one of each main family, at 10 where there is that.

    At most MEASURES_MAX; all that there are, up to that number, when none is of those.
    """
    measured = {(each.metric, each.k): each for variant in experiment.variants for each in variant.measures}
    paging = [name for name, each in measured.items() if each.paging]
    return main_among(measured, paging, at_most=MEASURES_MAX)


def _point(variant: str, each: MeasureReport) -> Point:
    return Point(variant, each.metric, each.k, *(_rounded(end) for end in (each.lift, each.lift_lower, each.lift_upper)))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _day(at_ms: int) -> int:
    """The day that a look is about: all before its time is known, so midnight itself still looks at the day that ended."""
    return (at_ms - 1) // DAY_MS


def _bounded(trails: Iterable[HistorySeries]) -> tuple[HistorySeries, ...]:
    kept: Sequence[HistorySeries] = [*trails]
    if len(kept) > TRAILS_MAX:
        kept = sorted(kept, key=lambda each: (-len(each.looks.kept), each.experiment, each.scope))[:TRAILS_MAX]
    return tuple(sorted(kept, key=lambda each: (each.experiment, each.scope)))
