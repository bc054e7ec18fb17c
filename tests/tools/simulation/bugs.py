"""Apply known bugs, one at a time, to a copy of the project, and show how soon the simulation finds each.

Each patch in the folder `bugs` is a bug that was made on purpose. A bug that is not found shows a hole in the simulation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from tests.support.paths import ROOT

PATCHES = sorted((Path(__file__).parent / "bugs").glob("*.patch"))
SEEDS = 2_000


class Detection(NamedTuple):
    """How a bug was found: after how many schedules, by which seed, and the law that it broke."""

    schedules: int
    seed: int
    law: str


@contextmanager
def patched(patch: Path) -> Iterator[Path]:
    """Copy the project and apply a patch to the copy. Raises CalledProcessError if it does not apply."""
    with TemporaryDirectory(prefix="streammetrics-bug-") as folder:
        for part in ("streammetrics", "tests"):
            shutil.copytree(ROOT / part, Path(folder, part), ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["git", "apply", str(patch)], cwd=folder, check=True, capture_output=True, text=True)
        yield Path(folder)


def find(patch: Path, seeds: int, jobs: int) -> Detection | None:
    """Search for a bug; None if it is not found."""
    with patched(patch) as folder:
        args = [sys.executable, "-m", "tests.tools.simulation", "--seeds", str(seeds), "--jobs", str(jobs), "--first-failure"]
        done = subprocess.run(args, check=False, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(folder)})
    failure = re.search(r"^after (\d+) schedules: seed (\d+): (.*)$", done.stdout, re.MULTILINE)
    if failure is None and done.returncode:
        raise click.ClickException(f"{patch.stem}: the simulation does not run:\n{done.stdout}{done.stderr}")
    return failure and Detection(int(failure[1]), int(failure[2]), failure[3])


@click.command(help=__doc__)
@click.option("--seeds", type=click.IntRange(1), default=SEEDS, show_default=True, help="Most schedules for each bug.")
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--only", default="", help="Only bugs whose name has this text.")
def main(seeds: int, jobs: int, only: str) -> None:
    """Exit with 1 if a bug is not found."""
    table, missed = Table("bug", "schedules", "seed", "what broke", box=MARKDOWN), 0
    for patch in [patch for patch in PATCHES if only in patch.stem]:
        detection = find(patch, seeds, jobs)
        missed += detection is None
        row = [patch.stem, *(map(str, detection) if detection else ("", "", f"NOT FOUND in {seeds:,} schedules"))]
        click.echo("  ".join(row)[:120], err=True)
        table.add_row(*row)
    Console(width=140).print(table)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main(prog_name="python -m tests.tools.simulation.bugs")
