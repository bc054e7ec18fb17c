"""Keeps the history of looks while reports pass by, and shows both. The history is for people: no trouble with it stops a report.

Whoever publishes keeps it; a shelf, where there is one, holds what all processes of a namespace have seen, over restarts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
import structlog

from streammetrics.connectors.base import BlobStore
from streammetrics.errors import StreammetricsError
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from streammetrics.reports.report import Report

HISTORY_KEY = "history"
"""What the shelf of histories is called."""

log = structlog.get_logger("streammetrics.runtime.history_store")


def encode_history(history: History) -> bytes:
    """The history as it lies on a shelf."""
    return msgspec.json.encode(history.to_json())


def decode_history(stored: bytes | None) -> History:
    """What lies on a shelf; an empty history where there is none, or one of another version, which is then written over."""
    if stored is None:
        return History()
    try:
        return History.from_json(msgspec.json.decode(stored))
    except msgspec.DecodeError:
        return History()


class HistoryStore:
    """Takes each report, looks at it when a look is due, and hands it on with the history so far; for one thread."""

    def __init__(self, show: Callable[[Report, History], None], shelf: BlobStore | None = None) -> None:
        self._show, self._shelf = show, shelf
        self._failing = False
        self.history = History()

    def take(self, report: Report) -> None:
        """Show this report; when a look at it was due, share the history with the shelf before."""
        before = self.history
        if report.entered_ms is not None:
            self.history = before.take(report.entered_ms, report.experiments)
        if self._shelf is not None and self.history is not before:
            self._share(self._shelf, report.experiments)
        self._show(report, self.history)

    def _share(self, shelf: BlobStore, experiments: Iterable[ExperimentReport]) -> None:
        """Put what others have seen of the same experiments to ours, and write both if that is more than there was."""
        try:
            known = decode_history(shelf.read())
            self.history = self.history.merge(known.only(self.history).about(experiments))
            if self.history != known:
                shelf.write(encode_history(self.history))
            self._failing = False
        except StreammetricsError as error:
            if not self._failing:
                log.warning("the history of looks cannot be kept; reports go on", error=str(error))
            self._failing = True
