"""Hands what the publisher's thread makes to a thread that sends it, so that a slow receiver holds up no report."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from streammetrics.errors import SourceError

BACKOFF_SECONDS_MAX: Final = 30.0

T = TypeVar("T")


class Outbox(Generic[T]):
    """One parcel at a time. `send` is tried again, with back-off, until it raises no SourceError. `failed` is called with each error."""

    def __init__(self, send: Callable[[T], None], failed: Callable[[T, SourceError], None]) -> None:
        self._send, self._failed = send, failed
        self._parcel: T | None = None
        self._ready = threading.Event()

    @property
    def is_free(self) -> bool:
        """Whether the last parcel has been sent."""
        return not self._ready.is_set()

    def put(self, parcel: T) -> None:
        """Hand over a parcel. The outbox must be free. For one thread."""
        self._parcel = parcel
        self._ready.set()

    def run(self, stop: threading.Event) -> None:
        """Send what is put until `stop` is set, then what still waits, once."""
        failures = 0
        while not stop.is_set():
            if not self._ready.wait(0.2):
                continue
            failures = 0 if self.send() else failures + 1
            if failures:
                stop.wait(min(BACKOFF_SECONDS_MAX, 0.5 * 2 ** min(failures, 10)))
        self.send()

    def send(self) -> bool:
        """Send what waits, if anything does. Returns False if that failed; it then still waits."""
        parcel = self._parcel
        if parcel is None:
            return True
        try:
            self._send(parcel)
        except SourceError as error:
            self._failed(parcel, error)
            return False
        self._parcel = None
        self._ready.clear()
        return True
