"""The linters' programs: those of the virtual environment first, then those of the system. A missing one is an error, never a skip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.paths import ROOT

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "streammetrics"
VALUES = Path(__file__).parent / "values"
SECONDS_MAX = 120


def program(name: str, brought_by: str) -> str:
    """The path of a program, or an error that says what brings it."""
    beside_python = Path(sys.executable).parent
    path = shutil.which(name, path=os.pathsep.join([str(beside_python), os.environ.get("PATH", os.defpath), "/usr/bin", "/usr/sbin"]))
    if path is None:
        raise FileNotFoundError(f"{name} was not found: {brought_by} brings it")
    return path


def run(
    command: Sequence[str | Path], *, cwd: Path = ROOT, environ: Mapping[str, str] | None = None, seconds_max: float = SECONDS_MAX
) -> subprocess.CompletedProcess[str]:
    """Run a tool to its end; its output as text, both streams in one."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds_max,
        check=False,
    )


def assert_clean(command: Sequence[str | Path], *, cwd: Path = ROOT) -> None:
    """The tool ends with 0; else what it said is the failure."""
    done = run(command, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}"


def read_yaml(path: Path) -> Any:
    with path.open(encoding="utf-8") as stream:
        return yaml.safe_load(stream)
