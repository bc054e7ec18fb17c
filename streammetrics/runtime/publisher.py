"""Reads committed state of all tasks at an even pace and publishes one immutable Report; knows nothing of how it is shown.

A store that fails leaves the last report standing: its window ends tell how old it is. Every few seconds the servers of the store
are asked how safe state is with them, because whoever shows state is where the on-call looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from streammetrics.connectors.base import Clock, Store
from streammetrics.errors import StateError, StoreError
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.reports.text import counted
from streammetrics.runtime.committed_state import read_all, settle_due
from streammetrics.runtime.owned_task import Outage
from streammetrics.runtime.status import ProcessStatus

LOOK_SECONDS = 10.0
"""How often the servers of the store are asked about themselves: in a cluster these are several questions to each."""

log = structlog.get_logger("streammetrics.runtime.publisher")


class Publisher:
    """One reader of the store. `on_report` is called with each new report, in the publisher's thread.

    A store that has failed for longer than `retry_seconds_max` ends it with the last error; 0 means never.
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
    ) -> None:
        self._builder, self._store, self._clock, self._status, self._on_report = builder, store, clock, status, on_report
        self._publish_seconds, self._retry_seconds_max = publish_ms / 1_000, retry_seconds_max
        self._outage = Outage("committed state")
        self._tasks: int | None = None
        self._looked_seconds: float | None = None
        self._told_withheld: set[int] = set()

    def publish(self) -> Report | None:
        """Read what has changed and publish; None while nobody has said how many tasks there are.

        Raises StateError when what was shown before is not there any more: what is left of it would be shown as the whole.
        """
        tasks = self._store.partitions()
        if self._tasks is not None and tasks != self._tasks:
            raise StateError(
                f"the namespace was made for {counted(self._tasks, 'task')}, and now "
                f"{'for no number' if tasks is None else f'for {tasks}'}: it was deleted or flushed while it was shown",
                "start again to show what is counted anew",
            )
        if tasks is None:
            return None
        self._tasks = tasks
        read_all(self._store, self._builder, tasks)
        settle_due(self._store, self._builder, tasks)
        report = self._builder.report(tasks)
        self._tell_of_withheld(report)
        self._on_report(report)
        return report

    def _tell_of_withheld(self, report: Report) -> None:
        withheld = {window.window_ms for window in report.windows if not window.complete}
        for window_ms in sorted(withheld - self._told_withheld):
            log.warning(
                "a window is not shown, because some task has dropped panes of it: "
                "do the workers keep as long (windows.retention_ms, windows.windows) as is shown here?",
                window_ms=window_ms,
            )
        self._told_withheld = withheld

    def look(self) -> None:
        """Ask the servers of the store about themselves, unless that was done just now; nothing is known of them if one does not answer."""
        now = self._clock.monotonic()
        if self._looked_seconds is None or now - self._looked_seconds >= LOOK_SECONDS:
            self._looked_seconds = now
            try:
                self._status.store_nodes = self._store.nodes()
            except StoreError as error:
                log.debug("the servers of the store do not tell of themselves", error=str(error))
                self._status.store_nodes = ()

    def run(self, stop: threading.Event) -> None:
        """Publish until told to stop, then once more, so that the last commit is seen."""
        while not stop.wait(self._publish_seconds):
            self._try()
        self._try()

    def _try(self) -> None:
        status = self._status
        try:
            self.publish()
        except StoreError as error:
            self._outage.failed(error, self._clock.monotonic(), self._retry_seconds_max)
            status.store_nodes, self._looked_seconds = (), None  # what they said before may hold no more
        else:
            self.look()
            self._outage.well(self._clock.monotonic())
        status.publish_trouble = self._outage.trouble
