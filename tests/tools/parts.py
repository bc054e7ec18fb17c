"""Run parts of the suite side by side: `python -m tests.tools.parts "test-integration" "lint test-unit"`.

Each argument is a row of make's targets, one after the other. Tests with servers mostly wait, so that other rows use the processor
meanwhile, at a lower priority: the first row is the longest. Each line of output begins with the name of its part.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.support.paths import ROOT

NICER = 5
"""How much nicer the rows after the first one are to it."""
LAST_LINES = 30
"""So many lines of a part that failed are shown again at the end."""


class Part(NamedTuple):
    """A part of the suite: what it is called, and the command that runs it."""

    name: str
    command: Sequence[str]


class Ended(NamedTuple):
    """What became of a part."""

    name: str
    code: int
    seconds: float
    lines: list[str]


def run(rows: Sequence[Sequence[Part]]) -> int:
    """Run all parts, show what became of each, and return how many failed. A part that fails stops no other."""
    width = max(len(part.name) for row in rows for part in row)
    with ThreadPoolExecutor(len(rows)) as pool:
        ended = [part for row in pool.map(_in_turn, rows, [0, *[NICER] * (len(rows) - 1)], [width] * len(rows)) for part in row]
    failed = [part for part in ended if part.code]
    for part in failed:
        print(f"\n{part.name} failed. Its last lines:\n", *part.lines[-LAST_LINES:], sep="\n")
    print()
    for part in ended:
        print(f"{part.name:<{width}}  {'FAILED' if part.code else 'passed'}  {part.seconds:6.0f} s", flush=True)
    return len(failed)


def _in_turn(row: Sequence[Part], nicer: int, width: int) -> list[Ended]:
    return [_run(part, nicer, width) for part in row]


def _run(part: Part, nicer: int, width: int) -> Ended:
    began, lines = time.monotonic(), list[str]()
    command = ["nice", "-n", str(nicer), *part.command] if nicer else part.command
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            print(f"{part.name:<{width}} | {lines[-1]}\n", end="", flush=True)
    return Ended(part.name, process.returncode, time.monotonic() - began, lines)


def main() -> int:
    make = [os.environ.get("MAKE", "make"), "--no-print-directory"]
    return int(run([[Part(target, [*make, target]) for target in row.split()] for row in sys.argv[1:]]) > 0)


if __name__ == "__main__":
    sys.exit(main())
