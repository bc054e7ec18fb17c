"""Runs a test server: ports, a directory, a child process, a wait until it is ready, and a clean end in every case.

It works for any server. Standard library only.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.tools.servers.reaper import reaper

HOST = "127.0.0.1"
POLL_SECONDS = 0.02
PAUSE_SECONDS_MAX = 0.25
# Below the ports of outgoing connections, so that a stopped server's port stays free for its restart. Low enough for Redis Cluster,
# which also uses each port + 10000.
PORTS = range(15_000, 25_000)
CLUSTER_BUS_OFFSET = 10_000

_handed_out: set[int] = set()


class Host(NamedTuple):
    """Where a server runs: its address, and the words in front of a command that runs there."""

    address: str = HOST
    enter: tuple[str, ...] = ()


LOOPBACK = Host()


class ServerError(RuntimeError):
    """A test server failed. The message ends with its log."""


class NotReadyError(Exception):
    """The server answers but does not serve yet. Raised by `check_ready`."""


def free_port(*, with_cluster_bus: bool = False) -> int:
    """Return an unused loopback port that this process has not returned before."""
    for port in random.SystemRandom().sample(PORTS, k=500):
        if port not in _handed_out and _is_free(port) and not (with_cluster_bus and not _is_free(port + CLUSTER_BUS_OFFSET)):
            _handed_out.add(port)
            return port
    raise ServerError(f"none of 500 ports tried between {PORTS.start} and {PORTS.stop} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def check_port_open(port: int, address: str = HOST) -> None:
    """Raise OSError unless a port accepts connections."""
    socket.create_connection((address, port), timeout=1).close()


def wait_until(condition: Callable[[], bool], *, what: str, deadline_seconds: float = 120) -> None:
    """Wait until a condition holds. Raises TimeoutError with `what` after the deadline."""
    end = time.monotonic() + deadline_seconds
    while True:
        asked = time.monotonic()
        if condition():
            return
        if time.monotonic() > end:
            raise TimeoutError(f"after {deadline_seconds} s it is not true that {what}")
        pause(asked)


def pause(asked: float) -> None:
    """Sleep before a condition is asked again: four times as long as it took since `asked`, within bounds.

    Many conditions read the whole state. Without this a test that waits would leave no processor to others.
    """
    time.sleep(min(max(POLL_SECONDS, 4 * (time.monotonic() - asked)), PAUSE_SECONDS_MAX))


class Startable(ABC):
    """What a `with` statement starts. It is closed at the end of the statement, and if the start fails."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self.start()
            undo.pop_all()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Server(Startable):
    """One server process with its own directory, which stays through `stop`, `kill` and `restart` and is deleted by `close`.

    A subclass defines the command (`command`), the files to write first (`prepare`) and the check for readiness (`check_ready`).
    """

    name: str = "server"
    ready_seconds: float = 60
    stop_seconds: float = 30
    not_ready: tuple[type[Exception], ...] = (NotReadyError, OSError)  # what `check_ready` may raise until it returns

    def __init__(self, host: Host = LOOPBACK) -> None:
        self.host = host
        self.directory = Path(tempfile.mkdtemp(prefix=f"streammetrics-{self.name}-"))
        self.log_path = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._hung = False
        reaper().watch_directory(self.directory)

    @abstractmethod
    def command(self) -> Sequence[str | Path]: ...

    @abstractmethod
    def check_ready(self) -> None:
        """Raise one of `not_ready` unless the server serves."""

    def prepare(self) -> None:
        """Write files into the directory. Called before every start; data of earlier runs are there."""

    def start(self) -> Self:
        """Start the server and wait until it is ready. Raises ServerError with the end of its log."""
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """Start without waiting, for servers that become ready only together."""
        if self.alive:
            raise ServerError(f"{self.name} is running already")
        self.prepare()
        with self.log_path.open("ab") as log:
            # In its own session, so that Ctrl-C reaches the tests first, which then stop their servers.
            command = [*self.host.enter, *self.command()]
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.directory, start_new_session=True
            )
        self._hung = False
        reaper().watch_process(self._process.pid)

    def wait_ready(self) -> None:
        """Wait until `check_ready` passes. Raises ServerError, at once if the process has exited."""
        self.wait_until_passes(self.check_ready)

    def wait_until_passes(self, check: Callable[[], None]) -> None:
        end = time.monotonic() + self.ready_seconds
        while True:
            asked = time.monotonic()
            # Read before the check: a server that dies after a failed check gets one more round.
            was_alive = self.alive
            try:
                return check()
            except self.not_ready as error:
                reason = error
            if not was_alive:
                raise ServerError(f"{self.name} exited with {self._require_process().returncode} before it was ready\n{self.log_tail()}")
            if time.monotonic() > end:
                raise ServerError(f"{self.name} was not ready after {self.ready_seconds} s ({reason!r})\n{self.log_tail()}")
            pause(asked)

    def stop(self) -> None:
        """Stop it with SIGTERM, like an operator. Its data stay. Does nothing if it is not running."""
        if not self.alive:
            return
        self.resume()
        process = self._require_process()
        process.terminate()
        try:
            process.wait(self.stop_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(f"{self.name} did not stop within {self.stop_seconds} s\n{self.log_tail()}") from None
        self._forget()

    def kill(self) -> None:
        """Kill it with SIGKILL, like a crash. Its data stay. Does nothing if it is not running."""
        if not self.alive:
            return
        process = self._require_process()
        process.kill()
        process.wait()
        self._forget()

    def restart(self) -> None:
        """Stop it if it runs, and start it with the same ports and data."""
        self.stop()
        self.start()

    def hang(self) -> None:
        """Freeze it with SIGSTOP. Its port still accepts connections, and nothing answers."""
        self._require_process().send_signal(signal.SIGSTOP)
        self._hung = True

    def resume(self) -> None:
        """Unfreeze it with SIGCONT. Does nothing if it is not frozen."""
        if self._hung and self.alive:
            self._require_process().send_signal(signal.SIGCONT)
        self._hung = False

    def revive(self) -> None:
        """Bring it back, whether frozen, stopped or killed."""
        self.resume()
        if not self.alive:
            self.start()

    def close(self) -> None:
        """Kill it and delete its directory."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        reaper().forget_directory(self.directory)

    @property
    def alive(self) -> bool:
        """Whether the process exists, frozen or not."""
        if self._process is None:
            return False
        if self._process.poll() is not None:
            self._forget()
            return False
        return True

    @property
    def pid(self) -> int:
        return self._require_process().pid

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of the server's output."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace") if self.log_path.exists() else ""
        return f"--- the end of {self.log_path}:\n" + "\n".join(text.splitlines()[-lines:])

    def _forget(self) -> None:
        """Forget its pid, which another process may get."""
        reaper().forget_process(self._require_process().pid)

    def _require_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerError(f"{self.name} was never started")
        return self._process
