"""A replay of lists without labels and of exposures gives the numbers of the same lists with labels."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streammetrics.connectors.simulated import Ramp, Regression, Traffic, Variant, generate
from tests.support.command_line import called, environment
from tests.support.paths import ROOT
from tests.support.replays import write as write_records

T0_MS = 1_700_000_000_000
DAY_MS = 86_400_000
MINUTE_MS = 60_000
VISITS = Traffic(users=900, seed=1, impressions_per_second=4, items_per_list=8)
THREE = (Variant("a", 0.3), Variant("b", 0.3), Variant("c", 0.2, 0.8))
CONFIG = """
[exposures]
enabled = true
experiments = ["ranker"]
[events.reader]
flags = "opentelemetry"
"""


def traffic(users: int = 300) -> list[dict[str, Any]]:
    """Lists of users who stay in their variant, each with a label, and some clicks."""
    chance, events = random.Random(8), list[dict[str, Any]]()
    for user in range(users):
        variant = chance.choice(("control", "treatment"))
        for number in range(chance.randint(1, 4)):
            ts = T0_MS + chance.randrange(6 * 3_600_000)
            impression = {"type": "impression", "impression_id": f"{user}-{number}", "user_id": f"u{user}", "ts": ts, "items": list("abc")}
            events.append(impression | {"experiments": {"ranker": variant}})
            if chance.random() < 0.6:
                click = {"type": "feedback", "impression_id": f"{user}-{number}", "user_id": f"u{user}", "ts": ts + 900}
                events.append(click | {"item_id": chance.choice("abc"), "action": "click"})
    return sorted(events, key=lambda event: event["ts"])


def without_label(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "experiments"}


def evaluation(user: str, ts: int, flag: str, variant: str) -> dict[str, Any]:
    """Return the evaluation of a flag as a log record in OTLP JSON."""
    attributes = {"feature_flag.key": flag, "feature_flag.result.variant": variant, "feature_flag.context.id": user}
    return {
        "timeUnixNano": str(ts * 1_000_000),
        "eventName": "feature_flag.evaluation",
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()],
    }


def requests(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return export requests with the evaluations of all lists, three seconds before each list, and with those of another flag."""
    bodies = []
    for event in events:
        for variant in event.get("experiments", {}).values():
            logs = [evaluation(event["user_id"], event["ts"] - 3_000, flag, variant) for flag in ("checkout", "ranker")]
            bodies.append({"resourceLogs": [{"scopeLogs": [{"logRecords": [*logs, {"body": {"stringValue": "a log line"}}]}]}]})
    return bodies


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def replayed(folder: Path, *args: object) -> tuple[dict[str, Any], str]:
    report = folder / "report.json"
    done = called("replay", *args, "--report", report)
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_bytes()), done.stdout


