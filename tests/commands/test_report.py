"""`report` as its user runs it: from a replay's report or a pipe, for people, for programs, and as a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streammetrics.simulate import Regression, Traffic, generate
from tests.command_line import called, streammetrics

JOIN = ["--set", "join.gap_ms=600000", "--set", "join.attribution_ms=600000"]
SETTINGS = [*JOIN, "--set", "experiments.paging=ndcg@10", "--set", "experiments.patience_ms=0"]
TRAFFIC = Traffic(users=800, seed=3, impressions_per_second=8, regression=Regression("treatment", 0.7))
"""Twenty minutes, so that there are looks before the end."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    events, report = folder / "events.ndjson", folder / "report.json"
    events.write_bytes(b"".join(sent.value + b"\n" for sent in generate(TRAFFIC, 20_000)))
    done = called("replay", events, "--report", report, "--quiet", *SETTINGS)
    assert (done.returncode, done.stderr) == (0, "")
    return report


def test_a_product_manager_reads_the_verdict_first_and_then_why(saved: Path) -> None:
    done = streammetrics("report", saved)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ranker · since it began · up to 2024-11-21 10:")
    assert lines[1].startswith("REGRESSED  treatment: ")
    assert lines[1].endswith("lower ndcg@10 than control; certain at 95 % however often you look")
    assert "split of users: as it should be" in done.stdout
    measures = [line.split()[0] for line in lines if "treatment" in line and "@" in line][1:]
    assert measures == ["ndcg@10", "mrr@10", "hit_rate@10", "user_hit_rate@10"]
    assert max(map(len, lines)) <= 140


def test_all_measures_are_told_on_request(saved: Path) -> None:
    few, every = (called("report", saved, *words).stdout for words in ((), ("--all",)))
    assert "23 measures more: --all" in few
    assert "more: --all" not in every
    assert every.count("@") > 25


def test_json_is_what_the_report_holds_of_experiments_and_a_pipe_does_as_well(saved: Path) -> None:
    whole = json.loads(saved.read_bytes())
    done = called("report", "-", "--format", "json", stdin=saved.read_bytes())
    told = json.loads(done.stdout)
    assert (told["experiments"], told["history"]) != ([], [])
    assert {each["scope"] for each in told["experiments"]} == {"start", "day"}
    assert sorted(told["experiments"], key=str) == sorted(whole["experiments"], key=str)
    assert told["history"] == whole["history"]


def test_the_page_is_written_whole_with_the_looks_of_the_replay(saved: Path, tmp_path: Path) -> None:
    done = called("report", saved, "--html", tmp_path / "page.html")
    assert done.returncode == 0
    content = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert content.count("<svg") == 4
    (band, *_) = [part.split('"')[0] for part in content.split('class="band" points="')[1:]]
    (start,) = [trail for trail in json.loads(saved.read_bytes())["history"] if trail["scope"] == "start"]
    known = [at for at, look in start["looks"]["kept"] if any(point[1] == "ndcg" and point[3] is not None for point in look[2])]
    assert len(known) > 1
    assert len(band.split()) == 2 * (len(known) + 1)  # and the report itself
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_what_cannot_be_read_or_written_is_said(saved: Path, tmp_path: Path) -> None:
    missing = called("report", tmp_path / "none.json")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "none.json: cannot be read: No such file" in missing.stderr
    broken = called("report", "-", stdin=b"{")
    assert (broken.returncode, "standard input is not JSON" in broken.stderr) == (1, True)
    other = called("report", "-", stdin=b'{"windows":[]}')
    assert (other.returncode, "no report with experiments" in other.stderr) == (1, True)
    unknown = called("report", saved, "--experiment", "rankr")
    assert (unknown.returncode, "no experiment 'rankr'" in unknown.stderr) == (1, True)
    unwritable = called("report", saved, "--html", tmp_path / "no" / "page.html")
    assert (unwritable.returncode, "--html" in unwritable.stderr) == (2, True)


def test_a_store_that_is_away_is_named(tmp_path: Path) -> None:
    done = streammetrics("report", "--set", "redis.url=redis://127.0.0.1:1/0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Redis at 127.0.0.1:1" in done.stderr
