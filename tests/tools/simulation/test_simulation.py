"""Many schedules of the simulation, each of which must keep every law. `make simulate` runs more of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from tests.support.paths import ROOT
from tests.tools.simulation.coverage import NAMES
from tests.tools.simulation.fate import CALLS_MAX, Fate
from tests.tools.simulation.schedule import FAULTS, schedule_of
from tests.tools.simulation.search import quiet_logs, run

PARTS = 3
SEEDS = 1_000
"""Schedules of each part: about 45 seconds of CPU time."""
HANGS_AFTER_SECONDS = 1_800
"""On a machine that does much else, a part takes more than the five minutes of other tests. A run that never ends fails by itself."""


@pytest.mark.timeout(HANGS_AFTER_SECONDS)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_keeps_every_law(part: int) -> None:
    """In a process of its own, where the order of sets is fixed: so the printed line repeats a failure."""
    args = ["--first", str(part * SEEDS), "--seeds", str(SEEDS), "--jobs", "1"]
    done = subprocess.run([sys.executable, "-m", "tests.tools.simulation", *args], check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("seed", [3, 8])
def test_a_seed_always_gives_the_same_run(seed: int) -> None:
    quiet_logs()
    assert run(schedule_of(seed)) == run(schedule_of(seed))


def test_a_run_that_never_ends_fails() -> None:
    fate = Fate(FAULTS)
    fate.is_calm = True
    for _ in range(CALLS_MAX):
        fate.may_die()
    with pytest.raises(AssertionError, match="no end after 100,000 calls"):
        fate.may_die()


def test_some_schedules_together_cover_every_fault() -> None:
    quiet_logs()
    seen: Counter[str] = Counter()
    for seed in range(400):
        seen.update(run(schedule_of(seed)).seen)
        if all(seen[name] for name in NAMES):
            return
    pytest.fail(f"never seen: {[name for name in NAMES if not seen[name]]}")
