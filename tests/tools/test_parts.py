"""Parts of the suite side by side: all of them run, and what failed is shown at the end."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.tools.parts import Part, run

FIRST = "import sys; print('one'); sys.stdout.flush(); sys.stderr.write('two\\n'); sys.exit(3)"


def part(name: str, code: str) -> Part:
    return Part(name, [sys.executable, "-c", code])


def test_a_part_that_fails_stops_no_other_and_is_shown_again_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    assert run([[part("a", FIRST), part("longer", "print('three')")], [part("b", "print('four')")]]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert sorted(lines[:4]) == ["a      | one", "a      | two", "b      | four", "longer | three"]
    assert lines[4:10] == ["", "a failed. Its last lines:", "", "one", "two", ""]
    assert [line.split()[:2] for line in lines[10:]] == [["a", "FAILED"], ["longer", "passed"], ["b", "passed"]]


def test_parts_of_different_rows_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for a file that the other makes."""
    code = "import pathlib\npathlib.Path({mine!r}).touch()\nwhile not pathlib.Path({other!r}).exists(): pass"
    one, other = (str(tmp_path / name) for name in "ab")
    rows = [[part("a", code.format(mine=one, other=other))], [part("b", code.format(mine=other, other=one))]]
    assert run(rows) == 0
