"""Keeps the history of experiment snapshots and passes each report on with it. A failure of the history never stops a report.

The publisher's process keeps the history. A blob store, if there is one, shares it between all processes of a namespace
and keeps it over restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog

from streammetrics.connectors.store import BlobStore
from streammetrics.errors import StreammetricsError
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History, HistorySeries
from streammetrics.reports.report import Report

HISTORY_KEY = "history"
"""Name of the blob that holds the history."""

log = structlog.get_logger("streammetrics.runtime.publish.history_keeper")


def encode_history(history: History) -> bytes:
    """Encode a history for the blob store."""
    return msgspec.json.encode(history.series)


def decode_history(stored: bytes | None) -> History:
    """Decode a stored history. Returns an empty one if there is none, or one of another version; the next write replaces it."""
    if stored is None:
        return History()
    try:
        return History.of_series(msgspec.json.decode(stored, type=tuple[HistorySeries, ...]))
    except msgspec.DecodeError:
        return History()


class HistoryKeeper:
    """Adds a snapshot of each report when one is due, and calls `show` with the report and the history. For one thread."""

    def __init__(self, show: Callable[[Report, History], None], blob: BlobStore | None = None) -> None:
        self._show, self._blob = show, blob
        self._failing = False
        self.history = History()

    def on_report(self, report: Report) -> None:
        """Show a report. If a snapshot was due, share the history first."""
        before = self.history if self.history.series else self._stored(report.experiments)
        if report.entered_ms is not None:
            self.history = before.add(report.entered_ms, report.experiments, report.earlier)
        if self._blob is not None and self.history is not before:
            self._share(self._blob, report.experiments)
        self._show(report, self.history)

    def _stored(self, experiments: Iterable[ExperimentReport]) -> History:
        """Return what other processes have stored about these experiments, so that only what they lack is computed."""
        try:
            return History() if self._blob is None else decode_history(self._blob.read()).matching(experiments)
        except StreammetricsError as error:
            self._warn(error)
            return History()

    def _share(self, blob: BlobStore, experiments: Iterable[ExperimentReport]) -> None:
        """Merge in what other processes have stored about the same experiments, and write the result if it differs."""
        try:
            stored = decode_history(blob.read())
            self.history = self.history.merge(stored.restricted_to(self.history).matching(experiments))
            if self.history != stored:
                blob.write(encode_history(self.history))
            self._failing = False
        except StreammetricsError as error:
            self._warn(error)

    def _warn(self, error: StreammetricsError) -> None:
        if not self._failing:
            log.warning("the experiment history cannot be saved; reports go on", error=str(error))
        self._failing = True
