"""Takes snapshots of experiments during a replay, at even steps of event time, like the history of a live process.

A snapshot keeps the stored totals. At the end the snapshots become a history, with the scales of the final report, so that the last
snapshot and the report agree. Snapshots cause extra commits, which change no result.
"""

from __future__ import annotations

from streammetrics.connectors.base import Store
from streammetrics.engine.experiment_runs import WHOLE
from streammetrics.events.event_time import DAY_MS, NEVER
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
from streammetrics.runtime.committed_state import freeze_due_scales, read_committed
from streammetrics.runtime.consumer import Worker

_EMPTY: Downsampled[Stored] = Downsampled()


class ReplayHistory:
    """The snapshots of one replay, which has only task 0. It needs a report builder of its own."""

    def __init__(self, builder: ReportBuilder, store: Store) -> None:
        self._builder, self._store = builder, store
        self._first_ms: int | None = None
        self._due_ms = NEVER
        self._stored: dict[tuple[str, str], Downsampled[Stored]] = {}

    def after_turn(self, worker: Worker) -> None:
        """Take a snapshot if one is due. The steps grow with the replayed time, so that a year costs only hundreds of snapshots."""
        state = worker.tasks[0].state if 0 in worker.tasks else None
        if state is None or self._builder.experiments is None or not state.labels.runs.of_number:
            return
        watermark = state.progress.watermark
        if watermark < max(self._due_ms, NEVER + 1):
            return
        first_ms = self._first_ms = watermark if self._first_ms is None else self._first_ms
        self._due_ms = watermark + max(SNAPSHOT_MS, (watermark - first_ms) // SNAPSHOTS_MAX)
        worker.drain(flush=False)  # so that a snapshot depends on the events read, not on the timing of commits
        if state.enrolments.enrolled_before != NEVER:
            self._take_snapshot(state.enrolments.enrolled_before)

    def _take_snapshot(self, enrolled_ms: int) -> None:
        builder = self._builder
        read_committed(self._store, builder, 1)
        freeze_due_scales(self._store, builder, 1)  # like a live publisher: at the first snapshot with enough users
        today = (enrolled_ms - 1) // DAY_MS
        current = {(name, kept.scope): kept for (name, day), kept in builder.stored(1).items() if day in (WHOLE, today)}
        self._stored = {key: stored for key, stored in self._stored.items() if key in current}  # ended experiments make room
        for key, kept in current.items():
            if len(self._stored) < SERIES_MAX or key in self._stored:
                self._stored[key] = self._stored.get(key, _EMPTY).since(kept.known_from_ms).add(enrolled_ms, kept)

    def history(self, final: ReportBuilder, report: Report) -> History:
        """Return the snapshots of the experiments in the final report, computed with its scales."""
        view = self._builder.experiments
        if view is None:
            return History()
        series, scales = [], final.scales(1)
        for each in report.experiments:
            name = each.experiment
            stored = self._stored.get((name, each.scope), _EMPTY).since(each.known_from_ms)
            reports = ((at, build_report(view.measures_of(kept), view.policy(name), kept, scales[name])) for at, kept in stored.kept)
            snapshots: tuple[tuple[int, HistorySnapshot], ...] = tuple((at, snapshot_of(each_report)) for at, each_report in reports)
            if snapshots:
                series.append(HistorySeries(name, each.scope, Downsampled(stored.width_ms, snapshots)))
        return History(tuple(sorted(series, key=lambda one: (one.experiment, one.scope))))
