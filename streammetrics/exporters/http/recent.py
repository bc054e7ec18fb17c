"""The values of recent reports over event time, so that a newly opened page has curves at once. Computes nothing.

The points are in memory only. After a restart the first report has the earlier windows, read from the stored panes, and the history of
verdicts has the lifts. The constants below limit them. The oldest points are dropped first, and
groups by segment before groups without one.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple, TypeAlias

from streammetrics.experiments import ExperimentReport
from streammetrics.metrics.names import metric_text
from streammetrics.reports.builder import EARLIER_MAX, GROUPS_MAX
from streammetrics.reports.published import ApiValue
from streammetrics.reports.report import Report
from streammetrics.windows.panes import Group, GroupValues, Window, WindowView

POINTS_MAX = EARLIER_MAX
"""Most points of a line."""
LINES_MAX = 4_096
"""Most lines (variant x measure) of an experiment in one scope."""
NUMBERS_MAX = 1_000_000
"""Most numbers in total, of eight bytes each."""

LISTS = ("values", "values_with_feedback")
"""The fields of a window with values: over all lists, or over lists with feedback."""
_MEASURE_FIELDS = ("mean", "error", "lift", "lift_lower", "lift_upper")
"""The stored fields of a measure, in the order of its line. The report uses the same names."""


CurveNumbers: TypeAlias = list[float | None]


class UnknownChoiceError(ValueError):
    """The requested window, metric or choice of lists does not exist. The message has the allowed values."""


class _WindowTrack(NamedTuple):
    window_ms: int
    view: WindowView


class _ExperimentTrack(NamedTuple):
    experiment: str
    scope: str


class _MeasuredVariant(NamedTuple):
    variant: str
    measure: str


_Track: TypeAlias = _WindowTrack | _ExperimentTrack


class _Point(NamedTuple):
    """The values of one report for one track, up to `end_ms` of event time."""

    end_ms: int
    lines: Mapping[Hashable, array[float]]

    @property
    def numbers(self) -> int:
        return sum(len(line) for line in self.lines.values())


class GroupCurve(ApiValue, frozen=True):
    """A variant in one window. Numbers belong to the ends of the window; null where there is none."""

    experiment: str
    variant: str
    segments: Mapping[str, str]
    lists: CurveNumbers
    values: CurveNumbers


class WindowCurves(ApiValue, frozen=True):
    """One view of the window."""

    view: WindowView
    ends_ms: tuple[int, ...]
    lines: tuple[GroupCurve, ...]


class VariantCurve(ApiValue, frozen=True):
    """A measure of a variant in an experiment."""

    variant: str
    mean: CurveNumbers
    error: CurveNumbers
    lift: CurveNumbers
    lift_lower: CurveNumbers
    lift_upper: CurveNumbers


class ExperimentCurves(ApiValue, frozen=True):
    """An experiment in one scope."""

    experiment: str
    scope: str
    ends_ms: tuple[int, ...]
    lines: tuple[VariantCurve, ...]


class Curves(ApiValue, frozen=True):
    """Recent points of one window and metric."""

    windows: tuple[WindowCurves, ...]
    experiments: tuple[ExperimentCurves, ...]


class RecentPoints:
    """The recent points of windows and experiments. One thread adds reports, and any thread reads.

    metrics: the metrics of the windows, such as `ndcg@10`. A window gets one point per end, an experiment one point per pane.
    """

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = tuple(metrics)
        self._lock = threading.Lock()
        self._tracks: dict[_Track, deque[_Point]] = {}
        self._numbers = 0
        self._last: Report | None = None
        """The last report, while its points are not added."""

    @property
    def numbers(self) -> int:
        """The number of stored numbers."""
        with self._lock:
            self._add_last()
            return self._numbers

    def add_report(self, report: Report) -> None:
        """Add the points of a report. Windows and experiments that are not in it are dropped.

        The points of a report are made when a client asks, or when a later report has other ends. Until then a report with the same ends
        replaces it, as its points would.
        """
        with self._lock:
            if self._last is not None and (self._last.earlier_windows or _ends(self._last) != _ends(report)):
                self._add_last()
            self._last = report

    def _add_last(self) -> None:
        report, self._last = self._last, None
        if report is None:
            return
        new_points = {**self._window_points(report), **_experiment_points(report)}
        for track in [track for track in self._tracks if track not in new_points]:
            self._numbers -= sum(point.numbers for point in self._tracks.pop(track))
        for window in report.earlier_windows:
            earlier = self._window_point(window)
            if earlier is not None:
                self._add(self._tracks.setdefault(_WindowTrack(window.window_ms, window.view), deque()), earlier, 1)
        for track, point in new_points.items():
            points = self._tracks.setdefault(track, deque())
            if point is not None:
                self._add(points, point, _interval_ms(track, report))
        self._shrink()

    def lines(self, window_ms: int, metric: str, lists: str) -> Curves:
        """Return both views of a window and all experiments, for one metric. Missing values are NaN.

        Raises UnknownChoiceError if no report has such a window, metric or choice of lists. Before the first report all are allowed.
        """
        with self._lock:
            self._add_last()
            tracks = {track: tuple(points) for track, points in self._tracks.items()}
        self._check(tracks, window_ms, metric, lists)
        return Curves(
            windows=tuple(
                self._window_curves(track.view, points, metric, lists)
                for track, points in tracks.items()
                if isinstance(track, _WindowTrack) and track.window_ms == window_ms
            ),
            experiments=tuple(
                _experiment_curves(track, points, metric) for track, points in tracks.items() if isinstance(track, _ExperimentTrack)
            ),
        )

    def _check(self, tracks: Mapping[Any, Sequence[_Point]], window_ms: int, metric: str, lists: str) -> None:
        if lists not in LISTS:
            raise UnknownChoiceError(f"lists: got {lists!r}; allowed are {', '.join(LISTS)}")
        windows = sorted({track.window_ms for track in tracks if isinstance(track, _WindowTrack)})
        if windows and window_ms not in windows:
            raise UnknownChoiceError(f"window_ms: got {window_ms}; allowed are {', '.join(map(str, windows))}")
        measured = (
            key.measure for points in tracks.values() for point in points for key in point.lines if isinstance(key, _MeasuredVariant)
        )
        if tracks and metric not in (metrics := dict.fromkeys((*self._metrics, *measured))):
            raise UnknownChoiceError(f"metric: got {metric!r}; allowed are {', '.join(metrics)}")

    def _window_points(self, report: Report) -> dict[_Track, _Point | None]:
        return {_WindowTrack(window.window_ms, window.view): self._window_point(window) for window in report.windows}

    def _window_point(self, window: Window) -> _Point | None:
        if window.end_ms is None or not window.complete:
            return None
        kept = sorted(window.groups, key=lambda values: (bool(values.group.segment), values.group))[:GROUPS_MAX]
        return _Point(window.end_ms, {values.group: self._line(values) for values in kept})

    def _line(self, group: GroupValues) -> array[float]:
        """Return lists, lists with feedback, all metrics over lists, then all metrics over lists with feedback."""
        numbers = array("d", (group.lists, group.lists_with_feedback))
        for values in (group.values, group.values_with_feedback):
            numbers.extend(values.get(metric, nan) for metric in self._metrics)
        return numbers

    def _window_curves(self, view: WindowView, points: Sequence[_Point], metric: str, lists: str) -> WindowCurves:
        which = LISTS.index(lists)
        at = 2 + which * len(self._metrics) + self._metrics.index(metric) if metric in self._metrics else None
        lines = tuple(
            GroupCurve(
                experiment=group.experiment,
                variant=group.variant,
                segments=group.segments,
                lists=_column(points, group, which),
                values=_column(points, group, at),
            )
            for group in sorted({key for point in points for key in point.lines if isinstance(key, Group)})
        )
        return WindowCurves(view=view, ends_ms=tuple(point.end_ms for point in points), lines=lines)

    def _add(self, points: deque[_Point], point: _Point, grain_ms: int) -> None:
        while points and points[-1].end_ms // grain_ms >= point.end_ms // grain_ms:  # a repeated end, or the store lost its newest state
            self._numbers -= points.pop().numbers
        points.append(point)
        self._numbers += point.numbers
        if len(points) > POINTS_MAX:
            self._numbers -= points.popleft().numbers

    def _shrink(self) -> None:
        """Drop the oldest point of the longest track until the limit holds. Each track keeps its last point."""
        while self._numbers > NUMBERS_MAX:
            longest = max(self._tracks.values(), key=len)
            if len(longest) <= 1:
                return
            self._numbers -= longest.popleft().numbers


def _interval_ms(track: _Track, report: Report) -> int:
    """Return the interval of which a track keeps one point: a window one per end, an experiment one per pane."""
    return int(report.settings["pane_ms"]) if isinstance(track, _ExperimentTrack) else 1


def _ends(report: Report) -> dict[_Track, int | None]:
    """Return the end of each track of a report, as a number of intervals between points. None for a track without points."""
    ends: dict[_Track, int | None] = {
        _WindowTrack(window.window_ms, window.view): window.end_ms if window.complete else None for window in report.windows
    }
    end_ms = report.up_to_ms
    for experiment in report.experiments:
        track = _ExperimentTrack(experiment.experiment, experiment.scope)
        ends[track] = None if end_ms is None else end_ms // _interval_ms(track, report)
    return ends


def _experiment_points(report: Report) -> dict[_Track, _Point | None]:
    """Return the points of experiments."""
    end_ms = report.up_to_ms
    points: dict[_Track, _Point | None] = {}
    for experiment in report.experiments:
        lines: dict[Hashable, array[float]] = dict(list(_measure_lines(experiment))[:LINES_MAX])
        point = None if end_ms is None else _Point(end_ms, lines)
        points[_ExperimentTrack(experiment.experiment, experiment.scope)] = point
    return points


def _measure_lines(experiment: ExperimentReport) -> Iterator[tuple[Hashable, array[float]]]:
    for variant in experiment.variants:
        for measure in variant.measures:
            values = (measure.mean, measure.error, measure.lift, measure.lift_lower, measure.lift_upper)
            name = _MeasuredVariant(variant.variant, metric_text(measure.metric, measure.k))
            yield name, array("d", (nan if value is None else value for value in values))


def _experiment_curves(track: _ExperimentTrack, points: Sequence[_Point], metric: str) -> ExperimentCurves:
    keys = sorted({key for point in points for key in point.lines if isinstance(key, _MeasuredVariant) and key.measure == metric})
    lines = tuple(
        VariantCurve(variant=key.variant, **{name: _column(points, key, at) for at, name in enumerate(_MEASURE_FIELDS)}) for key in keys
    )
    return ExperimentCurves(experiment=track.experiment, scope=track.scope, ends_ms=tuple(point.end_ms for point in points), lines=lines)


def _column(points: Iterable[_Point], key: Hashable, at: int | None) -> CurveNumbers:
    """Return one number of a line at every point; NaN where it is missing."""
    lines = (None if at is None else point.lines.get(key) for point in points)
    return [nan if line is None or at is None else line[at] for line in lines]
