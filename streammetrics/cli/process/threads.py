"""The threads of a process that ends as a whole: what one of them cannot go on after ends the others, and is told at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import structlog

log = structlog.get_logger("streammetrics.cli.process.threads")

END_SECONDS: Final = 10.0
"""How long a thread is waited for that was told to end."""


class StoppableThread:
    """A thread that runs until it is told to end, at the latest with its block.

    If it ends by an error, everything is told to stop, and its end raises that; an error of the block itself is not replaced.
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
            log.error(f"the {self._thread.name} cannot go on, so all is told to stop", error=str(error))
            self._stop_all.set()

    def end(self) -> None:
        """Tell it to end, wait for it within bounds, and raise what it failed of."""
        self._wait()
        if self._failure is not None:
            raise self._failure

    def _wait(self) -> None:
        self._stop.set()
        self._thread.join(END_SECONDS)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.end()
        else:
            self._wait()
