"""Looks at experiments while a replay reads, at even steps of event time, as people would have looked at the live process.

What is stored is kept at each look, and becomes a history at the end, by the scales that the report has then: so the last look and
the report say the same. The looks change no number: a commit more or less never does.
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
from streammetrics.runtime.committed_state import fix_due_scales, read_committed
from streammetrics.runtime.consumer import Worker

NOTHING: Downsampled[Stored] = Downsampled()


class ReplayHistory:
    """The looks of a replay, whose only task is 0. `builder` is its own, and shows experiments or none."""

    def __init__(self, builder: ReportBuilder, store: Store) -> None:
        self._builder, self._store = builder, store
        self._first: int | None = None
        self._due = NEVER
        self._seen: dict[tuple[str, str], Downsampled[Stored]] = {}

    def after_turn(self, worker: Worker) -> None:
        """Look, if it is time. Steps grow with the time looked at, so that a year of events costs hundreds of looks and not more."""
        state = worker.tasks[0].state if 0 in worker.tasks else None
        if (
            state is None
            or self._builder.experiments is None
            or not state.labels.runs.of_number
            or state.progress.watermark < max(self._due, NEVER + 1)
        ):
            return
        first = self._first = state.progress.watermark if self._first is None else self._first
        self._due = state.progress.watermark + max(SNAPSHOT_MS, (state.progress.watermark - first) // SNAPSHOTS_MAX)
        worker.drain(flush=False)  # so that what is seen depends on what was read, and not on when it was committed
        if state.enrolments.enrolled_before != NEVER:
            self._look(state.enrolments.enrolled_before)

    def _look(self, entered_ms: int) -> None:
        builder = self._builder
        read_committed(self._store, builder, 1)
        fix_due_scales(self._store, builder, 1)  # as who shows numbers does: at the first look at which there are users enough
        today = (entered_ms - 1) // DAY_MS
        there = {(name, kept.scope): kept for (name, day), kept in builder.stored(1).items() if day in (WHOLE, today)}
        self._seen = {key: seen for key, seen in self._seen.items() if key in there}  # what is over leaves its place to others
        for key, kept in there.items():
            if len(self._seen) < SERIES_MAX or key in self._seen:
                self._seen[key] = self._seen.get(key, NOTHING).since(kept.known_from_ms).add(entered_ms, kept)

    def history(self, final: ReportBuilder, report: Report) -> History:
        """The looks at the experiments of the final ledger's report, by its scales."""
        view = self._builder.experiments
        if view is None:
            return History()
        trails, frozen = [], final.scales(1)
        for each in report.experiments:
            name = each.experiment
            seen = self._seen.get((name, each.scope), NOTHING).since(each.known_from_ms)
            reports = ((at, build_report(view.measures_of(kept), view.policy(name), kept, frozen[name])) for at, kept in seen.kept)
            looks: tuple[tuple[int, HistorySnapshot], ...] = tuple((at, snapshot_of(message)) for at, message in reports)
            if looks:
                trails.append(HistorySeries(name, each.scope, Downsampled(seen.width_ms, looks)))
        return History(tuple(sorted(trails, key=lambda trail: (trail.experiment, trail.scope))))
