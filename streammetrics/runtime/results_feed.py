"""Sends results to a sink: final panes once they are final, and verdicts when they change. At least once, with equal records.

1. `take` runs in the publisher's thread. It makes the next records from the state that was just read, unless some still wait.
2. `run` is a thread of its own, so that a slow sink holds up no report. It sends what waits, with back-off while the sink fails.
3. Nothing is stored. A process that starts sends all panes that the store still has. A pane has one key and one content, so any number of
   processes may send it, any number of times: the newest record of each key is the same.

If the store loses commits, panes that were final can change. All panes are then sent again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

import structlog

from streammetrics.errors import SourceError
from streammetrics.events.event_time import NEVER
from streammetrics.experiments import SINCE_START
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.report import Report
from streammetrics.reports.result_records import ResultRecord, pane_records, verdict_records
from streammetrics.runtime.status import ProcessStatus

PANES_AT_ONCE: Final = 200
"""Most panes that wait. It bounds memory."""
BACKOFF_SECONDS_MAX: Final = 30.0

log = structlog.get_logger("streammetrics.runtime.results")


class ResultSink(Protocol):
    """Where records go."""

    def write(self, records: Iterable[ResultRecord]) -> None:
        """Write records and wait until they are safe. Raises SourceError; some may then be written."""
        ...


class ResultsFeed:
    """Sends the results of one process; see the module."""

    def __init__(self, builder: ReportBuilder, sink: ResultSink, status: ProcessStatus) -> None:
        self._builder, self._sink, self._status = builder, sink, status
        status.results.update(sent=0, failed=0)
        self._next_ms = NEVER
        self._revisions = 0
        self._verdicts: dict[bytes, str] = {}
        self._waiting: Sequence[ResultRecord] = ()
        self._ready, self._done = threading.Event(), threading.Event()
        self._done.set()

    def take(self, report: Report) -> None:
        """Make the next records, if the last ones have been sent."""
        if not self._done.is_set():
            return
        waiting = [*self._new_panes(report), *self._new_verdicts(report)]
        if waiting:
            self._waiting = waiting
            self._done.clear()
            self._ready.set()

    def _new_panes(self, report: Report) -> Iterator[ResultRecord]:
        aggregator = self._builder.aggregator
        if aggregator.revisions != self._revisions:
            self._next_ms, self._revisions = NEVER, aggregator.revisions
        rules = self._builder.rules
        for start_ms, pane in islice(self._builder.final_panes(report, self._next_ms), PANES_AT_ONCE):
            self._next_ms = start_ms + rules.pane_ms
            yield from pane_records(start_ms, pane, pane_ms=rules.pane_ms, layout=self._builder.layout)

    def _new_verdicts(self, report: Report) -> Iterator[ResultRecord]:
        """Yield the verdicts since the start that have changed in this process, and all of them at its start."""
        for experiment in report.experiments:
            if experiment.scope == SINCE_START and report.entered_ms is not None:
                words = [experiment.verdict.word, *(each.verdict.word for each in experiment.variants if each.verdict is not None)]
                for record, word in zip(verdict_records(experiment, report.entered_ms), words, strict=True):
                    if self._verdicts.get(record.key) != word:
                        self._verdicts[record.key] = word
                        yield record

    def run(self, stop: threading.Event) -> None:
        """Send what waits until `stop` is set, then what still waits, once."""
        failures = 0
        while not stop.is_set():
            if not self._ready.wait(0.2):
                continue
            failures = 0 if self._sent() else failures + 1
            if failures:
                stop.wait(min(BACKOFF_SECONDS_MAX, 0.5 * 2 ** min(failures, 10)))
        if self._ready.is_set():
            self._sent()

    def _sent(self) -> bool:
        try:
            self._sink.write(self._waiting)
        except SourceError as error:
            self._status.results["failed"] += 1
            log.warning("results cannot be sent, trying again", error=str(error), records=len(self._waiting))
            return False
        self._status.results["sent"] += len(self._waiting)
        self._waiting = ()
        self._ready.clear()
        self._done.set()
        return True
