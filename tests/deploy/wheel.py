"""The tests without servers against the wheel as it is installed: `python -m tests.deploy.wheel dist/streammetrics-….whl [pytest's words]`.

The tests are copied away from the sources, so that nothing but the installed package can be imported.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.support.paths import ROOT

BESIDE = ("tests", "deploy", ".github", "grafana", "README.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml")
"""What the tests read besides the package."""
ELSEWHERE = ("tests/integration", "tests/deploy", "tests/docs/test_readme.py", "tests/tools/simulation/test_bugs.py")
"""Tests that need servers, or are about the repository and its sources."""
WORDS = ["--numprocesses", "auto", *(word for path in ELSEWHERE for word in ("--ignore", path)), "-p", "no:cacheprovider"]


def tested(wheel: Path, words: list[str]) -> int:
    """The exit code of the tests, in an environment that has the wheel, its extras, and no sources."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        venv.create(place / "venv", with_pip=True, symlinks=True)
        python = place / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[dev]"], cwd=place, env=kept, check=True)
        checkout = place / "checkout"
        checkout.mkdir()
        for name in BESIDE:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, checkout / name)
        where: list[str | Path] = [python, "-c", "import streammetrics; print(streammetrics.__file__)"]
        imported = subprocess.run(where, cwd=checkout, env=kept, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
        assert imported.startswith(str(place / "venv")), f"the tests would import {imported}"
        print(f"testing {imported}", flush=True)
        command: list[str | Path] = [python, "-m", "pytest", *WORDS, *words, "tests", "--pyargs", "streammetrics"]
        return subprocess.run(command, cwd=checkout, env=kept, check=False).returncode


if __name__ == "__main__":
    if len(sys.argv) < 2 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python -m tests.deploy.wheel WHEEL [pytest's words]")
    sys.exit(tested(Path(sys.argv[1]), sys.argv[2:]))
