"""Threads of a process that stops as a whole: when one thread fails, the others stop, and its error is raised at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import structlog

log = structlog.get_logger("streammetrics.cli.threads")

END_SECONDS: Final = 10.0
"""How long to wait for a thread after the request to stop."""


class StoppableThread:
    """A thread that runs until `end` is called or its `with` block ends.

    If it fails, it sets `stop_all`, and `end` raises its error. An error of the block itself takes precedence.
    """

    def __init__(self, name: str, body: Callable[[threading.Event], None], stop_all: threading.Event) -> None:
        self._body, self._stop_all = body, stop_all
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self._body(self._stop)
        except BaseException as error:
            self._failure = error
            log.error(f"{self._thread.name} failed, stopping the process", error=str(error))
            self._stop_all.set()

    def end(self) -> None:
        """Ask the thread to stop, wait at most END_SECONDS, and raise its error, if any."""
        self._wait()
        if self._failure is not None:
            raise self._failure

    def _wait(self) -> None:
        self._stop.set()
        self._thread.join(END_SECONDS)
        if self._thread.is_alive():
            log.warning(f"{self._thread.name} has not ended in time; the process ends without it", seconds=END_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.end()
        else:
            self._wait()
