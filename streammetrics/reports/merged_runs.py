"""The runs of experiments over all tasks: which runs of tasks belong together, which run is shown, and its frozen scales.

Pure. A run is an active period of an experiment. Each task ends runs by its own lists. Here the runs of all tasks are merged if they
are at most `idle_ms` apart. Only the state of one run is summed, by scope: since its start, or for one day. The frozen scales of an
experiment lie in the values of the namespace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from streammetrics.engine.task_state import ControlRecord
from streammetrics.enrolment.scopes import BASE, WHOLE, DecodedRow, Scope, decode_row, parse_row_name, scopes_of_rows
from streammetrics.events.event_time import FOREVER, NEVER, close_bound
from streammetrics.experiments import Measures
from streammetrics.experiments.hours import EntrySums, HourRow, Hours, MergedRows, merge_entries, merge_hours
from streammetrics.state.codec import VERSION, encode_json, plain_json, reader
from streammetrics.windows.tally_deltas import add_tallies

SCALES: Final = "scales "
_read = reader(msgspec.json.Decoder(tuple[int, int, dict[str, float]]).decode, plain_json, "an experiment's scales")
TaskScopes: TypeAlias = Mapping[tuple[str, int], Scope]
"""What one task stores of its experiments, by experiment and day."""
KeyT = TypeVar("KeyT")
Change: TypeAlias = tuple[bytes | None, bytes | None]
"""Old and new value of a stored scale record; None: absent."""


class Scales(NamedTuple):
    """The frozen scales of an experiment by measure, and the last time (ms) to which its run was known to last."""

    until: int
    by_measure: dict[str, float]


def encode_scales(scales: Scales) -> bytes:
    return encode_json((VERSION, *scales))


def decode_scales(stored: bytes) -> Scales:
    _, until, by_measure = _read(stored)
    return Scales(until, by_measure)


def scales_name(experiment: str) -> str:
    """Return the name of an experiment's scales in the store.

    >>> experiment_of_scales(scales_name("ranker-v7")), experiment_of_scales("something else")
    ('ranker-v7', None)
    """
    return f"{SCALES}{experiment}"


def experiment_of_scales(name: str) -> str | None:
    """Return the experiment whose scales have this name. None if the name is of something else."""
    return name.removeprefix(SCALES) if name.startswith(SCALES) else None


class MergedRun(NamedTuple):
    """First and last list time (ms) of one run, over all tasks."""

    first: int
    last: int

    def holds(self, ts: int) -> bool:
        """Return whether a time is within the run."""
        return self.first <= ts <= self.last


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
        self._by_experiment: dict[str, Scales] = {}

    def update(self, stored: Mapping[str, bytes]) -> None:
        """Update the known scales from all stored values."""
        self._stored = {name: value for key, value in stored.items() if (name := experiment_of_scales(key)) is not None}
        self._by_experiment = {name: decode_scales(value) for name, value in self._stored.items()}

    def of(self, experiment: str, run: MergedRun) -> Mapping[str, float]:
        """Return the frozen scales of a run, by measure."""
        scales = self._of(experiment, run)
        return {} if scales is None else scales.by_measure

    def _of(self, experiment: str, run: MergedRun) -> Scales | None:
        scales = self._by_experiment.get(experiment)
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
        expired = [name for name, scales in self._by_experiment.items() if name not in named and scales.until + lasting_ms < over_before]
        return {scales_name(name): (self._stored[name], None) for name in expired}


class ScopeReader:
    """Reads the stored scopes of one task. A row that has not changed is not decoded again, and is the same object."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[bytes, DecodedRow]] = {}

    def read(self, names: Mapping[int, str], stored: Mapping[str, bytes]) -> TaskScopes:
        """Return the scopes of these runs. `names`: run number -> experiment."""
        rows: dict[str, tuple[bytes, DecodedRow]] = {}
        parts = {key: name for key in stored if (name := parse_row_name(key)).run in names}
        for key, name in parts.items():
            row_before = self._rows.get(key)
            rows[key] = (
                row_before if row_before is not None and row_before[0] == stored[key] else (stored[key], decode_row(name.part, stored[key]))
            )
        self._rows = rows
        scopes = scopes_of_rows((parts[key], row) for key, (_, row) in rows.items())
        return {(names[run], day): scope for run, day, scope in scopes}


def sum_scopes(scopes: Iterable[Scope], with_covariates: Measures | None, merged: MergedRows | None = None) -> Scope:
    """Sum the scopes of several tasks, which do not change.

    If some tasks have covariates and others do not, covariates are dropped. `with_covariates` is the layout with covariates. merged: see
    `hours.merge_hours`.
    """
    scopes = list(scopes)
    if len({len(sums) for scope in scopes for sums in scope.moments.sums.values()}) > 1:
        assert with_covariates is not None
        scopes, merged = [_without_covariates(scope, with_covariates) for scope in scopes], None
    total = Scope()
    total.hours = merge_hours((scope.hours for scope in scopes), merged)
    total.moments = merge_entries(scope.moments for scope in scopes)
    total.users = merge_entries(scope.users for scope in scopes)
    total.fold_strata()
    total.reacting, total.reactions = _summed(scope.reacting for scope in scopes), _summed(scope.reactions for scope in scopes)
    total.credits, total.pairs = _summed(scope.credits for scope in scopes), _summed(scope.pairs for scope in scopes)
    return total


def _summed(tables: Iterable[Mapping[KeyT, list[int]]]) -> dict[KeyT, list[int]]:
    merged: dict[KeyT, list[int]] = {}
    for table in tables:
        for key, sums in table.items():
            merged[key] = add_tallies(merged[key], sums) if key in merged else sums
    return merged


def _without_covariates(scope: Scope, with_covariates: Measures) -> Scope:
    """Return a scope without covariates."""
    plain = Scope()
    for name in ("credits", "pairs", "reacting", "reactions", "users"):
        setattr(plain, name, getattr(scope, name))
    plain.moments = EntrySums(scope.moments.hours)
    for key, moments in scope.moments.sums.items():
        is_wide = len(moments) == with_covariates.moments_width
        plain.moments.sums[key] = with_covariates.without_covariates(moments) if is_wide else moments
    plain.hours = Hours(scope.hours.length)
    for block, row in scope.hours.rows.items():
        narrow = plain.hours.rows[block] = HourRow()
        narrow.totals = {key: totals[: with_covariates.totals_width] for key, totals in row.totals.items()}
        narrow.new_users, narrow.exposed, narrow.values, narrow.moves = row.new_users, row.exposed, row.values, row.moves
    return plain
