"""Signals that end a process: as an event for commands with a loop, and as an error for commands without one.

The first signal asks for a clean end. The second one ends the process at once.
"""

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
"""Ctrl-C, a supervisor's request, and a closed terminal. A closed terminal may send SIGHUP twice."""


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that the first of SIGNALS sets while the block runs. Main thread only.

    A second SIGINT or SIGTERM exits with 128 + its number, without clean-up.
    """
    stop = threading.Event()
    # A signal handler interrupts the main thread, which may hold the lock of this event. So the handler only puts into a
    # reentrant queue, and another thread sets the event.
    requests: SimpleQueue[bool] = SimpleQueue()
    is_requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if is_requested and number != signal.SIGHUP:
            os._exit(128 + number)
        is_requested = True
        requests.put(True)

    def set_event() -> None:
        if requests.get():
            stop.set()

    setter = threading.Thread(target=set_event, name="streammetrics-signals", daemon=True)
    setter.start()
    try:
        with _handled_by(handle):
            yield stop
    finally:
        requests.put(False)
        setter.join()


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Interrupt the block on the first of SIGNALS; it then raises StreammetricsError. Main thread only.

    A second signal ends the process, as in `stop_on_signals`.
    """
    is_requested = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if not is_requested:
            is_requested = True
            raise KeyboardInterrupt
        if number != signal.SIGHUP:
            os._exit(128 + number)

    try:
        with _handled_by(handle):
            yield
    except KeyboardInterrupt:
        raise StreammetricsError("interrupted; no partial file was written") from None


@contextmanager
def _handled_by(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Install the handler for SIGNALS, and restore the old handlers afterwards.

    Ignored signals stay ignored: nohup ignores SIGHUP, and shells ignore SIGINT for background processes.
    """
    numbers = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
