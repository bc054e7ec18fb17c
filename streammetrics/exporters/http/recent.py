"""The last reports as lines over event time, so that a page which was opened just now has curves at once. Nothing is computed.

Kept in memory only: a process that starts anew remembers nothing, and its windows tell the rest. Everything is bounded by the
names below; what exceeds them goes, the oldest first, and groups by segment before whole ones.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import nan
from typing import Any, NamedTuple, TypeAlias

from streammetrics.events.event_time import FOREVER
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.report import Report
from streammetrics.windows.panes import Group, GroupValues, Window

POINTS_MAX = 240
"""Most points of a line: with panes of a minute, four hours."""
GROUPS_MAX = 32
"""Most groups of a window that are remembered."""
LINES_MAX = 4_096
"""Most lines (variant x measure) of an experiment in one scope that are remembered."""
NUMBERS_MAX = 1_000_000
"""Most numbers in all, of eight bytes each."""

LISTS = ("values", "values_with_feedback")
"""What a window's values are taken over, as the report names it."""
_TOLD = ("mean", "error", "lift", "lift_lower", "lift_upper")
"""What is remembered of a measure in an experiment, in the order of its line, as the report names it."""


class UnknownChoiceError(ValueError):
    """A line was asked for that cannot be there; the message says what can."""


class _WindowTrack(NamedTuple):
    window_ms: int
    view: str


class _ExperimentTrack(NamedTuple):
    experiment: str
    scope: str


class _Measured(NamedTuple):
    variant: str
    measure: str


_Track: TypeAlias = _WindowTrack | _ExperimentTrack


class _Point(NamedTuple):
    """What one report said of one track, up to `end_ms` of event time."""

    end_ms: int
    lines: Mapping[Hashable, array[float]]

    @property
    def numbers(self) -> int:
        return sum(len(line) for line in self.lines.values())


