"""A worker process of `run --workers N`: consumes like `run --role worker`, without an HTTP port.

Started by `worker_pool` with a socket. It receives its name and settings there, and sends its status several times a second. It stops when
the parent says so, when the parent is gone, or on a signal.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, TypeAlias

from streammetrics.cli.signals import stop_on_signals
from streammetrics.errors import ConfigError, StreammetricsError, UnfitStateError

STATUS_SECONDS: Final = 0.25
"""Time between two statuses. A scrape shows numbers that are at most this much older."""
Pipe: TypeAlias = "Connection[Any, Any]"


class Start(NamedTuple):
    """The settings that a worker process receives at its start."""

    name: str
    settings: Any
    """The `Settings`, with the member id of this process."""


def main(descriptor: int) -> None:
    """Run until asked to stop. Exits with 1 or 2 after an error, which the parent reports."""
    with Connection(descriptor) as pipe, stop_on_signals() as stop, contextlib.suppress(EOFError):
        start: Start = pipe.recv()
        _watch_parent(pipe, stop)
        code = _consume(pipe, start, stop)
        sys.exit(code)


def _consume(pipe: Pipe, start: Start, stop: threading.Event) -> int:
    from streammetrics.cli.run.service import serve  # noqa: PLC0415
    from streammetrics.connectors.clock import SystemClock  # noqa: PLC0415
    from streammetrics.runtime.status import ProcessStatus  # noqa: PLC0415
    from streammetrics.wiring.engine import build_engine  # noqa: PLC0415
    from streammetrics.wiring.gc_tuning import tune_garbage_collection  # noqa: PLC0415  slow imports, after the signals
    from streammetrics.wiring.logs import configure_logs  # noqa: PLC0415

    settings = start.settings
    configure_logs(settings.log.level, settings.log.format, worker=start.name)
    tune_garbage_collection()
    clock = SystemClock()
    status = ProcessStatus(started_seconds=clock.monotonic(), beat_seconds=clock.monotonic())
    try:
        with _reporting(pipe, status):
            serve(settings, build_engine(settings, settings.kafka.topics), clock, status, stop, lambda report, history: None)
    except StreammetricsError as error:
        with contextlib.suppress(OSError):
            pipe.send(error)
        return 2 if isinstance(error, ConfigError | UnfitStateError) else 1
    return 0


def _watch_parent(pipe: Pipe, stop: threading.Event) -> None:
    """Stop at the next message, which is the request to stop, or when the parent has closed the socket."""

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            pipe.recv()
        stop.set()

    threading.Thread(target=wait, name="streammetrics-parent", daemon=True).start()


@contextmanager
def _reporting(pipe: Pipe, status: Any) -> Iterator[None]:
    """Send the status while the block runs, and once more at its end."""
    from streammetrics.runtime.status import snapshot  # noqa: PLC0415

    ended = threading.Event()

    def send() -> None:
        with contextlib.suppress(OSError):  # the parent is gone
            while not ended.wait(STATUS_SECONDS):
                pipe.send(snapshot(status))
            pipe.send(snapshot(status))

    sender = threading.Thread(target=send, name="streammetrics-status", daemon=True)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()


if __name__ == "__main__":
    main(int(sys.argv[1]))
