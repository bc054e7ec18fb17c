"""Ends servers and deletes their directories when the process that started them ends, even by SIGKILL.

A small child process holds one end of a pipe, and receives what to clean up. When the other end closes, because the parent has ended,
the child kills those processes and deletes those directories. (No hook of the parent runs after SIGKILL. Linux' parent-death signal
fires already when the starting *thread* ends.)
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

_CHILD = """
import os, shutil, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
watched = {"process": {}, "directory": {}}
for line in sys.stdin:
    verb, kind, value = line.rstrip("\\n").split(" ", 2)
    if verb == "watch":
        watched[kind][value] = None
    else:
        watched[kind].pop(value, None)
for pid in watched["process"]:
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        pass
for directory in watched["directory"]:
    shutil.rmtree(directory, ignore_errors=True)
"""


class Reaper:
    """The parent's end of the pipe."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-S", "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
        )

    def watch_process(self, pid: int) -> None:
        self._send(f"watch process {pid}")

    def forget_process(self, pid: int) -> None:
        self._send(f"forget process {pid}")

    def watch_directory(self, directory: Path) -> None:
        self._send(f"watch directory {directory}")

    def forget_directory(self, directory: Path) -> None:
        self._send(f"forget directory {directory}")

    def _send(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()


@functools.cache
def reaper() -> Reaper:
    """Return this process' reaper, started at the first use."""
    return Reaper()
