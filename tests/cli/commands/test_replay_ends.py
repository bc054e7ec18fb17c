"""Replays of rollouts that end, or go on with a new step: what is decided stays, and the gate passes only for what runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.command_line import called
from tests.support.visits import HOUR_MS, T0_MS, visit, visits

SHARES = 'experiments.named={"ranker": {"shares": {"control": 1, "treatment": 1}}}'


class Ended(NamedTuple):
    """The report of an experiment since its start, the gate's exit code, its answer and its first line."""

    report: dict[str, Any]
    code: int
    gate: dict[str, Any]
    head: str


def asked(folder: Path, events: Iterable[dict[str, Any]], *words: str) -> Ended:
    log, path = folder / "events.ndjson", folder / "report.json"
    log.write_text("".join(json.dumps(event) + "\n" for event in sorted(events, key=lambda event: event["ts"])))
    done = called("replay", log, "--report", path, "--quiet", *words)
    assert done.returncode == 0, done.stderr
    report = next(experiment for experiment in json.loads(path.read_bytes())["experiments"] if experiment["scope"] == "start")
    answer = called("gate", "ranker", path, "--json")
    return Ended(report, answer.returncode, json.loads(answer.stdout), called("gate", "ranker", path).stdout.splitlines()[0])


def others(hours: range) -> Iterable[dict[str, Any]]:
    """Lists of users outside of the experiment."""
    for number in range(10 * len(hours)):
        yield from visit(f"z{number}", T0_MS + hours.start * HOUR_MS + number * HOUR_MS // 10, None, clicked=number % 10 < 4)


@pytest.mark.parametrize(("clicks", "word", "code", "gate"), [(3, "regressed", 1, "fail"), (6, "improved", 3, "wait")])
def test_an_experiment_that_is_over_keeps_its_verdict_and_its_own_time(
    tmp_path: Path, clicks: int, word: str, code: int, gate: str
) -> None:
    events = [*visits("c", "control", 1_500, range(12), 4), *visits("t", "treatment", 1_500, range(12), clicks), *others(range(60))]
    report = asked(tmp_path, events, "--set", SHARES)
    assert (report.report["verdict"]["word"], report.report["state"]["word"], report.code, report.gate["gate"]) == (
        word,
        "silent",
        code,
        gate,
    )
    last_ms = T0_MS + 12 * HOUR_MS - 12 * HOUR_MS // 1_500
    assert {report.report["last_ms"], report.report["decided_ms"], report.gate["up_to_ms"]} == {last_ms}
    assert [arm["last_ms"] for arm in report.report["variants"]] == [last_ms, last_ms]
    assert "the experiment has had no list since 2026-03-01 11:59 UTC" in report.gate["reason"]
    assert " · up to 2026-03-01 11:59 UTC, " in report.head


def test_a_ranker_that_was_switched_off_stays_decided_while_its_users_get_the_lists_of_the_control(tmp_path: Path) -> None:
    """Later lists would break the split, look like 400 users who moved, and widen the interval: the control's users come back often."""
    ran = [*visits("c", "control", 1_500, range(12), 4), *visits("t", "treatment", 1_500, range(12), 3)]
    before = asked(tmp_path, [*ran, *others(range(14))], "--set", SHARES)
    after = [*visits("t", "control", 400, range(12, 40), 4), *visits("n", "control", 1_000, range(12, 40), 4)]
    after += [event for hours in range(14, 40, 4) for event in visits("c", "control", 1_500, range(hours, hours + 4), 4)]
    report = asked(tmp_path, [*ran, *after], "--set", SHARES)
    assert (report.report["state"]["word"], report.report["verdict"]["word"], report.gate["gate"]) == ("stopped", "regressed", "fail")
    assert report.report["health"]["troubles"] == []
    assert report.report["warnings"] == []
    assert "decided: treatment has had no list since 2026-03-01 11:59 UTC" in report.report["verdict"]["reason"]
    (then,), (now,) = ([arm for arm in replay.report["variants"] if arm["variant"] == "treatment"] for replay in (before, report))
    lifts, lifts_then = (
        {measure["metric"]: measure["lift"] for measure in arm["measures"] if measure["metric"] != "user_hit_rate"} for arm in (now, then)
    )
    assert lifts == pytest.approx(lifts_then)
    assert now["decided_ms"] == then["last_ms"]


def test_lists_after_an_end_that_was_set_too_late_are_counted_in_a_note(tmp_path: Path) -> None:
    events = [*visits("c", "control", 1_500, range(12), 4), *visits("t", "treatment", 1_500, range(12), 6), *others(range(20))]
    named = 'experiments.named={"ranker": {"end": "2026-03-01T08:00:00Z"}}'
    report = asked(tmp_path, events, "--set", named)
    assert (report.report["state"]["word"], report.report["last_ms"] < T0_MS + 8 * HOUR_MS) == ("ended", True)
    assert "the experiment ended at 2026-03-01 08:00 UTC" in report.report["verdict"]["reason"]


def rollout(treated: int, controlled: int, clicks: int) -> list[dict[str, Any]]:
    """Six hours at 5 %, in which the treatment is better; then half an hour at 25 %."""
    first = [*visits("c", "control", 3_800, range(6), 3), *visits("t", "treatment", 200, range(6), 6)]
    step_ms = T0_MS + 6 * HOUR_MS
    for name, variant, users, of_ten in (("d", "control", controlled, 3), ("u", "treatment", treated, clicks)):
        for user in range(users):
            first += visit(f"{name}{user}", step_ms + user * HOUR_MS // 2 // users, variant, clicked=user % 10 < of_ten)
    return first


@pytest.mark.parametrize(("treated", "controlled", "clicks"), [(250, 750, 0), (5, 20, 3)], ids=["broken", "empty"])
def test_a_step_of_half_an_hour_never_passes_on_the_evidence_of_the_step_before(
    tmp_path: Path, treated: int, controlled: int, clicks: int
) -> None:
    events = rollout(treated, controlled, clicks)
    whole = asked(tmp_path, events)
    assert (whole.report["verdict"]["word"], whole.code) == ("improved", 3)
    assert whole.gate["reason"].endswith("a pass needs the time at which the running step of the rollout began: give it as since")
    step = asked(tmp_path, events, "--since", "2026-03-01T06:00Z")
    assert (step.code, step.gate["step_ms"]) == (3, T0_MS + 6 * HOUR_MS)
    assert "in the running step, whose lists count from 2026-03-01 06:00 UTC on," in step.gate["reason"]
    assert asked(tmp_path, events, "--since", "2026-03-01T00:00Z").code == 0
