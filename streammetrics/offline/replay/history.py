"""Takes snapshots of experiments during a replay, at even steps of event time, like the history of a live process.

A snapshot keeps the stored totals. At the end the snapshots become a history, with the scales of the final report, so that the last
snapshot and the report agree. For each snapshot the lists that are due are enrolled, which changes no result. Users' sessions are not
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from streammetrics.connectors.store import Store
from streammetrics.engine.task_state import TaskState
from streammetrics.enrolment.feedback_days import FEEDBACK_DAYS
from streammetrics.enrolment.scopes import EXPERIMENTS, WHOLE
from streammetrics.errors import MalformedEvent
from streammetrics.events import Impression
from streammetrics.events.event_time import DAY_MS, FOREVER, NEVER
from streammetrics.events.model import Decoder, Event, Exposure
from streammetrics.experiments import StoredSums
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.history import (
    SERIES_MAX,
    SNAPSHOT_MS,
    SNAPSHOTS_MAX,
    DownsampledValues,
    History,
    HistorySeries,
    stored_snapshot,
)
from streammetrics.reports.report import Report
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.publish.publisher import freeze_due_scales
from streammetrics.state.tables import Rows, TaskView
from streammetrics.words.names import name_order

SUMS = (EXPERIMENTS, FEEDBACK_DAYS)
"""The tables whose rows a snapshot has."""


class Snapshot(NamedTuple):
    """The committed state of one process at the time of a snapshot, of the tables in SUMS.

    Lists are enrolled up to `enrolled_ms` (event time). `is_changed` says whether any was enrolled since the last snapshot.
    """

    enrolled_ms: int
    view: TaskView
    is_changed: bool


OnSnapshot: TypeAlias = Callable[[Snapshot], None]

_EMPTY: DownsampledValues[StoredSums] = DownsampledValues()


class ExperimentWatch:
    """Notes whether any decoded list had an experiment, or an exposure came that may give it one."""

    def __init__(self) -> None:
        self.seen = False

    def around(self, decode: Decoder) -> Decoder:
        """Return the decoder with the watch around it."""

        def read(value: bytes | None, /) -> Sequence[Event | MalformedEvent]:
            events = decode(value)
            if not self.seen:
                self.seen = any(type(event) is Exposure or (type(event) is Impression and bool(event.experiments)) for event in events)
            return events

        return read


def snapshot_times(began_ms: int) -> Iterator[int]:
    """Yield the event times of snapshots, without end. The steps grow, so that a year costs only hundreds of snapshots.

    A history keeps between half of SNAPSHOTS_MAX and all of them, so a step is as long as half of them allow. The first ones are at whole
    multiples of SNAPSHOT_MS, so logs of the same lists have the same snapshots, even if their times begin at different events.

    >>> from itertools import islice
    >>> [at // 60_000 for at in islice(snapshot_times(0), 200)][::66]
    [1, 71, 276, 1079]
    """
    at_ms = began_ms = began_ms - began_ms % SNAPSHOT_MS
    while True:
        at_ms += max(SNAPSHOT_MS, (at_ms - began_ms) // (SNAPSHOTS_MAX // 2))
        yield at_ms


def counted_until(state: TaskState) -> int:
    """Return the time (ms) up to which lists count so far: that of the newest event, and less once the inputs have ended."""
    return min(state.progress.newest_supported(), state.enrolments.counted_until)


class SnapshotHolds:
    """Stops the watermark of a replay at the time of each snapshot.

    So a snapshot depends on the log of each input alone, and not on how the inputs are read in turn. All processes of a replay agree.
    `on_snapshot` is called with the committed state.
    """

    def __init__(self, watch: ExperimentWatch, store: Store, on_snapshot: OnSnapshot) -> None:
        self._watch, self._store, self._on_snapshot = watch, store, on_snapshot
        self._sums: Rows | None = None
        self._times: Iterator[int] | None = None

    def after_turn(self, worker: Worker) -> None:
        """If the watermark has come to the time of a snapshot, take it, and let the watermark go on."""
        state = worker.tasks[0].state if 0 in worker.tasks else None
        if state is None:
            return
        progress = state.progress
        if progress.hold == FOREVER:
            worker.hold(progress.earliest)
        while progress.watermark == progress.hold:
            if self._times is None:
                self._times = snapshot_times(progress.began_ms)
            else:
                self.snapshot(worker)
            worker.hold(next(self._times))

    def after_end(self, worker: Worker, *, flush: bool) -> None:
        """Take the last snapshots. With `flush`, let the last lists become final step by step, as if the inputs went on in silence.

        So they are those of inputs that go on. They end where lists begin that could get feedback after the end: these do not count. The
        state after the last list that counts is not taken: the final report has it.
        """
        self.snapshot(worker)
        state = worker.tasks[0].state if 0 in worker.tasks else None
        if not flush or self._times is None:
            return
        while self._watch.seen and state is not None and state.enrolments.enrolled_before <= counted_until(state):
            worker.end(state.progress.hold)
            self.snapshot(worker)
            worker.hold(next(self._times))

    def snapshot(self, worker: Worker) -> None:
        """Enrol what is due, and take a snapshot if a list with an experiment or an exposure was read."""
        state = worker.tasks[0].state if 0 in worker.tasks else None
        if state is None or not self._watch.seen:
            return
        worker.enrol()
        if NEVER < (enrolled_ms := state.enrolments.enrolled_before) <= counted_until(state):
            view = self._store.view([0], {}, tables=SUMS)[0]
            is_changed, self._sums = view.rows != self._sums, view.rows
            self._on_snapshot(Snapshot(enrolled_ms, view, is_changed))


class ReplayHistory:
    """The snapshots of one replay. It needs a report builder of its own. `tasks` is the number of its processes."""

    def __init__(self, builder: ReportBuilder, store: Store, tasks: int = 1) -> None:
        self.builder, self._store, self._tasks = builder, store, tasks
        self._stored: dict[tuple[str, str], DownsampledValues[StoredSums]] = {}

    def add(self, parts: Sequence[Snapshot]) -> None:
        """Keep the totals of all processes, if a list was enrolled in any of them."""
        if not any(part.is_changed for part in parts):
            return
        builder, enrolled_ms = self.builder, parts[0].enrolled_ms
        assert all(part.enrolled_ms == enrolled_ms for part in parts), "all processes take snapshots at the same event time"
        if not builder.experiments.has_scales:
            builder.experiments.update_scales({})
        for task, part in enumerate(parts):
            builder.update(task, part.view)
        freeze_due_scales(self._store, builder, self._tasks)  # like a live publisher: at the first snapshot with enough users
        today = (enrolled_ms - 1) // DAY_MS
        experiments = builder.experiments.stored(self._tasks, [WHOLE, today])
        current = {(name, kept.scope): kept for (name, _), kept in experiments.items()}
        self._stored = {key: stored for key, stored in self._stored.items() if key in current}  # ended experiments make room
        for key, kept in current.items():
            if any(kept.first_list_users.values()) and (len(self._stored) < SERIES_MAX or key in self._stored):
                self._stored[key] = self._stored.get(key, _EMPTY).since(kept.known_from_ms).add(enrolled_ms, kept)

    def history(self, final: ReportBuilder, report: Report) -> History:
        """Return the snapshots of the experiments in the final report, computed with its scales."""
        rules = self.builder.experiments.report_rules
        if rules is None:
            return History()
        series, scales = [], final.experiments.scales(self._tasks)
        for experiment in report.experiments:
            name = experiment.experiment
            stored = self._stored.get((name, experiment.scope), _EMPTY).since(experiment.known_from_ms)
            snapshots = tuple(
                (at, stored_snapshot(rules.measures_of(kept), rules.policy(name), kept, scales[name])) for at, kept in stored.kept
            )
            if snapshots:
                series.append(HistorySeries(name, experiment.scope, DownsampledValues(stored.width_ms, snapshots)))
        return History(tuple(sorted(series, key=lambda one: (name_order(one.experiment), one.scope))))
