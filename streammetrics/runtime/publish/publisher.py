"""Reads the committed state of all tasks at a steady pace and publishes one immutable Report.

If the store fails, the last report stays; its window ends show how old it is. Every few seconds the store's servers are
asked how safe state is there, so that the process that shows the numbers also shows that.

A read has an order: first the frozen scales, then the tasks, then the scales that are due. A scale that was frozen after the tasks were
read may belong to an experiment run that they do not show yet. It would then be used for the run before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.store import FieldStore, Store
from streammetrics.errors import StateError, StoreError
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.input_warnings import OutageNote, StandstillNote, current_notes, decode_notes, decode_outages
from streammetrics.reports.report import Report
from streammetrics.runtime.retry import Outage
from streammetrics.runtime.status import ProcessStatus
from streammetrics.words.numbers import counted
from streammetrics.words.sentences import DataWarning

NOTES_SECONDS = 2.0
"""Time between two looks at what workers note."""
OUTAGE_SECONDS = 10.0
"""An outage that its worker has not said again for so long is none: the worker has ended."""
NODES_SECONDS = 10.0
"""Time between requests for the status of the store's servers. In a cluster each server is asked several times."""
log = structlog.get_logger("streammetrics.runtime.publish.publisher")


def read_committed(store: Store, builder: ReportBuilder, tasks: int) -> bool:
    """Read what was committed since the last call, and return whether anything was.

    Raises StoreError, and StateError if other rules made the state.
    """
    if not builder.experiments.has_scales:
        builder.experiments.update_scales(store.compare_and_set({}))
    every = range(tasks)
    views = store.view(every, builder.marks, {task: builder.rows_from(task) for task in every})
    for task, view in views.items():
        builder.update(task, view)
    return bool(views)


def freeze_due_scales(store: Store, builder: ReportBuilder, tasks: int) -> bool:
    """Freeze the scales that are due by the state that was read, and update the builder from the store. Raises StoreError.

    Returns whether any were due.
    """
    changes = builder.experiments.scale_changes(tasks)
    if changes:
        builder.experiments.update_scales(store.compare_and_set(changes))
    return bool(changes)


class Publisher:
    """One reader of the store. `on_report` is called with each new report, in the publisher's thread.

    `standstills` has what workers note of partitions that do not move.

    It gives up with the last error if the store has failed for longer than `retry_seconds_max`; 0 means never.
    """

    def __init__(
        self,
        *,
        builder: ReportBuilder,
        store: Store,
        publish_ms: int,
        clock: Clock,
        status: ProcessStatus,
        on_report: Callable[[Report], None],
        retry_seconds_max: float = 0.0,
        standstills: FieldStore | None = None,
    ) -> None:
        self._builder, self._store, self._clock, self._status, self._on_report = builder, store, clock, status, on_report
        self._publish_seconds, self._retry_seconds_max = publish_ms / 1_000, retry_seconds_max
        self._outage = Outage("committed state")
        self._tasks: int | None = None
        self._last: Report | None = None
        """The report of the last read, which stays the same object while nothing is committed."""
        self._nodes_seconds: float | None = None
        self._standstills = standstills
        self._notes: tuple[StandstillNote, ...] = ()
        self._outages: dict[str, tuple[OutageNote, float]] = {}
        """The outages that workers note, each with the time when it was first seen."""
        self._notes_seconds: float | None = None
        self._warned: dict[tuple[str, str, str], DataWarning] = {}
        """The warnings of the last report, by key."""

    def publish(self) -> Report | None:
        """Read what has changed and publish a report; None while the number of tasks is not known.

        While nothing is committed, the report is the same object, so that its readers need not render it again.
        Raises StateError if state that was shown before is gone: the rest would be shown as if it were everything.
        """
        tasks = self._store.partitions()
        if self._tasks is not None and tasks != self._tasks:
            raise StateError(
                f"the namespace was made for {counted(self._tasks, 'task')}, and now "
                f"{'for no number' if tasks is None else f'for {tasks}'}: it was deleted or flushed while it was shown",
                "start again; the numbers then begin at zero",
            )
        if tasks is None:
            return None
        self._tasks = tasks
        before = last = self._last
        self._last = None  # an error may come after a part was read
        if read_committed(self._store, self._builder, tasks) or last is None:
            freeze_due_scales(self._store, self._builder, tasks)
            last = self._newest(tasks)
        report = self._with_standstills(last)
        if report is not before:
            self._log_warnings(report)
        self._last = report
        self._on_report(report)
        return report

    def _newest(self, tasks: int) -> Report:
        report = self._builder.report(tasks)
        return replace(report, earlier_windows=self._builder.earlier_windows(report))

    def _with_standstills(self, report: Report) -> Report:
        """Return the report with the standstills that workers note. They are read at most every NOTES_SECONDS."""
        now = self._clock.monotonic()
        if self._standstills is not None and (self._notes_seconds is None or now - self._notes_seconds >= NOTES_SECONDS):
            stored = self._standstills.read()
            self._notes_seconds, self._notes = now, tuple(decode_notes(stored))
            before, self._outages = self._outages, {}
            for name, outage in decode_outages(stored).items():
                self._outages[name] = before[name] if name in before and before[name][0] == outage else (outage, now)
            self._status.outages = tuple(sorted({note.message for note, seen in self._outages.values() if now - seen < OUTAGE_SECONDS}))
        offsets = {(place.topic, place.partition): place.offset or 0 for place in report.inputs}
        standstills = current_notes(self._notes, offsets)
        return report if standstills == report.standstills else replace(report, standstills=standstills, earlier_windows=())

    def _log_warnings(self, report: Report) -> None:
        """Log each warning of the report and of its experiments when it appears, and when it is over."""
        current = {("", "", warning.key): warning for warning in report.warnings()}
        for experiment in report.experiments:
            current |= {(experiment.experiment, warning.variant, warning.key): warning for warning in experiment.warnings}
        for key, warning in current.items():
            if key not in self._warned:
                log.warning(warning.text, fix=warning.fix, **({"experiment": key[0]} if key[0] else {}))
        for key, former in self._warned.items():
            if key not in current:
                log.info("a warning is over", warning=former.text)
        self._warned = current

    def check_nodes(self) -> None:
        """Ask the store's servers for their status, at most every NODES_SECONDS. If one fails, the status of all is unknown."""
        now = self._clock.monotonic()
        if self._nodes_seconds is None or now - self._nodes_seconds >= NODES_SECONDS:
            self._nodes_seconds = now
            try:
                self._status.store_nodes = self._store.nodes()
            except StoreError as error:
                log.debug("the status of the store's servers is unknown", error=str(error))
                self._status.store_nodes = ()

    def run(self, stop: threading.Event) -> None:
        """Publish until `stop` is set, then once more, to show the last commit."""
        while not stop.wait(self._publish_seconds):
            self.turn()
        self.turn()

    def turn(self) -> None:
        """Publish once, and note an outage of the store. Raises StoreError after `retry_seconds_max`, and StateError."""
        status = self._status
        try:
            self.publish()
        except StoreError as error:
            self._outage.failed(error, self._clock.monotonic(), self._retry_seconds_max)
            status.store_nodes, self._nodes_seconds = (), None  # the last status may be out of date
        else:
            self.check_nodes()
            self._outage.succeeded(self._clock.monotonic())
        status.publish_trouble = self._outage.trouble
