"""Children and their answers: a part is measured by `python -m tests.tools.bench.<module> <JSON>` and prints one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT


class WrongAnswerError(AssertionError):
    """A part computed another result than brute force, so its time has no meaning."""


def command(module: str, given: Mapping[str, Any]) -> list[str]:
    return [sys.executable, "-m", f"tests.tools.bench.{module}", json.dumps(given)]


def start(module: str, given: Mapping[str, Any], log: Path) -> subprocess.Popen[str]:
    """Start a child whose standard error goes to a file."""
    with log.open("ab") as errors:
        return subprocess.Popen(
            command(module, given), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT, text=True
        )


def answer(child: subprocess.Popen[str], module: str, log: Path) -> dict[str, Any]:
    """Wait for a child's answer. Raises RuntimeError with the end of its log when it fails."""
    output, _ = child.communicate()
    if child.returncode != 0:
        raise RuntimeError(f"tests.tools.bench.{module} exited with {child.returncode}\n{log.read_text(errors='replace')[-4_000:]}")
    document: dict[str, Any] = json.loads(output.splitlines()[-1])
    return document


def measure(module: str, given: Mapping[str, Any], log: Path) -> dict[str, Any]:
    return answer(start(module, given, log), module, log)


def read_given() -> dict[str, Any]:
    """Return the arguments that the parent process gave to this one."""
    given: dict[str, Any] = json.loads(sys.argv[1])
    return given


def reply(document: Mapping[str, Any]) -> None:
    print(json.dumps(document), flush=True)


def peak_mb() -> float:
    """Return the peak memory of this process. `getrusage` would include the peak of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_024
