"""A replay of a log whose shares changed: what it says, everywhere alike, and `--find-stages`, which counts it again with stages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import called

DAY_MS = 86_400_000
T0_MS = 20_512 * DAY_MS
"""2026-02-28 00:00 UTC."""
STAGES = (
    'stages = [ { name = "stage 1", shares = { control = 0.5, treatment = 0.5 } },'
    ' { name = "stage 2", start = 2026-03-01T00:00:00Z, shares = { control = 0.9, treatment = 0.1 } } ]'
)


def arm(name: str, day: int, users: int, clicks: int) -> list[dict[str, Any]]:
    """Users of one variant, who come evenly over a day with a list each. So many of them click on its first item."""
    events: list[dict[str, Any]] = []
    for number in range(users):
        user, ts = f"{name}-{day}-{number}", T0_MS + day * DAY_MS + number * DAY_MS // users
        shown = {
            "type": "impression",
            "impression_id": user,
            "user_id": user,
            "ts": ts,
            "items": ["a", "b"],
            "experiments": {"ranker": name},
        }
        events.append(shown)
        if number * clicks // users != (number + 1) * clicks // users:
            click = {"type": "feedback", "impression_id": user, "user_id": user, "ts": ts + 1, "item_id": "a", "action": "click"}
            events.append(click)
    return events


def half_then_a_tenth() -> list[dict[str, Any]]:
    """On the first day half of the users have the treatment, and half of all click. Later a tenth have it, and a tenth click.

    The treatment is 20 % worse on each day.
    """
    events = [*arm("control", 0, 600, 300), *arm("treatment", 0, 600, 240)]
    for day in range(1, 3):
        events += [*arm("control", day, 1_080, 108), *arm("treatment", day, 120, 10)]
    return sorted(events, key=lambda event: event["ts"])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shares") / "events.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in half_then_a_tenth()))
    return path


@pytest.fixture(scope="module")
def plain(log: Path) -> Path:
    """The report without settings."""
    report = log.parent / "plain.json"
    done = called("replay", log, "--report", report)
    assert "verdict   ranker: inconclusive (treatment: the split of control and treatment changed at about 2026-03-01 00:00" in done.stdout
    return report


def experiments(report: Path) -> dict[str, dict[str, Any]]:
    return {each["scope"]: each for each in json.loads(report.read_bytes())["experiments"]}


def treatment(experiment: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in experiment["variants"] if each["variant"] == "treatment")
    return found


def test_report_gate_and_both_scopes_say_the_same(plain: Path) -> None:
    found = experiments(plain)
    reason = treatment(found["start"])["verdict"]["reason"]
    assert f"set under [experiments.named.ranker]: {STAGES}, and count the log again" in reason
    for each in found.values():
        own = treatment(each)
        assert (own["verdict"]["word"], own["verdict"]["reason"]) == ("inconclusive", reason)
        assert (own["gate"]["word"], own["gate"]["reason"]) == ("wait", reason)
        assert all(measure["lift"] is measure["lift_lower"] is measure["lift_upper"] is None for measure in own["measures"])
    gate, shown = called("gate", "ranker", plain), called("report", plain)
    assert gate.returncode == 3
    assert reason in gate.stdout, "settings are on one line, to be copied"
    assert reason in shown.stdout


def test_the_proposal_is_in_the_report_as_values(plain: Path) -> None:
    assert experiments(plain)["start"]["proposal"] == {
        "start_ms": None,
        "end_ms": None,
        "stages": [
            {"name": "stage 1", "shares": {"control": 0.5, "treatment": 0.5}, "start_ms": None},
            {"name": "stage 2", "shares": {"control": 0.9, "treatment": 0.1}, "start_ms": T0_MS + DAY_MS},
        ],
    }


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_found_stages_give_the_report_of_these_stages(log: Path, jobs: str) -> None:
    found, configured, pasted = (log.parent / f"{name}{jobs}" for name in ("found.json", "configured.json", "pasted.toml"))
    done = called("replay", log, "--find-stages", "--report", found, "--jobs", jobs)
    *_, table, stages = done.stderr.splitlines()
    assert (done.returncode, table, stages) == (0, "[experiments.named.ranker]", STAGES)
    pasted.write_text(f"{table}\n{stages}\n")
    assert called("replay", log, "--config", pasted, "--report", configured, "--quiet").returncode == 0
    assert experiments(found) == experiments(configured)
    measures = treatment(experiments(found)["start"])["measures"]
    lift = next(each["lift"] for each in measures if each["metric"] == "hit_rate")
    weights = 600 * 600 / 1_200, 2_160 * 240 / 2_400
    means = [sum(weight * mean for weight, mean in zip(weights, of_arm, strict=True)) for of_arm in ((0.5, 0.1), (0.4, 20 / 240))]
    assert lift == pytest.approx(means[1] / means[0] - 1, abs=1e-9)


def test_shares_give_way_to_found_stages(log: Path) -> None:
    shares = 'experiments.named={"ranker":{"shares":{"control":1,"treatment":1},"min_users":50}}'
    first = called("replay", log, "--set", shares)
    assert "invalid (users are not split as configured" in first.stdout
    assert "] instead of shares, and count" in first.stdout
    assert "0.8" not in first.stdout
    second = called("replay", log, "--set", shares, "--find-stages")
    assert "invalid" not in second.stdout
    assert second.stderr.splitlines()[-1] == STAGES


def test_an_arm_that_ended_is_counted_up_to_its_end(tmp_path: Path) -> None:
    events = [*arm("control", 0, 600, 300), *arm("treatment", 0, 600, 240), *arm("control", 1, 600, 60)]
    path = tmp_path / "ended.ndjson"
    path.write_text("".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda event: event["ts"])))
    plain = called("replay", path)
    assert "treatment has had no new user since 2026-03-01 00:00 UTC (about 600 were expected)" in plain.stdout
    done = called("replay", path, "--find-stages", "--report", tmp_path / "report.json")
    assert done.stderr.splitlines()[-2:] == ["[experiments.named.ranker]", "end = 2026-03-01T00:00:00Z"]
    control = experiments(tmp_path / "report.json")["start"]["variants"][0]
    assert (control["variant"], control["users"]) == ("control", 600)


def test_without_a_change_there_is_nothing_to_count_again(tmp_path: Path) -> None:
    path = tmp_path / "steady.ndjson"
    events = [*arm("control", 0, 600, 300), *arm("treatment", 0, 600, 240)]
    path.write_text("".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda event: event["ts"])))
    done = called("replay", path, "--find-stages")
    assert done.stderr == "# no share of an arm changed in a way that stages, a start or an end would settle\n"


def test_standard_input_cannot_be_read_twice() -> None:
    done = called("replay", "-", "--find-stages", stdin=b"")
    assert done.returncode == 2
    assert "--find-stages = -: files: they are read twice. Save the standard input to a file first" in done.stderr
