"""`make stack`, `make stack-regress` and `make stack-down` as their user runs them: it serves, it changes, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import streammetrics
from tests.support.paths import ROOT
from tests.tools.servers.process import wait_until
from tests.tools.servers.stack import JOB


class Made:
    """One stack of the command line, whose temporary directories are all in one place."""

    def __init__(self, directory: Path) -> None:
        self.home, self.temporary = directory / "home", directory / "tmp"
        self.temporary.mkdir()

    def __call__(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.tools.servers.stack_command", command, str(self.home)],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(self.temporary)},
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def keeper(self) -> int:
        return int((self.home / "pid").read_text(encoding="utf-8"))

    @property
    def addresses(self) -> dict[str, str]:
        return dict(json.loads((self.home / "addresses.json").read_text(encoding="utf-8")))

    def processes(self) -> set[int]:
        """The keeper and all that it started, by the temporary directory that each was given or lives in."""
        return {int(path.name) for path in Path("/proc").glob("[0-9]*") if self._belongs(path)}

    def _belongs(self, process: Path) -> bool:
        try:
            given = f"TMPDIR={self.temporary}".encode() in (process / "environ").read_bytes().split(b"\0")  # Redis writes over its own
            return given or (process / "cwd").readlink().is_relative_to(self.temporary)
        except OSError:  # gone, a kernel's, or another user's
            return False


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    made = Made(tmp_path)
    yield made
    made("down")


def test_the_stack_serves_pages_for_a_regression_and_leaves_nothing_behind(made: Made) -> None:
    up = made("up")
    assert up.returncode == 0, up.stdout + up.stderr
    assert set(made.addresses.values()) <= set(up.stdout.split())
    with urllib.request.urlopen(f"{made.addresses['Prometheus'].removesuffix('/alerts')}/api/v1/rules", timeout=10) as answer:
        assert len(json.load(answer)["data"]["groups"]) == 2
    again = made("up")
    assert (again.returncode, again.stdout.splitlines()[0]) == (0, "The stack is already running.")

    def ndcg(variant: str) -> float:
        query = f"{made.addresses['Prometheus'].removesuffix('/alerts')}/api/v1/query?query=streammetrics_live_ndcg"
        with urllib.request.urlopen(f'{query}{{job="{JOB}",variant="{variant}",window="10s",segments=""}}', timeout=10) as answer:
            (sample,) = json.load(answer)["data"]["result"]
        return float(sample["value"][1])

    configuration = made.home / "streammetrics.toml"
    for command in ("doctor", "report"):
        done = streammetrics(command, "--config", configuration)
        assert (done.returncode, done.stderr) == (0, "")

    regress = made("regress")
    assert (regress.returncode, regress.stderr) == (0, "")
    assert "page   firing   StreammetricsRankingRegressed: treatment of ranker ranks worse than control" in regress.stdout
    lasting = "since (the experiment began|midnight UTC)"  # just after midnight UTC the day's verdict comes first
    assert re.search(rf"^ +ndcg@10 {lasting}: -[\d.]+ % against control, certainly worse by", regress.stdout, re.MULTILINE)
    assert ndcg("treatment") < 0.7 * ndcg("control")
    said = streammetrics("doctor", "--config", configuration).stdout
    assert re.search(r"  warn  experiment ranker is running\. Its verdict is regressed: .*\n        fix: first keep the numbers", said), (
        said
    )
    assert "treatment ranks with 40% of its quality" in made("up").stdout
    assert len(made.processes()) >= 9
    down = made("down")
    assert (down.returncode, down.stdout) == (0, "The stack has stopped.\n")
    wait_until(lambda: not made.processes(), what="every process is gone")
    assert not made.home.exists()
    assert not list(made.temporary.iterdir())


def test_a_killed_keeper_leaves_nothing_behind(made: Made) -> None:
    assert made("up").returncode == 0
    os.kill(made.keeper, signal.SIGKILL)
    wait_until(lambda: not made.processes() and not list(made.temporary.iterdir()), what="no process and no directory is left")
    assert made("regress").returncode == 1
    assert made("down").returncode == 0
    assert not made.home.exists()


def test_without_a_stack_regress_fails_and_down_does_nothing(made: Made) -> None:
    regress = made("regress")
    assert (regress.returncode, regress.stderr) == (1, "error: no stack is running; start one with `make stack`\n")
    assert made("down").stdout == "No stack is running.\n"
