"""The history of verdicts: a bounded set of snapshots for people. Pure; no number is computed from it.

A snapshot is the state of an experiment at one event time. Each experiment and scope keeps the first snapshot of each interval of
`width_ms`. The width doubles when there would be more than SNAPSHOTS_MAX. So the result does not depend on the order of snapshots, and
the histories of two processes can be merged. It has the few measures that are shown first, on a terminal and on a page.

**Earlier lifts.** A snapshot is taken when a report is made. After a backlog, or in a new process without a stored history, there is none
of earlier event times. What is counted by hour still has them: the lift up to the end of each block of hours. Its interval uses the spread
of the users that is known today, and takes users with lists in both arms for different ones. There is no verdict on an earlier time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec

from streammetrics.events.event_time import DAY_MS
from streammetrics.experiments import ExperimentReport, MeasureReport, Measures, Policy, StoredSums, build_report
from streammetrics.experiments.arms import Arms
from streammetrics.experiments.cell_estimates import RunPart
from streammetrics.experiments.effect_change import together
from streammetrics.experiments.experiment_report import SINCE_START, THIS_DAY
from streammetrics.experiments.verdict import Word
from streammetrics.metrics.records import METRICS
from streammetrics.statistics.estimates import lift_interval
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import scale_of
from streammetrics.words.names import name_order
from streammetrics.words.times import HOUR_MS

T = TypeVar("T")
SNAPSHOT_MS: Final = 60_000
"""Shortest interval of event time between snapshots."""
SNAPSHOTS_MAX: Final = 96
"""Most snapshots of one experiment and scope: as many as a page can show."""
SERIES_MAX: Final = 40
"""Most experiments and scopes. Those with the most snapshots are kept, so new ones do not replace known ones."""
POINTS_MAX: Final = 36
"""Most lifts of a snapshot. The more variants are compared, the fewer measures it has, and each variant has the same ones."""
_DIGITS = 6
MeasureName: TypeAlias = tuple[str, int]
"""A measure: its family and cut-off k."""
FAMILIES: Final = tuple(name for name, record in METRICS.items() if record.is_headline)
"""Headline families, most important first."""
CUTOFF: Final = 10
MEASURES_MAX: Final = 6
"""Most headline measures of an experiment."""


def choose_headline(measured: Iterable[MeasureName], always: Iterable[MeasureName] = (), *, at_most: int) -> tuple[MeasureName, ...]:
    """Return the measures in `always`, then one measure of each other headline family, at CUTOFF if it exists.

    If that gives none, return the first measures.

    >>> choose_headline([("mrr", 5), ("mrr", 10), ("ndcg", 20), ("map", 5)], at_most=6)
    (('ndcg', 20), ('mrr', 10))
    >>> choose_headline([("mrr", 5), ("mrr", 10), ("ndcg", 20)], always=[("mrr", 5)], at_most=6)
    (('mrr', 5), ('ndcg', 20))
    >>> choose_headline([("recall", 5), ("recall", 10), ("map", 5)], at_most=2)
    (('recall', 5), ('recall', 10))
    """
    measured, chosen = dict.fromkeys(measured), dict.fromkeys(always)
    for family in FAMILIES:
        cutoffs = [k for name, k in measured if name == family]
        if cutoffs and not any(name == family for name, _ in chosen):
            chosen[family, CUTOFF if CUTOFF in cutoffs else cutoffs[0]] = None
    return tuple(chosen or measured)[:at_most]


def headline_measures(experiment: ExperimentReport) -> tuple[MeasureName, ...]:
    """Return the headline measures of an experiment: those that may page, then one per headline family; at most MEASURES_MAX."""
    measured = {(measure.metric, measure.k): measure for variant in experiment.variants for measure in variant.measures}
    paging = [name for name, measure in measured.items() if measure.paging]
    return choose_headline(measured, paging, at_most=MEASURES_MAX)


@dataclass(frozen=True, slots=True)
class DownsampledValues(Generic[T]):
    """Values at event times (epoch ms), in order: the first of each interval of `width_ms`, at most SNAPSHOTS_MAX.

    >>> values = DownsampledValues().add(5_000, "a").add(61_000, "b").add(59_000, "c")
    >>> values.kept
    ((5000, 'a'), (61000, 'b'))
    """

    width_ms: int = SNAPSHOT_MS
    kept: tuple[tuple[int, T], ...] = ()

    def would_keep(self, at_ms: int) -> bool:
        """Return whether a value at this time would be kept."""
        cell = at_ms // self.width_ms
        return not any(at // self.width_ms == cell and at <= at_ms for at, _ in reversed(self.kept))

    def add(self, at_ms: int, value: T) -> DownsampledValues[T]:
        """Return the series with one more value, if it would be kept."""
        return self.merge(DownsampledValues(SNAPSHOT_MS, ((at_ms, value),))) if self.would_keep(at_ms) else self

    def since(self, from_ms: int | None) -> DownsampledValues[T]:
        """Return the values from a time on; None: all."""
        kept = tuple(snapshot for snapshot in self.kept if from_ms is None or snapshot[0] >= from_ms)
        if len(kept) == len(self.kept):
            return self
        return DownsampledValues(self.width_ms, kept) if kept else DownsampledValues()

    def merge(self, other: DownsampledValues[T]) -> DownsampledValues[T]:
        """Return the values of both, downsampled. Of two values at one time, this series' value counts."""
        width_ms = max(self.width_ms, other.width_ms)
        by_time = dict(sorted((dict(other.kept) | dict(self.kept)).items()))
        while True:
            first = {at // width_ms: at for at in reversed(by_time)}
            if len(first) <= SNAPSHOTS_MAX:
                return DownsampledValues(width_ms, tuple((at, by_time[at]) for at in sorted(first.values())))
            width_ms *= 2


class Point(NamedTuple):
    """A variant compared with its control by one measure."""

    variant: str
    metric: str
    k: int
    lift: float | None
    lift_lower: float | None
    lift_upper: float | None


class HistorySnapshot(NamedTuple):
    """The state of an experiment at one event time: its verdict, its users, and its headline points.

    verdict: None if no report was made at that time (see `earlier_snapshots`).
    """

    verdict: Word | None
    users: int
    points: tuple[Point, ...]


class HistorySeries(msgspec.Struct, frozen=True, rename={"snapshots": "looks"}):
    """The snapshots of one experiment in one scope. Their stored name is `looks`."""

    experiment: str
    scope: str
    snapshots: DownsampledValues[HistorySnapshot] = DownsampledValues()

    def since(self, from_ms: int | None) -> HistorySeries:
        """Return only the snapshots from a time on; None: all."""
        return msgspec.structs.replace(self, snapshots=self.snapshots.since(from_ms))

    def missed(self, report: ExperimentReport, at_ms: int, earlier: EarlierSnapshots) -> HistorySeries:
        """Return the series with a snapshot of each interval between its last one, or the start, and that of `at_ms`, as far as known."""
        last_ms = self.snapshots.kept[-1][0] if self.snapshots.kept else report.from_ms
        width_ms = self.snapshots.width_ms
        if last_ms is None or at_ms // width_ms - last_ms // width_ms < 2:
            return self
        ends = {last_ms // width_ms, at_ms // width_ms}
        points = tuple((at, snapshot) for at, snapshot in earlier(self.experiment, last_ms, at_ms) if at // width_ms not in ends)
        return msgspec.structs.replace(self, snapshots=self.snapshots.merge(DownsampledValues(SNAPSHOT_MS, points)))

    def merge(self, other: HistorySeries) -> HistorySeries:
        """Return both together. For a scope of one day, return only the later day."""
        if self.scope == THIS_DAY and self.snapshots.kept and other.snapshots.kept:
            ours, theirs = (_day(series.snapshots.kept[-1][0]) for series in (self, other))
            if ours != theirs:
                return self if ours > theirs else other
        return msgspec.structs.replace(self, snapshots=self.snapshots.merge(other.snapshots))


EarlierSnapshots: TypeAlias = Callable[[str, int, int], Iterable[tuple[int, HistorySnapshot]]]
"""Gives snapshots of an experiment since its start at times between two others (event time, ms)."""


@dataclass(frozen=True, slots=True)
class History:
    """All series, in the order of their experiments and by scope."""

    series: tuple[HistorySeries, ...] = ()

    def of(self, experiment: str, scope: str) -> HistorySeries:
        """Return the series of one experiment and scope; an empty one if there is none yet."""
        return next(
            (series for series in self.series if (series.experiment, series.scope) == (experiment, scope)), HistorySeries(experiment, scope)
        )

    def add(self, at_ms: int, experiments: Iterable[ExperimentReport], earlier: EarlierSnapshots | None = None) -> History:
        """Add a snapshot of these experiments at `at_ms`, the event time up to which they are complete. Drop all other series.

        An experiment without a final list has no snapshot: it may have users who were exposed and saw no list yet. `earlier` gives
        snapshots of the intervals since the last one, if there are some.
        """
        series = []
        for experiment in experiments:
            series_before = self.of(experiment.experiment, experiment.scope).since(experiment.known_from_ms)
            new_day = (
                experiment.scope == THIS_DAY
                and bool(series_before.snapshots.kept)
                and _day(at_ms) != _day(series_before.snapshots.kept[-1][0])
            )
            if (new_day or series_before.snapshots.would_keep(at_ms)) and any(variant.first_list_users for variant in experiment.variants):
                snapshot = HistorySeries(
                    experiment.experiment, experiment.scope, DownsampledValues(SNAPSHOT_MS, ((at_ms, snapshot_of(experiment)),))
                )
                missed = (
                    series_before.missed(experiment, at_ms, earlier)
                    if earlier is not None and experiment.scope == SINCE_START
                    else series_before
                )
                series_before = missed.merge(snapshot).since(experiment.known_from_ms)
            if series_before.snapshots.kept:
                series.append(series_before)
        bounded = _bounded(series)
        return self if bounded == self.series else History(bounded)

    def merge(self, other: History) -> History:
        """Return the series of both."""
        series = {(series.experiment, series.scope): series for series in self.series}
        for other_series in other.series:
            series_before = series.get((other_series.experiment, other_series.scope))
            series[other_series.experiment, other_series.scope] = (
                other_series if series_before is None else series_before.merge(other_series)
            )
        return History(_bounded(series.values()))

    def matching(self, experiments: Iterable[ExperimentReport]) -> History:
        """Return the snapshots of these experiments. Snapshots of an earlier run or day of the same name are left out."""
        known_from = {(experiment.experiment, experiment.scope): experiment.known_from_ms for experiment in experiments}
        named = ((series, (series.experiment, series.scope)) for series in self.series)
        since = (series.since(known_from[name]) for series, name in named if name in known_from)
        return History(tuple(series for series in since if series.snapshots.kept))

    def restricted_to(self, other: History) -> History:
        """Return the series that the other history has as well."""
        names = {(series.experiment, series.scope) for series in other.series}
        return History(tuple(series for series in self.series if (series.experiment, series.scope) in names))

    @classmethod
    def of_series(cls, series: Iterable[HistorySeries]) -> History:
        """Return the history of these series, within its bounds."""
        return cls(_bounded(series))


def snapshot_of(experiment: ExperimentReport) -> HistorySnapshot:
    """Return the snapshot of an experiment."""
    compared = [variant for variant in experiment.variants if variant.variant != experiment.control][:POINTS_MAX]
    headline = headline_measures(experiment)[: max(1, POINTS_MAX // max(1, len(compared)))]
    points = (
        _point(variant.variant, measure) for variant in compared for measure in variant.measures if (measure.metric, measure.k) in headline
    )
    return HistorySnapshot(experiment.verdict.word, sum(variant.users for variant in experiment.variants), tuple(points))


def stored_snapshot(measures: Measures, policy: Policy, stored: StoredSums, scales: Mapping[str, float]) -> HistorySnapshot:
    """Return the snapshot of an experiment from its stored sums: that of the whole report, but from the headline measures alone."""
    deciding = policy.deciding(measures).paging
    named = {(measure.name, measure.k): str(measure) for measure in measures}
    headline = choose_headline(named, [key for key, name in named.items() if name in deciding], at_most=MEASURES_MAX)
    report = build_report(measures, policy, stored, scales, [named[measure] for measure in headline])
    measured = {(measure.metric, measure.k) for variant in report.variants for measure in variant.measures}
    if not measured.issuperset(headline):  # others may take the place of measures that have no value yet
        report = build_report(measures, policy, stored, scales)
    return snapshot_of(report)


def _point(variant: str, measure: MeasureReport) -> Point:
    return Point(variant, measure.metric, measure.k, *(_rounded(end) for end in (measure.lift, measure.lift_lower, measure.lift_upper)))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)


def _day(at_ms: int) -> int:
    """Return the day of a snapshot. Midnight belongs to the day that ends, because only earlier events are complete."""
    return (at_ms - 1) // DAY_MS


def _bounded(series: Iterable[HistorySeries]) -> tuple[HistorySeries, ...]:
    kept: Sequence[HistorySeries] = [*series]
    if len(kept) > SERIES_MAX:
        kept = sorted(kept, key=lambda series: (-len(series.snapshots.kept), series.experiment, series.scope))[:SERIES_MAX]
    return tuple(sorted(kept, key=lambda series: (name_order(series.experiment), series.scope)))


class _UsersUntil(NamedTuple):
    """The users who had come up to an hour (since the epoch), by the variant of their first list."""

    hour: int
    users: Mapping[str, int]


def earlier_snapshots(
    measures: Measures, policy: Policy, stored: StoredSums, scales: Mapping[str, float], after_ms: int, before_ms: int
) -> Iterator[tuple[int, HistorySnapshot]]:
    """Yield a snapshot at the end of each block of hours with lists between two event times, in order.

    A variant has a point once it and the control have `min_users` users. Shares of users have none, because they are not counted by hour.
    """
    reached = [point for point in _users_by_block(stored) if after_ms < point.hour * HOUR_MS < before_ms]
    policy = policy.deciding(measures)
    control = policy.control_of(list(stored.moments))
    if not reached or control is None:
        return
    arms, points = Arms(measures, policy, stored, control, scales), dict[int, list[Point]]()
    compared = policy.treatments(control, stored.users)[:POINTS_MAX]
    for variant in compared:
        for measure in _headline(measures, policy, POINTS_MAX // max(1, len(compared))):
            for part in accumulate(arms.days(measure, variant, control, 1)[0], together):
                points.setdefault(part.end, []).append(_earlier_point(arms, measure, variant, part))
    for hour_point in reached:
        large = {variant for variant, users in hour_point.users.items() if users >= policy.min_users}
        kept = tuple(point for point in points.get(hour_point.hour, ()) if {point.variant, control} <= large)
        yield hour_point.hour * HOUR_MS, HistorySnapshot(None, sum(hour_point.users.values()), kept)


def _users_by_block(stored: StoredSums) -> Iterator[_UsersUntil]:
    hours, users = stored.hours, dict[str, int]()
    for block in sorted(hours.rows):
        for variant, count in hours.rows[block].new_users.items():
            users[variant] = users.get(variant, 0) + count
        yield _UsersUntil((block + 1) * hours.length, {**users})


def _headline(measures: Measures, policy: Policy, at_most: int) -> Sequence[Measure]:
    """Return the measures that a snapshot has, without shares of users."""
    named = {(measure.name, measure.k): measure for measure in measures if measure.kind != "users"}
    deciding = [name for name, measure in named.items() if str(measure) in policy.paging]
    return [named[name] for name in choose_headline(named, deciding, at_most=max(1, min(MEASURES_MAX, at_most)))]


def _earlier_point(arms: Arms, measure: Measure, variant: str, part: RunPart) -> Point:
    scale = scale_of(measure, arms.scales)
    mixture = None if scale is None else scale.mixture(arms.policy.minimum_lift)
    interval = None if mixture is None else lift_interval(part.treatment, part.control, mixture, arms.policy.alpha)
    lift = None if part.ratio is None else part.ratio - 1
    return Point(variant, measure.name, measure.k, lift, *((interval.lower, interval.upper) if interval else (None, None)))
