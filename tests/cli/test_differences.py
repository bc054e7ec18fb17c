"""Tests of `differences`: real replays of simulated events with another lateness, an input less, other grades, and the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streammetrics.connectors.simulated import Traffic, generate
from tests.support.command_line import called
from tests.support.committed_state import served
from tests.support.gates import shown_views

SHORT = ["--set", "join.gap_ms=120000", "--set", "join.attribution_ms=120000"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events with late ones, as one file and by type, and replays of them."""
    folder = tmp_path_factory.mktemp("differences")
    traffic = Traffic(users=60, seed=3, impressions_per_second=2, late_rate=0.03, late_ms=200_000)
    lines = [sent.value + b"\n" for sent in generate(traffic, None, traffic.start_ms + 600_000)]
    shown = [line for line in lines if json.loads(line)["type"] == "impression"]
    for name, written in (("events", lines), ("shown", shown), ("answers", [line for line in lines if line not in shown])):
        (folder / f"{name}.ndjson").write_bytes(b"".join(written))
    replayed(folder, "base", "events")
    replayed(folder, "same", "events", panes="parquet")
    replayed(folder, "patient", "events", "--set", "join.lateness_ms=400000")
    replayed(folder, "graded", "events", "--set", "join.grades=purchase=3, watch>=30=2, click=2, skip=0")
    replayed(folder, "both", "shown", folder / "answers.ndjson")
    replayed(folder, "alone", "shown")
    replayed(folder, "running", "events", "--no-flush")
    return folder


def replayed(folder: Path, name: str, events: str, *words: str | Path, panes: str = "ndjson") -> None:
    outputs = ["--report", folder / f"{name}.json", "--panes", folder / f"{name}.panes.{panes}", "--quiet"]
    done = called("replay", folder / f"{events}.ndjson", *words, *outputs, *SHORT)
    has_feedback = name != "alone"
    assert (done.returncode, "has feedback" in done.stderr, done.stderr == "") == (0, not has_feedback, has_feedback)


def panes_of(folder: Path, online: str, offline: str) -> list[str | Path]:
    (ours,), (theirs,) = folder.glob(f"{online}.panes.*"), folder.glob(f"{offline}.panes.*")
    return ["--online-panes", ours, "--offline-panes", theirs]


def outcome(folder: Path, online: str, offline: str, *, panes: bool = True) -> tuple[int, Any]:
    words = panes_of(folder, online, offline) if panes else []
    done = called("differences", folder / f"{online}.json", folder / f"{offline}.json", *words, "--json")
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def shown(folder: Path, online: str, offline: str) -> str:
    return called("differences", folder / f"{online}.json", folder / f"{offline}.json", *panes_of(folder, online, offline)).stdout


def all_traffic(found: Any, place: str = "panes") -> Any:
    (group,) = [each for each in found["groups"] if each["place"] == place and not each["experiment"] and not each["segments"]]
    return group


def final_lists(path: Path) -> int:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sum(line["lists"] for line in lines if line["view"] == "final" and not line["experiment"] and not line["segments"])


def test_equal_replays_are_equal_and_say_what_was_compared(folder: Path) -> None:
    code, found = outcome(folder, "base", "same")
    assert (code, found["equal"], found["groups"], found["counters"], found["settings"]) == (0, True, [], [], [])
    assert {"totals", "counters", "experiments since their start"} <= set(found["compared"])
    text = shown(folder, "base", "same")
    assert text.startswith("EQUAL  all numbers that were compared are equal\n")
    assert "final panes of the common span" in text


