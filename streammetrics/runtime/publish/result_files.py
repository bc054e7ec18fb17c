"""Writes results to a directory of files: final panes, and changes of verdicts. Exactly once in effect.

1. `take` runs in the publisher's thread. It hands over the next span of panes once all of its panes are final, and verdicts that have
   changed. It only collects stored bytes.
2. `run` is a thread of its own. It decodes the panes and writes the file, with back-off while the disk fails.
3. A file has all final panes of one span of event time. Its name and its content follow from committed state. So a process that dies, or
   a second process, writes the same file again. A process that starts compares all files of panes that the store still has.
4. A file of verdicts has the changes of one day. A change is added under a lock, unless the files have it already. Verdicts wait until the
   report is settled.

If the store loses commits, panes that were final can change. All files are then compared again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

import structlog

from streammetrics.errors import SourceError
from streammetrics.events.event_time import NEVER, pane_start
from streammetrics.reports.builder import ReportBuilder
from streammetrics.reports.pane_rows import PANE_COLUMNS, PaneRow, pane_rows
from streammetrics.reports.report import Report
from streammetrics.reports.verdict_rows import VERDICT_COLUMNS, ChangedVerdicts, VerdictRow
from streammetrics.runtime.publish.outbox import Outbox
from streammetrics.runtime.status import ProcessStatus
from streammetrics.windows.panes import Pane

VERDICT_FILES: Final = "verdicts/date=*/verdicts.parquet"

log = structlog.get_logger("streammetrics.runtime.publish.result_files")


class ResultTables(Protocol):
    """Where files go. Every method may raise SourceError: try again."""

    def has(self, name: str) -> bool: ...

    def write(self, name: str, columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> tuple[int, bool]:
        """Write a file whole, unless it has the same bytes. Returns its number of rows, and whether it is new or has changed."""
        ...

    def read(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a file; none if it does not exist."""
        ...

    def names(self, pattern: str) -> list[str]:
        """Return the files that match a pattern, in order."""
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from the same block."""
        ...


@dataclass(frozen=True, slots=True)
class PaneSpan:
    """Final panes of one span, to be decoded. `whole`: the store still has all of its panes."""

    start_ms: int
    panes: Mapping[int, Callable[[], Pane]]
    whole: bool


@dataclass(frozen=True, slots=True)
class ResultParcel:
    """What is written next: at most one span, and changed verdicts."""

    span: PaneSpan | None
    verdicts: Sequence[VerdictRow]


def pane_file(start_ms: int) -> str:
    """Return the name of the file of a span.

    >>> pane_file(1_732_183_200_000)
    'panes/date=2024-11-21/panes-20241121T1000Z.parquet'
    """
    return f"panes/date={_utc(start_ms):%Y-%m-%d/panes-%Y%m%dT%H%MZ}.parquet"


def verdict_file(up_to_ms: int) -> str:
    """Return the name of the file of the verdicts of a day."""
    return f"verdicts/date={_utc(up_to_ms):%Y-%m-%d}/verdicts.parquet"


def _utc(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


class ResultFiles:
    """Writes the results of one process; see the module. `span_ms`: the event time of a file, a whole number of panes."""

    def __init__(
        self, builder: ReportBuilder, tables: ResultTables, span_ms: int, status: ProcessStatus, is_settled: Callable[[Report], bool]
    ) -> None:
        self._builder, self._tables, self._span_ms, self._status, self._is_settled = builder, tables, span_ms, status, is_settled
        status.result_files.update(written=0, unchanged=0, failed=0)
        self._done_ms = NEVER
        """The event time up to which all final panes are written."""
        self._revisions = 0
        self._verdicts = ChangedVerdicts()
        self._outbox: Outbox[ResultParcel] = Outbox(self._write, self._failed)

    def take(self, report: Report) -> None:
        """Hand over what is to be written next, if the last parcel has been written."""
        span = self._builder.final_span(report)
        is_free = self._outbox.is_free
        if is_free and self._builder.aggregator.revisions != self._revisions:
            self._done_ms, self._revisions = NEVER, self._builder.aggregator.revisions
        waiting = [] if span is None else self._builder.aggregator.starts(max(self._done_ms, span[0]), span[1])
        self._status.result_files_lag_ms = 0 if span is None or not waiting else span[1] - waiting[0]
        if is_free:
            panes = None if span is None or not waiting else self._next_span(waiting, *span)
            verdicts = self._verdicts.of(report) if self._is_settled(report) else []
            if panes is not None or verdicts:
                self._outbox.put(ResultParcel(panes, verdicts))

    def _next_span(self, waiting: Sequence[int], oldest_ms: int, end_ms: int) -> PaneSpan | None:
        """Return the first span that has panes, if all of it is final."""
        start_ms = pane_start(waiting[0], self._span_ms)
        if start_ms + self._span_ms > end_ms:
            return None
        whole = oldest_ms <= start_ms
        if not whole and self._done_ms != NEVER and self._done_ms < oldest_ms:
            log.error("panes may have left the store before they were written", from_ms=self._done_ms, to_ms=oldest_ms)
        panes = {each: self._builder.aggregator.frozen_pane(each) for each in waiting if each < start_ms + self._span_ms}
        return PaneSpan(start_ms, panes, whole)

    def run(self, stop: threading.Event) -> None:
        """Write what is handed over until `stop` is set, then what still waits, once."""
        self._outbox.run(stop)

    def turn(self) -> None:
        """Write what was handed over, once."""
        self._outbox.send()

    def _write(self, parcel: ResultParcel) -> None:
        span = parcel.span
        if span is not None:
            name = pane_file(span.start_ms)
            if span.whole or not self._tables.has(name):  # a part must not replace what was written when the store had more
                self._count(self._tables.write(name, PANE_COLUMNS, self._rows(span)))
            self._done_ms = span.start_ms + self._span_ms
        if parcel.verdicts:
            self._write_verdicts(parcel.verdicts)

    def _rows(self, span: PaneSpan) -> Iterator[PaneRow]:
        pane_ms, layout = self._builder.rules.pane_ms, self._builder.layout
        for start_ms, pane in span.panes.items():
            yield from pane_rows(start_ms, pane(), final=True, live=False, pane_ms=pane_ms, layout=layout)

    def _write_verdicts(self, rows: Sequence[VerdictRow]) -> None:
        """Add those rows that differ from the newest row about the same, unless that row is of a later state."""
        with self._tables.locked():
            newest = self._newest({row.about for row in rows})
            added: dict[str, list[VerdictRow]] = {}
            for row in rows:
                known = newest.get(row.about)
                if known is None or (known.verdict != row.verdict and known.up_to_ms < row.up_to_ms):
                    added.setdefault(verdict_file(row.up_to_ms), []).append(row)
            for name, new in added.items():
                kept = sorted([*self._read_verdicts(name), *new], key=lambda row: (row.up_to_ms, row.about))
                self._count(self._tables.write(name, VERDICT_COLUMNS, kept), len(new))

    def _newest(self, wanted: set[tuple[str, str, str]]) -> dict[tuple[str, str, str], VerdictRow]:
        """Return the newest row about each of the wanted, from the files, the newest file first."""
        found: dict[tuple[str, str, str], VerdictRow] = {}
        for name in reversed(self._tables.names(VERDICT_FILES)):
            if wanted <= found.keys():
                break
            of_file = {row.about: row for row in self._read_verdicts(name) if row.about in wanted}  # the last one of each stays
            found = of_file | found
        return found

    def _read_verdicts(self, name: str) -> list[VerdictRow]:
        return [VerdictRow(**{field: row[field] for field in VerdictRow._fields}) for row in self._tables.read(name)]

    def _count(self, written: tuple[int, bool], added: int | None = None) -> None:
        rows, changed = written
        self._status.result_files["written" if changed else "unchanged"] += 1
        if changed:
            self._status.result_rows += rows if added is None else added

    def _failed(self, parcel: ResultParcel, error: SourceError) -> None:
        self._status.result_files["failed"] += 1
        log.warning("results cannot be written to files, trying again", error=str(error))