class RecentPoints:
    """Lines of the windows and of the experiments. BatchResult by one thread, read by any.

    metrics: names such as `ndcg@10`, those of the reports' windows. A window gets a point for each of its ends, and an
    experiment, which may end anywhere, one a pane.
    """

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = tuple(metrics)
        self._lock = threading.Lock()
        self._tracks: dict[_Track, deque[_Point]] = {}
        self._numbers = 0

    @property
    def numbers(self) -> int:
        """How many numbers are held."""
        return self._numbers

    def take(self, report: Report) -> None:
        """Remember a report. What is not in it any more is forgotten."""
        found = {**self._of_windows(report), **_of_experiments(report)}
        with self._lock:
            for track in [track for track in self._tracks if track not in found]:
                self._numbers -= sum(point.numbers for point in self._tracks.pop(track))
            for track, point in found.items():
                points = self._tracks.setdefault(track, deque())
                if point is not None:
                    self._add(points, point, report.settings["pane_ms"] if isinstance(track, _ExperimentTrack) else 1)
            self._shrink()

    def lines(self, window_ms: int, metric: str, lists: str) -> dict[str, Any]:
        """Both views of a window and all experiments, one metric each, as plain JSON values; NaN where there was no value.

        Raises UnknownChoiceError where no report had such a window, metric or choice of lists; before the first, all are fine.
        """
        with self._lock:
            tracks = {track: tuple(points) for track, points in self._tracks.items()}
        self._check(tracks, window_ms, metric, lists)
        return {
            "windows": [
                {"view": track.view, **self._window_lines(points, metric, lists)}
                for track, points in tracks.items()
                if isinstance(track, _WindowTrack) and track.window_ms == window_ms
            ],
            "experiments": [
                {"experiment": track.experiment, "scope": track.scope, **_experiment_lines(points, metric)}
                for track, points in tracks.items()
                if isinstance(track, _ExperimentTrack)
            ],
        }

    def _check(self, tracks: Mapping[Any, Sequence[_Point]], window_ms: int, metric: str, lists: str) -> None:
        if lists not in LISTS:
            raise UnknownChoiceError(f"lists: got {lists!r}; allowed are {', '.join(LISTS)}")
        windows = sorted({track.window_ms for track in tracks if isinstance(track, _WindowTrack)})
        if windows and window_ms not in windows:
            raise UnknownChoiceError(f"window_ms: got {window_ms}; allowed are {', '.join(map(str, windows))}")
        measured = (key.measure for points in tracks.values() for point in points for key in point.lines if isinstance(key, _Measured))
        if tracks and metric not in (metrics := dict.fromkeys((*self._metrics, *measured))):
            raise UnknownChoiceError(f"metric: got {metric!r}; allowed are {', '.join(metrics)}")

    def _of_windows(self, report: Report) -> dict[_Track, _Point | None]:
        return {_WindowTrack(window.window_ms, window.view): self._window_point(window) for window in report.windows}

    def _window_point(self, window: Window) -> _Point | None:
        if window.end_ms is None or not window.complete:
            return None
        kept = sorted(window.groups, key=lambda values: (bool(values.group.segment), values.group))[:GROUPS_MAX]
        return _Point(window.end_ms, {values.group: self._line(values) for values in kept})

    def _line(self, group: GroupValues) -> array[float]:
        """Lists and lists with feedback, then every metric over the ones, then over the others."""
        numbers = array("d", (group.lists, group.lists_with_feedback))
        for values in (group.values, group.values_with_feedback):
            numbers.extend(values.get(metric, nan) for metric in self._metrics)
        return numbers

    def _window_lines(self, points: Sequence[_Point], metric: str, lists: str) -> dict[str, Any]:
        which = LISTS.index(lists)
        at = 2 + which * len(self._metrics) + self._metrics.index(metric) if metric in self._metrics else None
        return {
            "ends_ms": [point.end_ms for point in points],
            "lines": [
                {
                    "experiment": group.experiment,
                    "variant": group.variant,
                    "segments": group.segments,
                    "lists": _column(points, group, which),
                    "values": _column(points, group, at),
                }
                for group in sorted({key for point in points for key in point.lines if isinstance(key, Group)})
            ],
        }

    def _add(self, points: deque[_Point], point: _Point, grain_ms: int) -> None:
        while points and points[-1].end_ms // grain_ms >= point.end_ms // grain_ms:  # said anew, or the store lost its newest state
            self._numbers -= points.pop().numbers
        points.append(point)
        self._numbers += point.numbers
        if len(points) > POINTS_MAX:
            self._numbers -= points.popleft().numbers

    def _shrink(self) -> None:
        """Drop the oldest point of the longest track until all fits; each keeps its last one."""
        while self._numbers > NUMBERS_MAX:
            longest = max(self._tracks.values(), key=len)
            if len(longest) <= 1:
                return
            self._numbers -= longest.popleft().numbers


def _of_experiments(report: Report) -> dict[_Track, _Point | None]:
    """Experiments stand at the time up to which all final lists have entered them, at the end of a flush at its windows' end."""
    end_ms = report.entered_ms
    if end_ms is None and report.ended:
        end_ms = max((window.end_ms for window in report.windows if window.end_ms is not None), default=FOREVER)
    found: dict[_Track, _Point | None] = {}
    for each in report.experiments:
        lines: dict[Hashable, array[float]] = dict(list(_measure_lines(each))[:LINES_MAX])
        point = None if end_ms is None or end_ms == FOREVER else _Point(end_ms, lines)
        found[_ExperimentTrack(each.experiment, each.scope)] = point
    return found


def _measure_lines(experiment: ExperimentReport) -> Iterator[tuple[Hashable, array[float]]]:
    for variant in experiment.variants:
        for measure in variant.measures:
            message = (measure.mean, measure.error, measure.lift, measure.lift_lower, measure.lift_upper)
            name = _Measured(variant.variant, f"{measure.metric}@{measure.k}")
            yield name, array("d", (nan if one is None else one for one in message))


def _experiment_lines(points: Sequence[_Point], metric: str) -> dict[str, Any]:
    keys = sorted({key for point in points for key in point.lines if isinstance(key, _Measured) and key.measure == metric})
    return {
        "ends_ms": [point.end_ms for point in points],
        "lines": [{"variant": key.variant, **{name: _column(points, key, at) for at, name in enumerate(_TOLD)}} for key in keys],
    }


def _column(points: Iterable[_Point], key: Hashable, at: int | None) -> list[float]:
    """One number of a line, point by point; NaN where the line or the number is absent."""
    lines = (None if at is None else point.lines.get(key) for point in points)
    return [nan if line is None or at is None else line[at] for line in lines]
