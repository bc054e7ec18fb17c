"""Servers and their directories end with the process that started them, however that one ends: also by SIGKILL.

A small child holds one end of a pipe. It is told what to clean up; when the other end closes, because the parent exited
or was killed, it kills those processes and deletes those directories. (No hook of the parent's own runs after a SIGKILL,
and Linux' parent-death signal fires already when the starting *thread* ends.)
"""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

_CHILD = """
import os, shutil, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
left = {"process": {}, "directory": {}}
for line in sys.stdin:
    verb, kind, value = line.rstrip("\\n").split(" ", 2)
    if verb == "watch":
        left[kind][value] = None
    else:
        left[kind].pop(value, None)
for pid in left["process"]:
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        pass
for directory in left["directory"]:
    shutil.rmtree(directory, ignore_errors=True)
"""


class Reaper:
    """The parent's end of the pipe."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-S", "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
        )

    def watch_process(self, pid: int) -> None:
        self._tell(f"watch process {pid}")

    def forget_process(self, pid: int) -> None:
        self._tell(f"forget process {pid}")

    def watch_directory(self, directory: Path) -> None:
        self._tell(f"watch directory {directory}")

    def forget_directory(self, directory: Path) -> None:
        self._tell(f"forget directory {directory}")

    def _tell(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(line + "\n")
        self._child.stdin.flush()


@functools.cache
def reaper() -> Reaper:
    """This process' reaper, started at first use."""
    return Reaper()
