"""Change the modules that decide, one small change at a time, and show which changes no test of their folder notices.

mutmut makes the changes and runs the tests, in a copy of the project. A change that no test notices is a survivor: a missing test, or a
change without an effect. survivors.md, beside this file, says which are known, and why they live.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from tests.support.paths import ROOT

ROOMS: Final = "streammetrics"
COPIED: Final = ("streammetrics", "tests", "deploy", ".github", "README.md", "CHANGELOG.md", "Makefile")
SETTINGS: Final = """
[tool.mutmut]
source_paths = ["streammetrics"]
also_copy = ["deploy", ".github", "README.md", "CHANGELOG.md", "Makefile"]
use_git_change_detection = false
track_dependencies = false
timeout_multiplier = 4
pytest_add_cli_args = ["-p", "no:cacheprovider", "-q", "-x", "--hypothesis-profile=mutants"]
"""


class Group(NamedTuple):
    """Modules that decide one thing, and the tests that must notice a change of them."""

    modules: Sequence[str]
    tests: Sequence[str]


GROUPS: Final[dict[str, Group]] = {
    "admission": Group(
        ["engine/input_progress.py", "engine/supported_time.py"],
        ["tests/engine/test_input_progress.py", "tests/engine/test_supported_time.py", "tests/engine/test_engine.py"],
    ),
    "join": Group(["sessions/join_rules.py"], ["tests/sessions/test_join_rules.py", "tests/engine/test_engine.py"]),
    "tally": Group(["windows/tally_deltas.py"], ["tests/windows/test_tally_deltas.py", "tests/engine/test_engine.py"]),
    "commit": Group(
        ["connectors/store.py", "runtime/consume/owned_task.py", "runtime/consume/claims.py"],
        ["tests/connectors/test_memory.py", "tests/runtime/consume", "streammetrics/connectors/store.py"],
    ),
    "verdict": Group(
        ["experiments/verdict.py"],
        ["tests/experiments/test_verdict.py", "tests/experiments/test_building_decisions.py", "tests/experiments/test_building.py"],
    ),
    "gate": Group(["experiments/gate.py", "reports/verdict_lines.py"], ["tests/experiments/test_gate.py", "tests/reports"]),
    "statistics": Group(
        ["statistics/sequence.py", "statistics/sample_ratio.py", "statistics/estimates.py"],
        ["tests/statistics/test_sequence.py", "tests/statistics/test_sample_ratio.py", "tests/statistics/test_estimates.py"],
    ),
}
"""The oracle is compared with the engine in tests/engine/test_engine.py, so it judges the join and the tallies, too."""


class Counts(NamedTuple):
    """What came of the changes of a group: how many there were, and the names of those that no test noticed."""

    changes: int
    survivors: list[str]
    differences: str
    """The survivors as differences."""


def mutate(group: Group, jobs: int, sample: int, seed: int) -> Counts:
    """Make `sample` changes of a group, or all, in a copy of the project. Raises ClickException if its tests fail without a change."""
    with TemporaryDirectory(prefix="streammetrics-mutants-") as folder:
        place = Path(folder)
        for name in COPIED:
            _copy(ROOT / name, place / name)
        only, tests = [f"{ROOMS}/{module}" for module in group.modules], list(group.tests)
        of_group = f"only_mutate = {only}\npytest_add_cli_args_test_selection = {tests}\n"
        (place / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text() + SETTINGS + of_group)
        chosen = _sample(place, sample, seed) if sample else []
        ran = _mutmut(place, "run", "--max-children", str(jobs), *chosen)
        results = {name: outcome for name, outcome in _results(place).items() if outcome != "not checked"}
        if not results:
            raise click.ClickException(f"nothing was changed:\n{ran.stdout[-2_000:]}{ran.stderr[-2_000:]}")
        survivors = [name for name, outcome in results.items() if outcome in ("survived", "no tests")]
        return Counts(len(results), survivors, "\n".join(_mutmut(place, "show", name).stdout for name in survivors))


def _sample(place: Path, size: int, seed: int) -> list[str]:
    """Choose some changes by chance. mutmut lists them when it has been asked for one that does not exist."""
    _mutmut(place, "run", "none")
    names = sorted(_results(place))
    return Random(seed).sample(names, min(size, len(names)))


def _results(place: Path) -> dict[str, str]:
    """Return what came of each change, by its name."""
    lines = _mutmut(place, "results", "--all", "true").stdout.split("\n")
    return {name.strip(): outcome for name, _, outcome in (line.partition(": ") for line in lines) if outcome}


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _mutmut(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONHASHSEED": "0", "CI": "1"}
    return subprocess.run([sys.executable, "-m", "mutmut", *words], cwd=place, check=False, capture_output=True, text=True, env=environment)


@click.command(help=__doc__)
@click.argument("groups", nargs=-1, type=click.Choice(list(GROUPS)))
@click.option("--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default=True, help="Processes.")
@click.option("--sample", type=click.IntRange(0), default=0, help="How many changes of each group to make, chosen by chance; 0: all.")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of that choice.")
def main(groups: Sequence[str], jobs: int, sample: int, seed: int) -> None:
    """Print the survivors of each group, and a table. All groups by default."""
    console, table = Console(width=120), Table("modules", "changes", "survivors", "noticed", box=MARKDOWN)
    for name in groups or GROUPS:
        click.echo(f"{name} …", err=True)
        mutant = mutate(GROUPS[name], jobs, sample, seed)
        console.print(mutant.differences, markup=False, highlight=False, soft_wrap=True)
        noticed = 1 - len(mutant.survivors) / mutant.changes
        table.add_row(name, str(mutant.changes), str(len(mutant.survivors)), f"{noticed:.0%}")
    console.print(table)


if __name__ == "__main__":
    main(prog_name="python -m tests.tools.mutants")
