"""A replay of a rollout: by start, by label, and list by list. The report and its text say which stage runs now."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import called

T0_MS = 1_700_000_000_000
HALF_MS = 3 * 3_600_000
CONFIG = """
[experiments.named.ramp]
stages = [
  { shares = { control = 19, treatment = 1 }, name = "5 %" },
  { start = 2023-11-15T01:13:20Z, shares = { control = 1, treatment = 1 }, name = "half" },
]
[experiments.named.labelled]
stage_label = "rollout"
stages = [
  { name = "first", shares = { control = 19, treatment = 1 } },
  { name = "second", shares = { control = 1, treatment = 1 } },
]
[experiments.named.mesh]
unit = "list"
shares = { control = 1, treatment = 1 }
"""


def rollout(users: int = 1_500) -> bytes:
    """Users who come back for six hours. After three, the treatment's share grows from 5 % to half, and all clicks become rarer."""
    chance, lines = random.Random(5), list[tuple[int, dict[str, Any]]]()
    for user in range(users):
        place, taste = chance.random(), chance.betavariate(2, 3)
        for number in range(chance.randint(1, 6)):
            at = int(chance.random() * 2 * HALF_MS)
            is_late = at >= HALF_MS
            arm = "treatment" if place < (0.5 if is_late else 0.05) else "control"
            variants = {"ramp": arm, "labelled": arm, "mesh": chance.choice(["control", "treatment"])}
            shown = {
                "type": "impression",
                "impression_id": f"{user}-{number}",
                "user_id": f"u{user}",
                "ts": T0_MS + at,
                "items": list("abc"),
            }
            segments = {"rollout": "second" if is_late else "first"} if number % 7 else {}
            lines.append((at, shown | {"experiments": variants, "segments": segments}))
            if chance.random() < taste * (0.6 if arm == "treatment" else 1) * (0.5 if is_late else 1):
                click = {"type": "feedback", "impression_id": f"{user}-{number}", "user_id": f"u{user}", "ts": T0_MS + at + 1}
                lines.append((at + 1, click | {"item_id": chance.choice("abc"), "action": "click"}))
    lines.sort(key=lambda line: line[0])
    return "".join(json.dumps(event) + "\n" for _, event in lines).encode()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rollout")
    (folder / "config.toml").write_text(CONFIG)
    (folder / "events.ndjson").write_bytes(rollout())
    done = called("replay", folder / "events.ndjson", "--config", folder / "config.toml", "--report", folder / "report.json", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "report.json"


def test_effects_are_estimated_within_stages(report: Path) -> None:
    found = {each["experiment"]: each for each in json.loads(report.read_bytes())["experiments"] if each["scope"] == "start"}
    for name in ("ramp", "labelled"):
        assert found[name]["verdict"]["word"] == "regressed"
        assert [stage["current"] for stage in found[name]["stages"]] == [False, True]
        assert all(stage["sample_ratio_p"] > 0.01 for stage in found[name]["stages"])
        (ndcg,) = [each for each in found[name]["variants"][1]["measures"] if (each["metric"], each["k"]) == ("ndcg", 10)]
        assert -0.5 < ndcg["lift"] < -0.3  # the true lift is -40 %
    assert [stage["stage"] for stage in found["ramp"]["stages"]] == ["5 %", "half"]
    assert found["ramp"]["stages"][1]["start_ms"] == T0_MS + HALF_MS
    assert found["ramp"]["multi_exposed_users"] == 0
    assert (found["mesh"]["unit"], found["mesh"]["stages"], found["mesh"]["health"]["troubles"]) == ("list", [], [])
    assert found["mesh"]["verdict"]["word"] in ("inconclusive", "safe")


def test_lists_without_a_stage_label_are_counted(report: Path) -> None:
    counters = json.loads(report.read_bytes())["counters"]
    lists = sum(json.loads(line)["type"] == "impression" and not json.loads(line)["segments"] for line in rollout().splitlines())
    assert counters["experiment_lists_unstaged"] == lists > 100


def test_the_text_shows_every_stage_and_which_one_runs_now(report: Path) -> None:
    text = called("report", report, environ={"COLUMNS": "200"}).stdout
    assert "stage 2 of 2 runs now: half, since 2023-11-15 01:13 UTC" in text
    assert "stage 2 of 2 runs now: second" in text
    assert "split of users within each stage: as configured" in text
    assert "split of lists: as configured" in text
    assert re.search(r"5 % +treatment +5\.0 % +\d+ +\d+ +\d+\.\d %", text)
    assert re.search(r"half +treatment +50\.0 % +\d+ .* runs now", text)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "stages = [{ start = 2030-01-01T00:00:00Z, shares = { control = 1, treatment = 1 } }]",
            "Compare the stages' starts with the times",
        ),
        (
            'stage_label = "ramp"\nstages = [{ name = "half", shares = { control = 1, treatment = 1 } }]',
            "names with the lists' values of the segment ramp",
        ),
    ],
)
def test_an_experiment_without_a_list_in_its_stages_is_explained(tmp_path: Path, settings: str, sentence: str) -> None:
    (tmp_path / "config.toml").write_text(f"[experiments.named.ramp]\n{settings}\n")
    (tmp_path / "events.ndjson").write_bytes(rollout(30))
    report = tmp_path / "report.json"
    done = called("replay", tmp_path / "events.ndjson", "--config", tmp_path / "config.toml", "--report", report)
    assert "No final list of experiment ramp is in one of its stages" in done.stderr
    assert sentence in done.stderr
    gate = called("gate", "ramp", report, environ={"COLUMNS": "300"})
    assert (gate.returncode, sentence in gate.stdout) == (3, True)


def test_settings_of_a_misspelt_experiment_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[experiments.named.rmap]\nshares = { control = 1, treatment = 1 }\n")
    (tmp_path / "events.ndjson").write_bytes(rollout(30))
    done = called("replay", tmp_path / "events.ndjson", "--config", tmp_path / "config.toml")
    assert " lists is in experiment rmap, which has settings. Experiments of lists without settings: labelled, mesh, ramp." in done.stderr
