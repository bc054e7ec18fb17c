"""Sends results to a sink: final panes once they are final, and verdicts when they change. At least once, with equal records.

1. `on_report` runs in the publisher's thread. It makes the next records from the state that was just read, unless some still wait.
2. `run` is a thread of its own, so that a slow sink holds up no report. It sends what waits, with back-off while the sink fails.
3. Nothing is stored. A process that starts sends all panes that the store still has. A pane has one key and one content, so any number of
   processes may send it, any number of times: the newest record of each key is the same.

If the store loses commits, panes that were final can change. All panes are then sent again. Verdicts wait until the report is settled:
while workers catch up after an outage, tasks come at different times to one event time, and verdicts change with the order in which they
come. Such a state is no news. The verdicts of the state after it are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

import structlog

from streammetrics.connectors.clock import Clock
from streammetrics.errors import SourceError
from streammetrics.events.event_time import NEVER
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.freshness import ReportTimes
from streammetrics.reports.report import Report
from streammetrics.reports.result_records import ResultRecord, pane_records, verdict_record
from streammetrics.reports.verdict_lines import ChangedVerdicts
from streammetrics.runtime.status import ProcessStatus

PANES_AT_ONCE: Final = 200
"""Most panes that wait. It bounds memory."""
BACKOFF_SECONDS_MAX: Final = 30.0
log = structlog.get_logger("streammetrics.runtime.publish.results_feed")


class ResultSink(Protocol):
    """Where records go."""

    def write(self, records: Iterable[ResultRecord]) -> None:
        """Write records and wait until they are safe. Raises SourceError; some may then be written."""
        ...


class ResultsFeed:
    """Sends the results of one process; see the module."""

    def __init__(self, builder: ReportBuilder, sink: ResultSink, status: ProcessStatus, is_settled: Callable[[Report], bool]) -> None:
        self._builder, self._sink, self._status, self._is_settled = builder, sink, status, is_settled
        status.results.update(sent=0, failed=0)
        self._next_ms = NEVER
        self._revisions = 0
        self._verdicts = ChangedVerdicts()
        self._waiting: Sequence[ResultRecord] = ()
        self._ready = threading.Event()
        """Set while records wait. `on_report` sets them only when it is clear, and `turn` clears it when they are sent."""

    def on_report(self, report: Report) -> None:
        """Make the next records, if the last ones have been sent."""
        if self._ready.is_set():
            return
        verdicts = self._verdicts.of(report) if self._is_settled(report) else ()
        records = [*self._new_panes(report), *map(verdict_record, verdicts)]
        if records:
            self._waiting = records
            self._ready.set()

    def _new_panes(self, report: Report) -> Iterator[ResultRecord]:
        aggregator = self._builder.aggregator
        if aggregator.revisions != self._revisions:
            self._next_ms, self._revisions = NEVER, aggregator.revisions
        rules = self._builder.rules
        for start_ms, pane in islice(self._builder.final_panes(report, self._next_ms), PANES_AT_ONCE):
            self._next_ms = start_ms + rules.pane_ms
            yield from pane_records(start_ms, pane, pane_ms=rules.pane_ms, layout=self._builder.layout)

    def run(self, stop: threading.Event) -> None:
        """Send what waits until `stop` is set, then what still waits, once."""
        failures = 0
        while not stop.is_set():
            if not self._ready.wait(0.2):
                continue
            failures = 0 if self.turn() else failures + 1
            if failures:
                stop.wait(min(BACKOFF_SECONDS_MAX, 0.5 * 2 ** min(failures, 10)))
        self.turn()

    def turn(self) -> bool:
        """Send what waits, if anything does. Returns False if that failed; it then still waits."""
        if not self._ready.is_set():
            return True
        records = self._waiting
        try:
            self._sink.write(records)
        except SourceError as error:
            self._status.results["failed"] += 1
            log.warning("results cannot be sent, trying again", error=str(error), records=len(records))
            return False
        self._status.results["sent"] += len(records)
        self._waiting = ()
        self._ready.clear()
        return True


@dataclass(frozen=True, slots=True)
class SettledReports:
    """Says that a report is recent and complete, as the gate does. `stale_ms`: see `ReportTimes.staleness`."""

    clock: Clock
    stale_ms: int

    def __call__(self, report: Report) -> bool:
        return not any(ReportTimes.of(report).staleness(self.clock.wall_ms(), self.stale_ms))
