"""A replay of lists without labels and of exposures gives the numbers of the same lists with labels."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import called

T0_MS = 1_700_000_000_000
DAY_MS = 86_400_000
CONFIG = """
[exposures]
enabled = true
experiments = ["ranker"]
[events.topics.flags]
format = "otel"
envelope = "otlp"
"""


def traffic(users: int = 300) -> list[dict[str, Any]]:
    """Lists of users who stay in their variant, each with a label, and some clicks."""
    chance, events = random.Random(8), list[dict[str, Any]]()
    for user in range(users):
        variant = chance.choice(("control", "treatment"))
        for number in range(chance.randint(1, 4)):
            ts = T0_MS + chance.randrange(6 * 3_600_000)
            shown = {"type": "impression", "impression_id": f"{user}-{number}", "user_id": f"u{user}", "ts": ts, "items": list("abc")}
            events.append(shown | {"experiments": {"ranker": variant}})
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
    found = []
    for event in events:
        for variant in event.get("experiments", {}).values():
            logs = [evaluation(event["user_id"], event["ts"] - 3_000, flag, variant) for flag in ("checkout", "ranker")]
            found.append({"resourceLogs": [{"scopeLogs": [{"logRecords": [*logs, {"body": {"stringValue": "a log line"}}]}]}]})
    return found


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def replayed(folder: Path, *args: object) -> tuple[dict[str, Any], str]:
    report = folder / "report.json"
    done = called("replay", *args, "--report", report)
    assert done.returncode == 0, done.stderr
    return json.loads(report.read_bytes()), done.stdout


def users(experiment: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(each["variant"], each["users"], each["first_exposures"]) for each in experiment["variants"]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_exposures_give_the_same_numbers_as_labels(tmp_path: Path, jobs: int) -> None:
    events = traffic()
    (tmp_path / "config.toml").write_text(CONFIG)
    labelled = write(tmp_path / "labelled.ndjson", events)
    lists = write(tmp_path / "lists.ndjson", [without_label(event) for event in events])
    flags = write(tmp_path / "flags.ndjson", requests(events))
    wanted, _ = replayed(tmp_path, labelled)
    found, text = replayed(tmp_path, "--config", tmp_path / "config.toml", lists, flags, "--jobs", jobs)
    assert found["totals"] == wanted["totals"]
    (mine,) = (each for each in found["experiments"] if each["scope"] == "start")
    (theirs,) = (each for each in wanted["experiments"] if each["scope"] == "start")
    assert users(mine) == users(theirs)
    shown = sum(event["type"] == "impression" for event in events)
    assert found["counters"]["list_exposed"] == found["counters"]["exposure"] == shown
    assert found["counters"]["ignored"] == 2 * shown
    assert f"exposures {shown:,}; 0.0 % of {shown:,} lists have no variant" in text


def test_lists_of_users_without_exposures_are_counted(tmp_path: Path) -> None:
    shown = {"type": "impression", "impression_id": "r", "user_id": "u", "ts": T0_MS, "items": ["a"]}
    exposure = {"type": "exposure", "user_id": "u", "ts": T0_MS - DAY_MS, "experiment": "ranker", "variant": "new"}
    others = [shown | {"user_id": "v"}, shown | {"user_id": "u", "ts": T0_MS + 1, "impression_id": "too late for it"}]
    path = write(tmp_path / "events.ndjson", [exposure, shown, *others])
    found, text = replayed(tmp_path, path, "--set", "exposures.enabled=true")
    assert "exposures 1; 66.7 % of 3 lists have no variant" in text
    (variant,) = (each for each in found["totals"] if each["variant"])
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
    found, text = replayed(tmp_path, "--config", config, write(tmp_path / "events.ndjson", events))
    assert "INVALID" in text.upper()
    (whole,) = (each for each in found["experiments"] if each["scope"] == "start")
    assert {each["variant"]: (each["exposed_users"], each["users"]) for each in whole["variants"]} == {
        "control": (1_800, 200),
        "treatment": (2_200, 200),
    }
    assert "users are not split as configured (control 1,800, treatment 2,200" in " ".join(whole["health"]["troubles"])
