"""What bends a verdict stands beside it in each channel: the treatment's users have twice as many lists, half of them without a click."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import streammetrics
from tests.support.command_line import called

HOUR_MS = 3_600_000
T0_MS = 1_772_323_200_000
TOLD = "treatment has 4 lists per user and control 2, 100 % more"


def visit(user: str, ts: int, arm: str = "", *, clicked: bool = False) -> Iterator[dict[str, Any]]:
    impression = {"type": "impression", "impression_id": f"{user}-{ts}", "user_id": user, "ts": ts, "items": ["a", "b"]}
    yield impression | ({"experiments": {"ranker": arm}} if arm else {})
    if clicked:
        yield {"type": "feedback", "impression_id": f"{user}-{ts}", "user_id": user, "item_id": "a", "action": "click", "ts": ts + 30_000}


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What `replay` prints, and its report."""
    folder = tmp_path_factory.mktemp("warned")
    log, report = folder / "events.ndjson", folder / "report.json"
    events = []
    for arm, lists in (("control", 2), ("treatment", 4)):
        for user in range(600):
            for at in range(lists):
                ts = T0_MS + user * 8 * HOUR_MS // 600 + at * 1_800_000
                events += visit(f"{arm}{user}", ts, arm, clicked=user % 10 < 4 and at % 2 == 0)
    events += [event for user in range(30) for event in visit(f"later{user}", T0_MS + 16 * HOUR_MS)]
    log.write_text("".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda event: event["ts"])))
    done = called("replay", log, "--report", report)
    assert done.returncode == 0, done.stderr
    return done.stdout, report


def test_replay_prints_it_below_the_verdict(replayed: tuple[str, Path]) -> None:
    lines = [" ".join(line.split()) for line in replayed[0].splitlines()]
    verdict = next(at for at, line in enumerate(lines) if line.startswith("verdict ranker: "))
    assert f"warning: {TOLD}" in " ".join(lines[verdict : verdict + 4])


def test_report_and_gate_print_it(replayed: tuple[str, Path]) -> None:
    for command in (("report", replayed[1]), ("gate", "ranker", replayed[1])):
        assert f"warning: {TOLD}" in " ".join(called(*command).stdout.split())


def test_the_gate_answers_with_it_for_the_treatment_that_was_asked_for(replayed: tuple[str, Path]) -> None:
    answer = json.loads(called("gate", "ranker", replayed[1], "--variant", "treatment", "--json").stdout)
    assert answer["warnings"][0].startswith(TOLD)
    assert [[warning["key"] for warning in line["warnings"]] for line in answer["treatments"]] == [["lists per user"]]


def test_the_summary_of_a_job_has_it(replayed: tuple[str, Path], tmp_path: Path) -> None:
    called("gate", "ranker", replayed[1], "--summary", tmp_path / "summary.md")
    assert f"Warning: {TOLD}" in (tmp_path / "summary.md").read_text()


def test_a_notebook_shows_it_with_the_verdict(replayed: tuple[str, Path]) -> None:
    tables = streammetrics.read_report(replayed[1])
    assert f"; {TOLD}" in repr(tables).splitlines()[0]
