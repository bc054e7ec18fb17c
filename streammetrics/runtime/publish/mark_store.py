"""Keeps the marks of a namespace in the store, and shows them in the process status. A failure of the store never stops a report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import structlog

from streammetrics.connectors.store import BlobStore
from streammetrics.errors import StreammetricsError
from streammetrics.reports.marks import Mark, decode_marks, encode_marks, merged
from streammetrics.runtime.status import ProcessStatus

MARKS_KEY = "marks"
"""Name of the blob that holds the marks."""
READ_SECONDS = 5.0
"""Time between two reads of the marks that other processes have stored."""

log = structlog.get_logger("streammetrics.runtime.publish.mark_store")


class MarkStore:
    """Reads and adds marks. Without a blob it keeps them in memory. All methods may be called from any thread."""

    def __init__(self, status: ProcessStatus, monotonic: Callable[[], float], blob: BlobStore | None = None) -> None:
        self._status, self._monotonic, self._blob = status, monotonic, blob
        self._lock = threading.Lock()
        self._read_seconds: float | None = None
        self._failing = False

    def refresh(self) -> None:
        """Read the stored marks, if the last read is old."""
        now = self._monotonic()
        if self._blob is None or (self._read_seconds is not None and now - self._read_seconds < READ_SECONDS):
            return
        self._read_seconds = now
        try:
            with self._lock:
                self._status.marks = decode_marks(self._blob.read())
            self._failing = False
        except StreammetricsError as error:
            if not self._failing:
                log.warning("the marks cannot be read; reports go on", error=str(error))
            self._failing = True

    def add(self, marks: Iterable[Mark]) -> None:
        """Store more marks. Of two processes that add at the same time, one may lose a mark. Raises StoreError."""
        with self._lock:
            known = self._status.marks if self._blob is None else decode_marks(self._blob.read())
            self._status.marks = merged(known, marks)
            if self._blob is not None:
                self._blob.write(encode_marks(self._status.marks))
