"""The parent of the worker processes of `run --workers N`: starts them, merges their status, and starts a dead one again.

A process that ends with a reason that no restart can fix ends them all, as it would end a single `run`. The parent asks its processes to
stop over a socket and sends no signal, because a terminal and systemd send signals to all of them, and a second one ends a process at once.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Final

import structlog

from streammetrics.cli.run.worker_process import Pipe, Start
from streammetrics.config import Settings
from streammetrics.connectors.clock import Clock
from streammetrics.errors import StreammetricsError
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus, total, update_merged

WAIT_SECONDS: Final = 0.25
RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 30.0
"""The wait before a restart doubles with each failure in a row, up to this."""
STEADY_SECONDS: Final = 60.0
"""A process that ran for this long has not failed in a row."""
FINISH_SECONDS: Final = 40.0
"""How long processes may take to commit and stop. They try for ten seconds if Redis fails."""
EXIT_SECONDS: Final = 5.0

log = structlog.get_logger("streammetrics.cli.run.worker_pool")


@dataclass(slots=True)
class _Worker:
    """One worker process, or its place while it waits for a restart."""

    name: str
    settings: Settings
    process: subprocess.Popen[bytes] | None = None
    pipe: Pipe | None = None
    status: ProcessStatus | None = None
    started_seconds: float = 0.0
    failures: int = 0
    failing_since_seconds: float = 0.0
    start_at_seconds: float = 0.0


class WorkerPool:
    """`worker.processes` processes. `status` is kept up to date with the merged status of all."""

    def __init__(self, settings: Settings, clock: Clock, status: ProcessStatus) -> None:
        self._clock, self._status = clock, status
        self._workers = [_Worker(str(number), settings_of(settings, number)) for number in range(1, settings.worker.processes + 1)]
        self._ended = ProcessStatus()
        self._error: StreammetricsError | None = None
        self._is_finishing = False

    def pids(self) -> list[int]:
        """Return the ids of the processes that run."""
        return [process.pid for worker in self._workers if (process := worker.process) is not None]

    def run(self, stop: threading.Event) -> None:
        """Run all processes until `stop` is set. Raises the error of a process that a restart cannot fix."""
        try:
            while not stop.is_set() and self._error is None:
                for worker in self._workers:
                    if worker.process is None and self._clock.monotonic() >= worker.start_at_seconds:
                        self._start(worker)
                self._receive(WAIT_SECONDS)
        finally:
            self._finish()
        if self._error is not None:
            raise self._error

    def _start(self, worker: _Worker) -> None:
        ours, theirs = multiprocessing.Pipe()
        with theirs:
            worker.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "streammetrics.cli.run.worker_process", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
            )
        worker.pipe, worker.status, worker.started_seconds = ours, None, self._clock.monotonic()
        with contextlib.suppress(OSError):  # it has ended already, which the next read shows
            ours.send(Start(worker.name, worker.settings))
        log.info("worker process started", worker=worker.name, pid=worker.process.pid)

    def _receive(self, seconds: float) -> None:
        """Wait for messages, and update the merged status."""
        by_pipe = {worker.pipe: worker for worker in self._workers if worker.pipe is not None}
        for pipe in wait(list(by_pipe), seconds) if by_pipe else ():
            self._read(by_pipe[pipe])  # type: ignore[index]  # `wait` returns what it was given
        if not by_pipe:
            self._clock.sleep(seconds)
        running = [worker.status or ProcessStatus(worker.started_seconds) for worker in self._workers if worker.process is not None]
        if not running:
            self._status.beat_seconds = self._clock.monotonic()
        update_merged(self._status, running, [self._ended], len(self._workers))

    def _read(self, worker: _Worker) -> None:
        assert worker.pipe is not None
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._handle_end(worker)
            return
        if isinstance(message, StreammetricsError):
            self._error = self._error or message
        else:
            worker.status = message
            self._status.down.pop(f"worker {worker.name}", None)

    def _handle_end(self, worker: _Worker) -> None:
        """Reap a process and set when it starts again."""
        process, now = worker.process, self._clock.monotonic()
        assert process is not None
        assert worker.pipe is not None
        worker.pipe.close()
        try:
            code = process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if worker.status is not None:
            self._ended = total([self._ended, worker.status])
        worker.process = worker.pipe = worker.status = None
        if self._is_finishing or self._error is not None:
            log.info("worker process ended", worker=worker.name, how=exit_text(code))
            return
        if now - worker.started_seconds >= STEADY_SECONDS or not worker.failures:
            worker.failures, worker.failing_since_seconds = 0, now
        worker.failures += 1
        restart_seconds = min(RESTART_SECONDS_MAX, RESTART_SECONDS * 2.0 ** (worker.failures - 1))
        worker.start_at_seconds = now + restart_seconds
        self._status.down[f"worker {worker.name}"] = Trouble(worker.failing_since_seconds, worker.failures, exit_text(code))
        log.warning("worker process ended, starting it again", worker=worker.name, how=exit_text(code), restart_seconds=restart_seconds)

    def _finish(self) -> None:
        """Let all processes commit and leave the group, and kill those that take too long."""
        self._is_finishing = True
        for worker in self._workers:
            if worker.pipe is not None:
                with contextlib.suppress(OSError):
                    worker.pipe.send(None)
        deadline = self._clock.monotonic() + FINISH_SECONDS
        while any(worker.process for worker in self._workers) and self._clock.monotonic() < deadline:
            self._receive(WAIT_SECONDS)
        for worker in self._workers:
            if worker.process is not None:
                log.warning("worker process did not stop, killing it", worker=worker.name)
                worker.process.kill()
                self._handle_end(worker)


def settings_of(settings: Settings, number: int) -> Settings:
    """Return the settings of process `number`: it only consumes, as a member of its own."""
    member = settings.kafka.group_instance_id
    return settings.model_copy(
        update={
            "kafka": settings.kafka.model_copy(update={"group_instance_id": member and f"{member}-{number}"}),
            "worker": settings.worker.model_copy(update={"role": "worker", "processes": 1}),
        }
    )


def exit_text(code: int) -> str:
    """Return how a process ended.

    >>> exit_text(1), exit_text(-9)
    ('exited with code 1', 'was ended by SIGKILL')
    """
    if code >= 0:
        return f"exited with code {code}"
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"
