"""A replay of simulated clicks with a known examination curve: what it prints, and what its report has."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streammetrics.metrics.corrected_dcg import discount_weights
from streammetrics.metrics.examination import examination_curve
from tests.support.click_simulation import SimulatedClicks, simulate
from tests.support.command_line import called

RANKS = 5
KNOWN = 1 / np.sqrt(np.arange(1, RANKS + 1))
START_MS = 1_732_183_200_000
ON = ("--set", "position_bias.enabled=true", "--set", f"position_bias.ranks={RANKS}", "--set", "position_bias.context=query")
SETTINGS = (*ON, "--set", "metrics.cutoffs=3,5", "--set", "join.support_users=1")


def lines_of(simulated: SimulatedClicks) -> list[str]:
    """Each list is one user's, in an experiment with two variants."""
    events = []
    for at, (query, items, clicks) in enumerate(
        zip(simulated.queries.tolist(), simulated.items.tolist(), simulated.clicks.tolist(), strict=True)
    ):
        own = {"user_id": f"u{at}", "ts": START_MS + 100 * at, "impression_id": str(at)}
        variant = "ab"[at % 2]
        names = [f"i{item}" for item in items]
        events.append({"type": "impression", **own, "items": names, "experiments": {"e": variant}, "segments": {"query": f"q{query}"}})
        events += [
            {"type": "feedback", **own, "item_id": item, "action": "click"} for item, done in zip(names, clicks, strict=True) if done
        ]
    return [json.dumps(event) for event in events]


@pytest.fixture(scope="module")
def simulated() -> SimulatedClicks:
    return simulate(3, KNOWN, lists=12_000, queries=20)


@pytest.fixture(scope="module")
def events(simulated: SimulatedClicks, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("events") / "events.ndjson"
    path.write_text("\n".join(lines_of(simulated)) + "\n")
    return path


def replayed(events: Path, report: Path, *options: str) -> tuple[str, dict[str, Any]]:
    done = called("replay", events, "--report", report, *SETTINGS, *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(report.read_text())["position_bias"]
    return done.stdout, found


@pytest.fixture(scope="module")
def found(events: Path) -> tuple[str, dict[str, Any]]:
    return replayed(events, events.with_name("report.json"))


def test_the_report_has_the_curve_of_all_lists(found: tuple[str, dict[str, Any]], simulated: SimulatedClicks) -> None:
    _, bias = found
    curve = examination_curve(*simulated.entries(), ranks_max=RANKS)
    assert (bias["is_estimate"], bias["withheld"], bias["sampled_share"], bias["confidence"]) == (True, None, 1.0, 0.95)
    assert (bias["items"], bias["shared_items"]) == (curve.items, curve.shared_items)
    for row, each in zip(bias["ranks"], curve.ranks, strict=True):
        assert (row["shows"], row["clicks"], row["shared_shows"], row["shared_clicks"]) == (
            each.shows,
            each.clicks,
            each.shared_shows,
            each.shared_clicks,
        )
        assert [row[name] for name in ("examination", "lower", "upper")] == pytest.approx([each.examination, each.lower, each.upper])
    assert [row["examination"] for row in bias["ranks"]] == pytest.approx(KNOWN, rel=0.1)
    assert bias["from_ms"] <= START_MS


def test_corrected_dcg_stands_beside_the_plain_one(found: tuple[str, dict[str, Any]], simulated: SimulatedClicks) -> None:
    _, bias = found
    assert [(each["experiment"], each["variant"], each["lists"]) for each in bias["variants"]] == [("e", "a", 6_000), ("e", "b", 6_000)]
    examination = np.array([row["examination"] for row in bias["ranks"]])
    for at, each in enumerate(bias["variants"]):
        clicks = simulated.clicks[at::2].astype(float)
        for k in (3, 5):
            weights = discount_weights(k)
            assert each["dcg"][f"dcg@{k}"] == pytest.approx(float((clicks[:, :k] @ weights).mean()))
            assert each["corrected_dcg"][f"dcg@{k}"] == pytest.approx(float((clicks[:, :k] @ (weights / examination[:k])).mean()))


def test_the_terminal_says_that_it_is_an_estimate(found: tuple[str, dict[str, Any]]) -> None:
    text, bias = found
    assert "position bias (estimate, 95% band): " in text
    ranks = re.findall(r"rank +(\d+)  ([\d.]+)  ([\d.]+) \.\. ([\d.]+)  [\d,]+ clicks", text)
    assert [int(rank) for rank, *_ in ranks] == list(range(1, RANKS + 1))
    assert all(float(above) >= float(below) for (_, above, _, _), (_, below, _, _) in pairwise(ranks))
    assert f"e a: corrected dcg@5 {bias['variants'][0]['corrected_dcg']['dcg@5']:.4f} (estimate), plain " in text


def test_shards_give_the_same_integers(found: tuple[str, dict[str, Any]], events: Path, tmp_path: Path) -> None:
    assert replayed(events, tmp_path / "report.json", "--jobs", "2")[1] == found[1]


def test_beyond_the_limit_a_sample_of_items_is_counted(events: Path, tmp_path: Path) -> None:
    text, bias = replayed(events, tmp_path / "report.json", "--set", "position_bias.items_max=100")
    assert bias["items"] == 100
    assert 0.2 < bias["sampled_share"] < 0.8
    assert "a sample of " in text


def test_it_is_off_by_default(events: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = called("replay", events, "--report", report, *SETTINGS[len(ON) :])
    assert (done.returncode, json.loads(report.read_text())["position_bias"]) == (0, None)
    assert "position bias" not in done.stdout


def test_lists_that_show_items_at_one_rank_only_have_no_estimate_and_say_why(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    shown = {"type": "impression", "items": ["a", "b"], "experiments": {"e": "a"}}
    path.write_text(
        "".join(json.dumps({**shown, "impression_id": str(at), "user_id": f"u{at}", "ts": START_MS + at}) + "\n" for at in range(9))
    )
    text, bias = replayed(path, tmp_path / "report.json")
    reason = "no item shown at several ranks links this rank to rank 1"
    assert [row["why_not"] for row in bias["ranks"]] == [reason, reason, *["nothing was shown at this rank"] * 3]
    assert bias["variants"][0]["corrected_dcg"] == {}
    assert f"ranks    1 to 2  no estimate: {reason}" in text


def test_it_needs_experiments(events: Path) -> None:
    done = called("replay", events, *SETTINGS, "--set", "experiments.enabled=false")
    assert done.returncode == 2
    assert "position_bias.enabled" in done.stderr
    assert "needs experiments.enabled" in done.stderr
