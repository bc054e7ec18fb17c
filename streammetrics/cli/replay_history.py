"""Takes snapshots of experiments during a replay, at even steps of event time, like the history of a live process.

A snapshot keeps the stored totals. At the end the snapshots become a history, with the scales of the final report, so that the last
snapshot and the report agree. Snapshots cause extra commits, which change no result.
"""

from __future__ import annotations

from collections.abc import Sequence

from streammetrics.connectors.store import Store
from streammetrics.engine.experiment_runs import WHOLE
from streammetrics.errors import MalformedEvent
from streammetrics.events import Decoder, Impression
from streammetrics.events.event_time import DAY_MS, NEVER
from streammetrics.events.model import Event
from streammetrics.experiments import Stored, build_report
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.history import (
    SERIES_MAX,
    SNAPSHOT_MS,
    SNAPSHOTS_MAX,
    Downsampled,
    History,
    HistorySeries,
    HistorySnapshot,
    snapshot_of,
)
from streammetrics.reports.report import Report
from streammetrics.runtime.committed_state import freeze_due_scales
from streammetrics.runtime.consumer import Worker

_EMPTY: Downsampled[Stored] = Downsampled()


class ExperimentWatch:
    """Notes whether any decoded list had an experiment."""

    def __init__(self) -> None:
        self.seen = False

    def around(self, decode: Decoder) -> Decoder:
        """Return the decoder with the watch around it."""

        def read(value: bytes | None, /) -> Sequence[Event | MalformedEvent]:
            events = decode(value)
            if not self.seen:
                self.seen = any(type(event) is Impression and bool(event.experiments) for event in events)
            return events

        return read


class SnapshotTimes:
    """Decides when snapshots are taken. It depends only on the events that were read, so that all processes of a replay agree."""

    def __init__(self, watch: ExperimentWatch) -> None:
        self._watch = watch
        self._first_ms: int | None = None
        self._due_ms = NEVER

    def after_turn(self, worker: Worker) -> int | None:
        """Commit all that was read if a snapshot is due. Returns the event time up to which lists are enrolled; None for no snapshot.

        The steps grow with the replayed time, so that a year costs only hundreds of snapshots.
        """
        state = worker.tasks[0].state if 0 in worker.tasks else None
        if state is None or not self._watch.seen:
            return None
        watermark = state.progress.watermark
        if watermark < max(self._due_ms, NEVER + 1):
            return None
        first_ms = self._first_ms = watermark if self._first_ms is None else self._first_ms
        self._due_ms = watermark + max(SNAPSHOT_MS, (watermark - first_ms) // SNAPSHOTS_MAX)
        worker.drain(flush=False)  # so that a snapshot depends on the events read, not on the timing of commits
        enrolled_ms = state.enrolments.enrolled_before
        return None if enrolled_ms == NEVER else enrolled_ms


class ReplayHistory:
    """The snapshots of one replay. It needs a report builder of its own. `tasks` is the number of its processes."""

    def __init__(self, builder: ReportBuilder, store: Store, tasks: int = 1) -> None:
        self.builder, self._store, self._tasks = builder, store, tasks
        self._stored: dict[tuple[str, str], Downsampled[Stored]] = {}

    def take_snapshot(self, enrolled_ms: int) -> None:
        """Keep the totals that the builder has read."""
        builder = self.builder
        freeze_due_scales(self._store, builder, self._tasks)  # like a live publisher: at the first snapshot with enough users
        today = (enrolled_ms - 1) // DAY_MS
        current = {(name, kept.scope): kept for (name, day), kept in builder.stored(self._tasks).items() if day in (WHOLE, today)}
        self._stored = {key: stored for key, stored in self._stored.items() if key in current}  # ended experiments make room
        for key, kept in current.items():
            if len(self._stored) < SERIES_MAX or key in self._stored:
                self._stored[key] = self._stored.get(key, _EMPTY).since(kept.known_from_ms).add(enrolled_ms, kept)

    def history(self, final: ReportBuilder, report: Report) -> History:
        """Return the snapshots of the experiments in the final report, computed with its scales."""
        view = self.builder.experiments
        if view is None:
            return History()
        series, scales = [], final.scales(self._tasks)
        for each in report.experiments:
            name = each.experiment
            stored = self._stored.get((name, each.scope), _EMPTY).since(each.known_from_ms)
            reports = ((at, build_report(view.measures_of(kept), view.policy(name), kept, scales[name])) for at, kept in stored.kept)
            snapshots: tuple[tuple[int, HistorySnapshot], ...] = tuple((at, snapshot_of(each_report)) for at, each_report in reports)
            if snapshots:
                series.append(HistorySeries(name, each.scope, Downsampled(stored.width_ms, snapshots)))
        return History(tuple(sorted(series, key=lambda one: (one.experiment, one.scope))))
