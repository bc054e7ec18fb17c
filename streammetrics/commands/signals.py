"""SIGINT and SIGTERM as one event to wait for, where the first asks for a clean end and the second ends the process at once; and
SIGTERM as what Ctrl-C is, for what cannot wait for an event."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that is set by the first SIGINT or SIGTERM while the block runs. For the main thread only.

    A second signal exits with 128 + its number, as a shell shows it, without any clean-up.
    """
    stop = threading.Event()
    # A signal's handler runs in the middle of whatever the main thread does, which may be to wait for this very event and to hold its
    # lock. So the handler takes none: it may put into this queue at any time, and the event is set by a thread of its own.
    heard: SimpleQueue[bool] = SimpleQueue()
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(128 + number)
        asked = True
        heard.put(True)

    def tell() -> None:
        if heard.get():
            stop.set()

    teller = threading.Thread(target=tell, name="streammetrics-signals", daemon=True)
    teller.start()
    before = {number: signal.signal(number, handle) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        heard.put(False)
        teller.join()


@contextmanager
def broken_off_by_sigterm() -> Iterator[None]:
    """SIGTERM breaks the block off as SIGINT does, by KeyboardInterrupt, so that what cleans up after itself does. For the main thread."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
