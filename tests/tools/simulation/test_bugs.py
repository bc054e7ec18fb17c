"""The known bugs can be made. `make simulate-bugs` shows that each is found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.tools.simulation.bugs import PATCHES


def test_there_are_ten_bugs_or_more() -> None:
    assert len(PATCHES) >= 10


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_patch_applies(patch: Path) -> None:
    done = subprocess.run(["git", "apply", "--check", str(patch)], check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stderr}make the same bug in the code of today, and write its patch again"
