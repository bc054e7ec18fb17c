"""Reads the committed state of all tasks at a steady pace and publishes one immutable Report.

If the store fails, the last report stays; its window ends show how old it is. Every few seconds the store's servers are
asked how safe state is there, so that the process that shows the numbers also shows that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.connectors.store import Store
from streammetrics.errors import StateError, StoreError
from streammetrics.events.model import WatchedPath
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.reports.text import counted
from streammetrics.reports.user_partitions import FIX
from streammetrics.runtime.publish.committed_state import freeze_due_scales, read_committed
from streammetrics.runtime.retry import Outage
from streammetrics.runtime.status import ProcessStatus

NAMES_WARNING_SECONDS = 60.0
NAMES_WARNING_SHARE = 0.01
"""Time between two warnings about unknown names."""
PARTITIONS_WARNING_SECONDS = 3_600.0
"""Time between two warnings about users on several partitions."""
NODES_SECONDS = 10.0
"""Time between requests for the status of the store's servers. In a cluster each server is asked several times."""

log = structlog.get_logger("streammetrics.runtime.publish.publisher")


class Publisher:
    """One reader of the store. `on_report` is called with each new report, in the publisher's thread.

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
    ) -> None:
        self._builder, self._store, self._clock, self._status, self._on_report = builder, store, clock, status, on_report
        self._publish_seconds, self._retry_seconds_max = publish_ms / 1_000, retry_seconds_max
        self._outage = Outage("committed state")
        self._tasks: int | None = None
        self._last: Report | None = None
        """The report of the last read, which stays the same object while nothing is committed."""
        self._nodes_seconds: float | None = None
        self._withheld: set[int] = set()
        self._partitions_warned_seconds: float | None = None
        self._paths_warned: set[WatchedPath] = set()
        self._names_warned: set[tuple[str, str | None]] = set()
        self._names_warned_seconds: float | None = None

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
        last, self._last = self._last, None  # an error may come after a part was read
        if read_committed(self._store, self._builder, tasks) or last is None:
            freeze_due_scales(self._store, self._builder, tasks)
            last = self._newest(tasks)
        self._last = report = last
        self._warn_withheld(report)
        self._warn_partitions(report)
        self._warn_unknown_names(report)
        self._warn_paths(report)
        self._on_report(report)
        return report

    def _newest(self, tasks: int) -> Report:
        report = self._builder.report(tasks)
        return replace(report, earlier_windows=self._builder.earlier_windows(report))

    def _warn_withheld(self, report: Report) -> None:
        withheld = {window.window_ms for window in report.windows if not window.complete}
        for window_ms in sorted(withheld - self._withheld):
            log.warning(
                "a window is not shown because a task no longer has all of its panes: "
                "do windows.retention_ms and windows.windows agree between the workers and this process?",
                window_ms=window_ms,
            )
        self._withheld = withheld

    def _warn_partitions(self, report: Report) -> None:
        """Warn about users on several partitions at most once per PARTITIONS_WARNING_SECONDS, and log when the problem is over."""
        if report.user_partitions is None:
            return
        problem, warned_seconds, now = report.user_partitions.problem, self._partitions_warned_seconds, self._clock.monotonic()
        if not problem and warned_seconds is not None:
            log.info("users no longer have events on several partitions")
            self._partitions_warned_seconds = None
        elif problem and (warned_seconds is None or now - warned_seconds >= PARTITIONS_WARNING_SECONDS):
            log.warning(problem, fix=FIX)
            self._partitions_warned_seconds = now

    def _warn_paths(self, report: Report) -> None:
        """Warn about each path of a mapping that finds nothing: once, and again if it has found something in between."""
        missing = {each.watched: sentence for each in report.paths if (sentence := each.sentence(ended=False)) is not None}
        for path, sentence in missing.items():
            if path not in self._paths_warned:
                log.warning(sentence)
        self._paths_warned = set(missing)

    def _warn_unknown_names(self, report: Report) -> None:
        """Log unknown actions and event types: each name once, and at most one line per NAMES_WARNING_SECONDS.

        It is a warning for a name that resembles a known one, or for at least NAMES_WARNING_SHARE of all events.
        """
        new = [each for each in report.unknown_names if (each.kind, each.name) not in self._names_warned]
        now, warned_seconds = self._clock.monotonic(), self._names_warned_seconds
        if not new or (warned_seconds is not None and now - warned_seconds < NAMES_WARNING_SECONDS):
            return
        self._names_warned.update((each.kind, each.name) for each in new)
        self._names_warned_seconds = now
        events = sum(count for (reason, _), count in report.counts.items() if reason == "events")
        is_common = sum(each.events for each in new) >= NAMES_WARNING_SHARE * events
        write = log.warning if is_common or any(each.meant for each in new) else log.info
        write(
            "events with an unknown action or type are not used: are the names in join.grades and events.format right?",
            names=[f"{each.kind} {each}" for each in new],
        )

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