def test_another_lateness_is_explained_by_the_counter_of_late_events(folder: Path) -> None:
    code, found = outcome(folder, "base", "patient")
    assert code == 1
    assert {each["name"] for each in found["settings"]} == {"lateness_ms"}
    reports = [json.loads((folder / f"{name}.json").read_text()) for name in ("base", "patient")]
    late = [one["counters"].get("late", 0) for one in reports]
    lists = [final_lists(folder / f"{name}.panes.ndjson") for name in ("base", "patient")]
    assert late[0] > late[1] == 0
    assert lists[1] > lists[0]
    group = all_traffic(found)
    assert group["numbers"][0] == {"name": "lists", "online": lists[0], "offline": lists[1]}
    assert group["offline_more"] - group["offline_fewer"] == lists[1] - lists[0]
    assert group["unexplained"] is None
    sentence = f"up to {late[0]} lists, because online counted {late[0]} events more as late"
    assert group["explained"][0] == sentence
    assert any(each.startswith(f"late, online {late[0]}, offline 0: ") for each in group["explained"])  # late feedback of other panes
    text = shown(folder, "base", "patient")
    for words in ("DIFFERENT  ", "lateness_ms: online 60000, offline 400000", f"explained: {sentence}", f"offline {lists[1]:,} (+"):
        assert words in text


def test_an_input_less_is_named(folder: Path) -> None:
    code, found = outcome(folder, "both", "alone", panes=False)
    answers = len((folder / "answers.ndjson").read_text().splitlines())
    assert (code, found["inputs"]) == (1, [{"name": str(folder / "answers.ndjson"), "online": answers, "offline": 0}])
    group = all_traffic(found, "totals")
    assert group["unexplained"] is None
    assert any(sentence.startswith("matched, online ") for sentence in group["explained"])
    assert "panes: give those of both sides" in found["left_out"][0]
    assert f"answers.ndjson: {answers:,} records online, 0 offline" in shown(folder, "both", "alone")


def test_other_grades_explain_other_values(folder: Path) -> None:
    code, found = outcome(folder, "base", "graded")
    assert (code, [each["name"] for each in found["settings"]], found["counters"]) == (1, ["grades"], [])
    group = all_traffic(found)
    names = {number["name"] for number in group["numbers"]}
    assert "ndcg@10" in names
    assert not names & {"lists", "lists_with_feedback", "hit_rate@10"}
    assert (group["explained"], group["unexplained"]) == (["grades differs; reports do not count how much that changes"], None)


def test_a_running_system_is_compared_over_the_common_span(folder: Path) -> None:
    code, found = outcome(folder, "running", "base")
    assert (code, found["groups"], found["counters_cover_the_span"]) == (0, [], False)
    assert found["offline"]["only_here"] > 0 == found["online"]["only_here"]
    done = called("differences", folder / "running.json", folder / "base.json")
    assert done.returncode == 2
    assert done.stdout.startswith("NOT COMPARED")


def test_a_changed_pane_is_unexplained(folder: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (folder / "base.panes.ndjson").read_text().splitlines()]
    lines[0]["lists"] += 3
    changed = tmp_path / "changed.ndjson"
    changed.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["--online-panes", folder / "base.panes.ndjson", "--offline-panes", changed]
    done = called("differences", folder / "base.json", folder / "same.json", *words)
    assert done.returncode == 1
    assert "unexplained: 3 lists, first in the pane at 2024-" in done.stdout


def test_an_exporter_can_be_online(tmp_path: Path) -> None:
    with served(shown_views()) as url:
        from urllib.request import urlopen  # noqa: PLC0415

        with urlopen(f"{url}/api/report") as answer:
            (tmp_path / "saved.json").write_bytes(answer.read())
        for given in (url, f"{url}/api/report"):
            done = called("differences", given, tmp_path / "saved.json", "--json")
            assert done.stderr == ""
            assert json.loads(done.stdout)["groups"] == []
            assert done.returncode == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["base.json", "base.json"], "ONLINE and OFFLINE are the same"),
        (["base.json", "none.json"], "cannot be read: No such file"),
        (["base.json", "base.panes.ndjson"], "is not a report"),
        (["base.json", "same.json", "--online-panes", "base.panes.ndjson"], "give --online-panes and --offline-panes together"),
        (["base.json", "same.json", "--online-panes", "events.ndjson", "--offline-panes", "base.panes.ndjson"], "line 1 is not a pane"),
        (["base.json", "same.json", "--online-panes", "none", "--offline-panes", "base.panes.ndjson"], "--online-panes"),
        (["http://127.0.0.1:1", "same.json"], "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_compared_is_wrong_usage(folder: Path, words: list[str], message: str) -> None:
    done = called("differences", *(word if word.startswith(("--", "http")) else folder / word for word in words))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