def users(experiment: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(variant["variant"], variant["users"], variant["first_list_users"]) for variant in experiment["variants"]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_exposures_give_the_same_numbers_as_labels(tmp_path: Path, jobs: int) -> None:
    events = traffic()
    (tmp_path / "config.toml").write_text(CONFIG)
    labelled = write(tmp_path / "labelled.ndjson", events)
    lists = write(tmp_path / "lists.ndjson", [without_label(event) for event in events])
    flags = write(tmp_path / "flags.ndjson", requests(events))
    wanted, _ = replayed(tmp_path, labelled)
    replay_report, text = replayed(tmp_path, "--config", tmp_path / "config.toml", lists, flags, "--jobs", jobs)
    assert replay_report["totals"] == wanted["totals"]
    (mine,) = (experiment for experiment in replay_report["experiments"] if experiment["scope"] == "start")
    (theirs,) = (experiment for experiment in wanted["experiments"] if experiment["scope"] == "start")
    assert users(mine) == users(theirs)
    of_start = [next(one["looks"]["kept"] for one in report["history"] if one["scope"] == "start") for report in (replay_report, wanted)]
    assert min(map(len, of_start)) > 40
    assert min(looks[-1][1][1] for looks in of_start) > 250
    exposed_lists = sum(event["type"] == "impression" for event in events)
    assert replay_report["counters"]["list_exposed"] == replay_report["counters"]["exposure"] == exposed_lists
    assert replay_report["counters"]["ignored"] == 2 * exposed_lists
    assert f"exposures {exposed_lists:,}; 0 % of {exposed_lists:,} lists have no variant" in text


@pytest.mark.parametrize(
    "traffic",
    [
        replace(VISITS, regression=Regression("treatment", 0.6, 20 * MINUTE_MS), ramps=(Ramp(0.8, 20 * MINUTE_MS),)),
        replace(VISITS, interleaved=True),
        replace(VISITS, variants=THREE, duplicate_rate=0.05, malformed_rate=0.02, feedback_without_id_rate=0.1),
    ],
)
def test_simulated_exposures_give_the_experiments_and_the_history_of_labels(tmp_path: Path, traffic: Traffic) -> None:
    """Bit for bit, except what exposures add."""
    reports = []
    for name, exposures, setting in (("labels", False, "false"), ("exposures", True, "true")):
        records = generate(replace(traffic, exposures=exposures), until_ms=traffic.start_ms + 50 * MINUTE_MS)
        path = write_records(tmp_path / f"{name}.ndjson", records)
        report, _ = replayed(tmp_path, path, "--set", f"exposures.enabled={setting}")
        for experiment in report["experiments"]:
            experiment["known_from_ms"] = experiment["from_ms"] = None  # an experiment begins with its first exposure
            exposed = {variant["variant"]: variant.pop("exposed_users") for variant in experiment["variants"]}
            assert all(exposed[variant["variant"]] > variant["first_list_users"] for variant in experiment["variants"]) == (
                name == "exposures"
            )
        reports.append({key: report[key] for key in ("experiments", "history", "explanations", "totals", "users_open")})
    assert reports[0] == reports[1]
    assert len(reports[0]["history"][0]["looks"]["kept"]) > 10


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    page = (ROOT / "streammetrics" / "experiments" / "exposures.md").read_text(encoding="utf-8")
    walk = page.partition("## Try it")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(sh|)\n(.*?)^```$", walk, re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in blocks] == ["sh", ""] * 2
    around = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "160"}
    for (_, commands), (_, output) in zip(blocks[::2], blocks[1::2], strict=True):
        shell = ["bash", "-eo", "pipefail", "-c", commands]
        done = subprocess.run(shell, cwd=tmp_path, env=environment(around), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        printed = {line.rstrip() for line in done.stdout.splitlines()}
        assert {line for line in output.splitlines() if line not in printed} == set(), done.stdout


def test_a_late_exposure_is_refused_and_its_lists_have_no_variant(tmp_path: Path) -> None:
    traffic = Traffic(seed=1, impressions_per_second=4, exposures=True, late_rate=0.1)
    path = write_records(tmp_path / "events.ndjson", generate(traffic, until_ms=traffic.start_ms + 20 * MINUTE_MS))
    events = [json.loads(line) for line in path.read_text().splitlines()]
    report, _ = replayed(tmp_path, path, "--set", "exposures.enabled=true", "--order", "log")
    counts = report["counters"]
    assert counts["exposure"] < sum(event["type"] == "exposure" for event in events)
    assert 0 < counts["list_unexposed"] < 0.2 * counts["list_exposed"]


def test_lists_of_users_without_exposures_are_counted(tmp_path: Path) -> None:
    impression = {"type": "impression", "impression_id": "r", "user_id": "u", "ts": T0_MS, "items": ["a"]}
    exposure = {"type": "exposure", "user_id": "u", "ts": T0_MS - DAY_MS, "experiment": "ranker", "variant": "new"}
    others = [impression | {"user_id": "v"}, impression | {"user_id": "u", "ts": T0_MS + 1, "impression_id": "too late for it"}]
    path = write(tmp_path / "events.ndjson", [exposure, impression, *others])
    report, text = replayed(tmp_path, path, "--set", "exposures.enabled=true")
    assert "exposures 1; 66.7 % of 3 lists have no variant" in text
    (variant,) = (total for total in report["totals"] if total["variant"])
    assert (variant["experiment"], variant["variant"], variant["lists"]) == ("ranker", "new", 1)


def test_the_split_is_checked_on_exposures_even_if_few_users_see_a_list(tmp_path: Path) -> None:
    """Here 55 % of the users are given the treatment. Those who see a list are split evenly."""
    config = tmp_path / "config.toml"
    config.write_text("[exposures]\nenabled = true\n[experiments.named.ranker]\nshares = { control = 1, treatment = 1 }\n")
    events: list[dict[str, Any]] = []
    for user in range(4_000):
        variant, ts = "treatment" if user % 20 < 11 else "control", T0_MS + user * 1_000
        events.append({"type": "exposure", "user_id": f"u{user}", "ts": ts, "experiment": "ranker", "variant": variant})
        if user % 20 in (0, 11):
            events.append({"type": "impression", "impression_id": "r", "user_id": f"u{user}", "ts": ts + 5, "items": ["a"]})
    for user in range(20):  # the lists before have had all their time for feedback
        events.append({"type": "impression", "impression_id": "r", "user_id": f"later{user}", "ts": ts + 7_200_000 + user, "items": ["a"]})
    report, text = replayed(tmp_path, "--config", config, write(tmp_path / "events.ndjson", events))
    assert "INVALID" in text.upper()
    (whole,) = (experiment for experiment in report["experiments"] if experiment["scope"] == "start")
    assert {variant["variant"]: (variant["exposed_users"], variant["users"]) for variant in whole["variants"]} == {
        "control": (1_800, 200),
        "treatment": (2_200, 200),
    }
    assert "users are not split as configured (control 1,800, treatment 2,200" in " ".join(whole["health"]["troubles"])
