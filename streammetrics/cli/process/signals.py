"""The signals that ask a process to end: as one event to wait for, where the first asks for a clean end and the second ends the process
at once; and as an error, for what cannot wait for an event."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

from streammetrics.errors import StreammetricsError

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a supervisor's wish, and a terminal that is closed, which may tell of it twice."""


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that is set by the first of SIGNALS while the block runs. For the main thread only.

    A second SIGINT or SIGTERM exits with 128 + its number, as a shell shows it, without any clean-up.
    """
    stop = threading.Event()
    # A signal's handler runs in the middle of whatever the main thread does, which may be to wait for this very event and to hold its
    # lock. So the handler takes none: it may put into this queue at any time, and the event is set by a thread of its own.
    heard: SimpleQueue[bool] = SimpleQueue()
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked and number != signal.SIGHUP:
            os._exit(128 + number)
        asked = True
        heard.put(True)

    def tell() -> None:
        if heard.get():
            stop.set()

    teller = threading.Thread(target=tell, name="streammetrics-signals", daemon=True)
    teller.start()
    try:
        with _handled_by(handle):
            yield stop
    finally:
        heard.put(False)
        teller.join()


@contextmanager
def broken_off_by_signals() -> Iterator[None]:
    """The first of SIGNALS breaks the block off, which then raises StreammetricsError. For the main thread only.

    A second one ends the process as in `stopping`.
    """
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt
        if number != signal.SIGHUP:
            os._exit(128 + number)

    try:
        with _handled_by(handle):
            yield
    except KeyboardInterrupt:
        raise StreammetricsError("broken off; no file was written in part") from None


@contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """What is ignored stays so: whoever starts a process may want it to outlive its terminal (nohup), or keep from it the Ctrl-C that
    is meant for another, as a script does for what it runs in the background."""
    numbers = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
