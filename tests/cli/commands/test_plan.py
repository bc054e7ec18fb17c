"""Tests of `plan`: from assumptions, and from a report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streammetrics.connectors.simulated import Traffic, generate
from tests.support.command_line import called, streammetrics

SETTINGS = ["--set", "join.gap_ms=600000", "--set", "join.attribution_ms=600000", "--set", "experiments.patience_ms=0"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plan")
    events, report = folder / "events.ndjson", folder / "report.json"
    traffic = Traffic(users=900, seed=5, impressions_per_second=3)
    events.write_bytes(b"".join(sent.value + b"\n" for sent in generate(traffic, None, traffic.start_ms + 2_400_000)))
    done = called("replay", events, "--report", report, "--quiet", *SETTINGS)
    assert (done.returncode, done.stderr) == (0, "")
    return report


def planned(*words: str | Path) -> Any:
    done = called("plan", *words, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_assumptions_give_users_days_and_a_plot() -> None:
    done = streammetrics("plan", "--variation", "0.85", "--users-per-day", "20000", environ={"PYTHONIOENCODING": "utf-8"})
    assert (done.returncode, done.stderr) == (0, "")
    for words in (
        "regressed   0 %      -10.0 %",
        "regressed   1 %      -10.0 %",
        "days until the verdict, 10 % to 90 % of experiments",
        "█",
        "day 14",
        "a drop of",
    ):
        assert words in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 140


def test_an_encoding_without_blocks_has_no_plot() -> None:
    done = streammetrics("plan", "--variation", "0.85", environ={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "until the verdict, 10 %" not in done.stdout
    assert "regressed" in done.stdout


def test_json_has_the_same_plan() -> None:
    (plan_document,) = planned("--variation", "0.85", "--users-per-day", "1000", "--margin", "0.05", "--lift", "-0.1", "--lift", "0")
    assert plan_document["assumptions"]["margin"] == 0.05
    plain, drop, _ = plan_document["plans"]
    assert [(plan["verdict"], plan["margin"]) for plan in plan_document["plans"]] == [
        ("regressed", 0.0),
        ("regressed", 0.05),
        ("safe", 0.05),
    ]
    assert plain["users"]["p50"] < drop["users"]["p50"]
    assert 1_000 * drop["days"]["p50"] == pytest.approx(drop["users"]["p50"])
    assert drop["users"]["p10"] < drop["users"]["p50"] < drop["users"]["p80"] < drop["users"]["p90"]
    assert [effect["days"] for effect in plan_document["detectable"]] == [1, 2, 7, 14, 28]
    drops = [effect["drop"] for effect in plan_document["detectable"]]
    assert drops == sorted(drops)
    assert drops[-1] < -0.05


def test_a_small_share_and_several_treatments_need_more_users() -> None:
    (plain,), (small,), (several,) = (
        planned("--variation", "0.85", "--lift", "-0.1", *words) for words in ((), ("--share", "0.05"), ("--treatments", "4"))
    )
    users = plain["plans"][0]["users"]["p50"]
    assert small["plans"][0]["users"]["p50"] > 4 * users
    assert several["plans"][0]["users"]["p50"] > users


def test_a_report_gives_variance_rate_and_what_is_still_needed(saved: Path) -> None:
    (plan,) = planned(saved)
    report = json.loads(saved.read_text())
    (whole,) = (experiment for experiment in report["experiments"] if experiment["scope"] == "start")
    control, treatment = whole["variants"]
    lift_measure = next(measure for measure in control["measures"] if measure["paging"])
    assert plan["metric"] == f"{lift_measure['metric']}@{lift_measure['k']}"
    assert plan["assumptions"]["variation"] == pytest.approx(lift_measure["error"] * control["users"] ** 0.5 / lift_measure["mean"])
    assert plan["assumptions"]["users_per_day"] > 0
    assert treatment["verdict"]["word"] == "inconclusive"
    assert treatment["needed"]
    assert plan["needed"] == [{"variant": "treatment", **needed_users} for needed_users in treatment["needed"]]
    assert all(
        needed_users["hours"] == pytest.approx(24 * needed_users["users"] / plan["assumptions"]["users_per_day"])
        for needed_users in treatment["needed"]
    )
    text = called("plan", saved).stdout
    assert "treatment needs about" in text
    assert "A new experiment" in text
    assert "treatment needs about" in called("report", saved).stdout


def test_the_rate_of_new_users_is_that_of_the_time_whose_lists_count(tmp_path: Path) -> None:
    """An hour with a new user every three seconds. The lists of its second half do not count: their feedback may be missing."""
    lines = []
    for number in range(1_200):
        event = {"user_id": f"u{number}", "impression_id": f"r{number}", "ts": 1_700_000_000_000 + 3_000 * number}
        arms = {"ranker": ("control", "treatment")[number % 2]}
        lines.append({**event, "type": "impression", "items": ["a", "b"], "experiments": arms})
        lines.append({**event, "type": "feedback", "item_id": "ab"[number // 2 % 2], "action": "click"})
    events, report = tmp_path / "events.ndjson", tmp_path / "report.json"
    events.write_text("\n".join(map(json.dumps, lines)))
    assert called("replay", events, "--report", report, "--quiet").returncode == 0
    (plan,) = planned(report)
    # A snapshot may have some users who came after its time.
    assert plan["assumptions"]["users_per_day"] == pytest.approx(86_400 / 3, rel=0.02)


def test_another_measure_can_be_planned_for(saved: Path) -> None:
    (plan,) = planned(saved, "--metric", "mrr@10")
    assert plan["metric"] == "mrr@10"
    done = called("plan", saved, "--metric", "mrr@9")
    assert done.returncode == 2
    assert "--metric" in done.stderr
    assert "mrr@10" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("report.json", "--variation", "0.85"), "either a report or --variation"),
        (("--variation", "0"), "--variation"),
        (("--variation", "0.85", "--share", "1"), "--share"),
        (("--variation", "0.85", "--alpha", "1.5"), "--alpha"),
    ],
)
def test_wrong_usage_is_explained(words: tuple[str, ...], message: str) -> None:
    done = called("plan", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_report_without_experiments_points_to_assumptions(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    empty.write_text('{"experiments": []}')
    done = called("plan", empty)
    assert done.returncode == 1
    assert "use --variation and --users-per-day" in done.stderr
