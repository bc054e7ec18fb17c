"""The runs of experiments over all tasks: which runs of tasks belong together, which run is shown, and its frozen scales.

Pure. A run is an active period of an experiment. Each task ends runs by its own lists. Here the runs of all tasks are merged if they
are at most `idle_ms` apart. Only the state of one run is summed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from streammetrics.engine.task_state import ControlRecord
from streammetrics.enrolment.scopes import BASE, WHOLE, parse_row_name
from streammetrics.events.event_time import FOREVER, NEVER, close_bound
from streammetrics.reports.frozen_scales import Scales, decode_scales, encode_scales, experiment_of_scales, scales_name


class MergedRun(NamedTuple):
    """First and last list time (ms) of one run, over all tasks."""

    first: int
    last: int

    def holds(self, ts: int) -> bool:
        """Return whether a time is within the run."""
        return self.first <= ts <= self.last


Change: TypeAlias = tuple[bytes | None, bytes | None]
"""Old and new value of a stored scale record; None: absent."""
StartedRuns: TypeAlias = Mapping[str, MergedRun]
"""For one task, by experiment: its latest run with enrolled lists."""


def newest_supported(controls: Iterable[ControlRecord]) -> int:
    """Return the time (ms) where ended inputs end: no other events support the lists after it. FOREVER while an input goes on.

    While inputs go on, such lists are not final.
    """
    times = [(control.progress.watermark, control.progress.newest_supported) for control in controls]
    ended = times and all(watermark == FOREVER for watermark, _ in times)
    supported = max((time for _, time in times), default=NEVER)
    return supported if ended and supported != NEVER else FOREVER


def started_runs(control: ControlRecord, cells: Iterable[str]) -> dict[int, str]:
    """Return the task's latest runs with enrolled lists: run number -> experiment.

    Runs that begin after `newest_supported` count only if the experiment has no other. A wrong clock began them.
    """
    begun = {name.run for name in map(parse_row_name, cells) if name.day == WHOLE and name.part == BASE}
    until = newest_supported([control])
    in_order = sorted(control.labels.runs, key=lambda run: (run[2] <= until, run[2]))
    latest = {name: number for number, name, *_ in in_order if number in begun}
    return {number: name for name, number in latest.items()}


def times_of(control: ControlRecord, numbers: Collection[int]) -> dict[str, MergedRun]:
    """Return the times of the runs with these numbers, by experiment."""
    return {name: MergedRun(first, last) for number, name, first, last, *_ in control.labels.runs if number in numbers}


def shown_runs(
    controls: Collection[ControlRecord], begun: Iterable[StartedRuns], *, idle_ms: int, lateness_ms: int
) -> dict[str, MergedRun]:
    """Return the latest run with enrolled lists of each experiment. Runs that are over are left out.

    A run is over when the most advanced task admits no list that could extend it. That task has dropped its part, and the other parts
    would look complete.
    """
    latest_start: dict[str, int] = {}
    until = newest_supported(controls)
    for of_task in begun:
        for name, run in of_task.items():
            latest_start[name] = max(latest_start.get(name, run.first), run.first, key=lambda first: (first <= until, first))
    runs: dict[str, list[MergedRun]] = {name: [] for name in latest_start}
    for control in controls:
        for _, name, first, last, *_ in control.labels.runs:
            if name in runs:
                runs[name].append(MergedRun(first, last))
    latest_bound = max(_bounds(controls, lateness_ms), default=NEVER)
    latest = {name: next(run for run in join_runs(runs[name], idle_ms) if run.holds(ts)) for name, ts in latest_start.items()}
    return {name: run for name, run in latest.items() if run.last + idle_ms >= latest_bound}


def join_runs(runs: Iterable[MergedRun], idle_ms: int) -> list[MergedRun]:
    """Merge runs that are at most `idle_ms` apart. Returns them in order.

    >>> join_runs([MergedRun(50, 60), MergedRun(0, 10), MergedRun(20, 30)], 10)
    [MergedRun(first=0, last=30), MergedRun(first=50, last=60)]
    """
    merged: list[MergedRun] = []
    for run in sorted(runs):
        if merged and run.first <= merged[-1].last + idle_ms:
            merged[-1] = MergedRun(merged[-1].first, max(merged[-1].last, run.last))
        else:
            merged.append(run)
    return merged


def _bounds(controls: Iterable[ControlRecord], lateness_ms: int) -> Iterator[int]:
    """Return the time (ms) before which each task may drop state. A task whose input has ended drops nothing."""
    for control in controls:
        yield NEVER if control.progress.watermark == FOREVER else close_bound(control.progress.watermark, lateness_ms)


class FrozenScales:
    """The frozen scales as they were last read: one record per experiment, for one run.

    `until` is the time up to which the run is known to have lasted. It is updated before it is older than half of `idle_ms`. So a
    record does not apply to a run that began more than `idle_ms` after `until`. Changes are made by compare-and-set from the record
    that was read before the runs were. If another process has changed the record meanwhile, nothing is changed.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self._stored: dict[str, bytes] = {}
        self._known: dict[str, Scales] = {}

    def update(self, stored: Mapping[str, bytes]) -> None:
        """Update the known scales from all stored values."""
        self._stored = {name: value for key, value in stored.items() if (name := experiment_of_scales(key)) is not None}
        self._known = {name: decode_scales(value) for name, value in self._stored.items()}

    def of(self, experiment: str, run: MergedRun) -> Mapping[str, float]:
        """Return the frozen scales of a run, by measure."""
        scales = self._of(experiment, run)
        return {} if scales is None else scales.by_measure

    def _of(self, experiment: str, run: MergedRun) -> Scales | None:
        scales = self._known.get(experiment)
        return scales if scales is not None and run.first <= scales.until + self._idle_ms else None

    def add(self, experiment: str, run: MergedRun, chosen: Mapping[str, float]) -> dict[str, Change]:
        """Return the change that adds scales of new measures, or that extends `until` for a long run; empty for none."""
        scales = self._of(experiment, run) or Scales(NEVER, {})
        due = scales.by_measure and run.last > scales.until + self._idle_ms // 2
        if not (chosen or due):
            return {}
        after = Scales(max(scales.until, run.last), {**scales.by_measure, **chosen})
        return {scales_name(experiment): (self._stored.get(experiment), encode_scales(after))}

    def drop(self, controls: Collection[ControlRecord], lateness_ms: int) -> dict[str, Change]:
        """Return the changes that remove expired scales. `controls` are those of all tasks.

        Scales are expired if no task knows the experiment and no task can admit a list of its run any more, even if a task has read
        more since.
        """
        named = {name for control in controls for _, name, *_ in control.labels.runs}
        over_before = min(_bounds(controls, lateness_ms), default=NEVER)
        lasting_ms = self._idle_ms + self._idle_ms // 2
        expired = [name for name, scales in self._known.items() if name not in named and scales.until + lasting_ms < over_before]
        return {scales_name(name): (self._stored[name], None) for name in expired}
