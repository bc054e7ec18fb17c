"""The lives of experiments over all tasks: which of the tasks' lives are one, which one is shown, and what is settled of it.

Pure. A task ends a life by its own lists alone, for it knows no others. Side by side, the lives of the tasks make lives of the
experiment as lists make those of a task: what is at most `idle_ms` apart is one. Only what belongs to one life is added up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from streammetrics.engine.codec import Control, Scales, decode_scales, encode_scales, experiment_of_scales, parse_cell, scales_name
from streammetrics.engine.experiment_runs import WHOLE
from streammetrics.events.event_time import FOREVER, NEVER, close_bound


class MergedRun(NamedTuple):
    """The least and the greatest time (ms) of the lists of one life, over all tasks."""

    first: int
    last: int

    def holds(self, ts: int) -> bool:
        return self.first <= ts <= self.last


Change: TypeAlias = tuple[bytes | None, bytes | None]
"""What a settled value is changed from and to; None: it is not there."""
StartedRuns: TypeAlias = Mapping[str, MergedRun]
"""Of one task, by experiment: its latest life that lists have entered."""


def started_runs(control: Control, cells: Iterable[str]) -> dict[int, str]:
    """By number: the experiments of the task's latest lives that lists have entered."""
    begun = {run for run, day in map(parse_cell, cells) if day == WHOLE}
    latest = {name: number for number, name, *_ in sorted(control.runs, key=lambda run: run[2]) if number in begun}
    return {number: name for name, number in latest.items()}


def times_of(control: Control, numbers: Collection[int]) -> dict[str, MergedRun]:
    """By experiment: the times of those of the task's lives that have these numbers, one an experiment."""
    return {name: MergedRun(first, last) for number, name, first, last, *_ in control.runs if number in numbers}


def shown_runs(controls: Collection[Control], begun: Iterable[StartedRuns], *, idle_ms: int, lateness_ms: int) -> dict[str, MergedRun]:
    """By experiment: the latest life that lists have entered in some task; none that is over.

    A life is over when no list that the task furthest ahead still admits could touch it: that task has let go of its part, and
    the others' parts would look like the whole.
    """
    entered: dict[str, int] = {}
    for of_task in begun:
        for name, run in of_task.items():
            entered[name] = max(entered.get(name, NEVER), run.first)
    runs: dict[str, list[MergedRun]] = {name: [] for name in entered}
    for control in controls:
        for _, name, first, last, *_ in control.runs:
            if name in runs:
                runs[name].append(MergedRun(first, last))
    ahead = max(_bounds(controls, lateness_ms), default=NEVER)
    latest = {name: next(each for each in joined(runs[name], idle_ms) if each.holds(ts)) for name, ts in entered.items()}
    return {name: run for name, run in latest.items() if run.last + idle_ms >= ahead}


def joined(runs: Iterable[MergedRun], idle_ms: int) -> list[MergedRun]:
    """The lives that these make together, in order: those at most `idle_ms` apart are one.

    >>> joined([MergedRun(50, 60), MergedRun(0, 10), MergedRun(20, 30)], 10)
    [MergedRun(first=0, last=30), MergedRun(first=50, last=60)]
    """
    made: list[MergedRun] = []
    for run in sorted(runs):
        if made and run.first <= made[-1].last + idle_ms:
            made[-1] = MergedRun(made[-1].first, max(made[-1].last, run.last))
        else:
            made.append(run)
    return made


def _bounds(controls: Iterable[Control], lateness_ms: int) -> Iterator[int]:
    """Where each task stands with what it may let go of (ms): the end of its input is no silence, and lets go of nothing."""
    for control in controls:
        yield NEVER if control.watermark == FOREVER else close_bound(control.watermark, lateness_ms)


class SettledScales:
    """The scales that are settled, as they were last read: of each experiment one record, which holds for one life.

    A record tells up to which time its life is known to have lasted (`until`), and is brought up to date before that is out by more
    than half of `idle_ms`. So it is of another run than one that began more than `idle_ms` after `until`, and of no other; what was
    ever looked at by its scales is over then. Every change is made from the record that was read before the lives were: of a record
    that somebody has changed meanwhile nothing is changed, whoever asks.
    """

    def __init__(self, idle_ms: int) -> None:
        self._idle_ms = idle_ms
        self._stored: dict[str, bytes] = {}
        self._known: dict[str, Scales] = {}

    def take(self, settled: Mapping[str, bytes]) -> None:
        """Take the scales among all values that are settled now."""
        self._stored = {name: value for key, value in settled.items() if (name := experiment_of_scales(key)) is not None}
        self._known = {name: decode_scales(value) for name, value in self._stored.items()}

    def of(self, experiment: str, run: MergedRun) -> Mapping[str, float]:
        """The scales that hold for this life of an experiment, by measure."""
        known = self._of(experiment, run)
        return {} if known is None else known.by_measure

    def _of(self, experiment: str, run: MergedRun) -> Scales | None:
        known = self._known.get(experiment)
        return known if known is not None and run.first <= known.until + self._idle_ms else None

    def add(self, experiment: str, run: MergedRun, chosen: Mapping[str, float]) -> dict[str, Change]:
        """The change that adds scales of measures that had none; and the one, without any, that a long life makes due."""
        known = self._of(experiment, run) or Scales(NEVER, {})
        due = known.by_measure and run.last > known.until + self._idle_ms // 2
        if not (chosen or due):
            return {}
        after = Scales(max(known.until, run.last), {**known.by_measure, **chosen})
        return {scales_name(experiment): (self._stored.get(experiment), encode_scales(after))}

    def drop(self, controls: Collection[Control], lateness_ms: int) -> dict[str, Change]:
        """The changes that remove what is of use no more; `controls` are those of all tasks.

        No task knows the experiment, and none admits a list any more that could belong to its life: not even one that has come since
        the task was read.
        """
        named = {name for control in controls for _, name, *_ in control.runs}
        over_before = min(_bounds(controls, lateness_ms), default=NEVER)
        lasting_ms = self._idle_ms + self._idle_ms // 2
        gone = [name for name, each in self._known.items() if name not in named and each.until + lasting_ms < over_before]
        return {scales_name(name): (self._stored[name], None) for name in gone}
