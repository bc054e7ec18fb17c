"""Replays of files in which the arms are not alike, although no ranker is better: no verdict, and the gate does not pass."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.command_line import called
from tests.support.visits import HOUR_MS, T0_MS, visit, visits

ARMS = "control", "treatment"


class Answers(NamedTuple):
    """What a report says about a treatment, with the warnings by key, its lift, the word of the gate, and notes."""

    verdict: str
    reason: str
    warnings: dict[str, str]
    lift: float | None
    gate: str
    notes: str


def answers(folder: Path, events: Iterable[dict[str, Any]], *settings: str) -> Answers:
    """Replay events, and lists of other users 90 minutes later, so that all lists before them count. Ask the gate for the whole time."""
    ordered, log, path = sorted(events, key=lambda event: event["ts"]), folder / "events.ndjson", folder / "report.json"
    later = (visit(f"later{number}", ordered[-1]["ts"] + 90 * 60_000, None, clicked=False) for number in range(30))
    log.write_text("".join(json.dumps(event) + "\n" for event in chain(ordered, *later)))
    done = called(
        "replay",
        log,
        "--report",
        path,
        "--quiet",
        "--since",
        "2026-03-01T00:00Z",
        *(word for setting in settings for word in ("--set", setting)),
    )
    assert done.returncode == 0, done.stderr
    whole = json.loads(path.read_bytes())
    report = next(experiment for experiment in whole["experiments"] if experiment["scope"] == "start")
    lifts = [measure["lift"] for arm in report["variants"] if arm["variant"] == "treatment" for measure in arm["measures"]]
    gate = json.loads(called("gate", "ranker", path, "--json").stdout)["gate"]
    warnings = {warning["key"]: warning["text"] for warning in report["warnings"]}
    return Answers(report["verdict"]["word"], report["verdict"]["reason"], warnings, lifts[0], gate, "; ".join(report["health"]["notes"]))


def test_without_a_fault_the_same_clicks_give_a_verdict(tmp_path: Path) -> None:
    better = [*visits("c", "control", 1_000, range(10), 2), *visits("t", "treatment", 1_000, range(10), 4)]
    answer = answers(tmp_path, better)
    assert (answer.verdict, answer.gate) == ("improved", "pass")
    assert answer.warnings == {"one list per user": "Each of the 2,000 users of experiment ranker has exactly one list"}


def test_exposures_that_come_after_the_first_list_of_one_arm(tmp_path: Path) -> None:
    """The first lists of the control have no variant, so a third of its users have no list. First lists are clicked more often."""
    events = list[dict[str, Any]]()
    for arm, delay_ms in zip(ARMS, (1_000, -1_000), strict=True):
        for number in range(900):
            user, ts = f"{arm}{number}", T0_MS + number * 8 * HOUR_MS // 900
            events.append({"type": "exposure", "user_id": user, "ts": ts + delay_ms, "experiment": "ranker", "variant": arm})
            events += visit(user, ts, None, clicked=number % 10 < 6)
            if number % 3:
                events += visit(user, ts + 600_000, None, clicked=number % 10 < 1)
    answer = answers(tmp_path, events, "exposures.enabled=true")
    assert (answer.verdict, answer.gate, answer.lift) == ("inconclusive", "wait", None)
    assert "0 of 900 exposed users of treatment have no list, and 300 of 900 of control" in answer.reason


def test_reactions_of_one_arm_that_match_no_list(tmp_path: Path) -> None:
    """Half of the treatment's clicks have the id of a list that was never sent, so it seems to have half of the clicks."""
    events = [*visits("c", "control", 1_000, range(10), 4), *visits("t", "treatment", 1_000, range(10), 4)]
    clicks = [event for event in events if event["type"] == "feedback" and event["user_id"][0] == "t"]
    for lost in clicks[::2]:
        lost["impression_id"] = "of-another-page"
    answer = answers(tmp_path, events)
    assert (answer.verdict, answer.gate, answer.lift) == ("inconclusive", "wait", None)
    assert "200 of 400 users who react in treatment do so without a list, and 0 of 400 in control" in answer.reason


def test_users_of_one_arm_who_get_lists_of_the_other(tmp_path: Path) -> None:
    """The treatment times out for users who do not click, and they get the control's lists. All would be well without them."""
    events = [*visits("c", "control", 900, range(10), 5), *visits("t", "treatment", 100, range(10), 5)]
    for number in range(20):
        ts = T0_MS + number * 8 * HOUR_MS // 20
        events += visit(f"x{number}", ts, "treatment", clicked=False)
        events += visit(f"x{number}", ts + 40_000, "control", clicked=False)
    answer = answers(tmp_path, events)
    assert (answer.verdict, answer.gate, answer.lift) == ("inconclusive", "wait", None)
    assert "20 users went from treatment to control, and 0 from control to treatment. If treatment got less traffic" in answer.reason
    assert answer.warnings["losses"] == answer.reason.removeprefix("treatment: ")
    meant = answers(tmp_path, events, 'experiments.named={"ranker": {"unit": "list"}}')
    assert meant.lift is not None
    assert "went from" not in meant.reason


def stepped(percents: Sequence[int]) -> list[dict[str, Any]]:
    """Return a ramp: 1,000 users come in each step of five hours. Those with a hash below the share get the treatment, which
    2 of 10 click and 4 of 10 of the control.
    """
    return [
        event
        for step, percent in enumerate(percents)
        for number in range(1_000)
        for arm in [ARMS[number * 37 % 100 < percent]]
        for event in visit(
            f"user{number}", T0_MS + step * 5 * HOUR_MS + number * 5 * HOUR_MS // 1_000, arm, clicked=number // 100 < (4, 2)[arm == ARMS[1]]
        )
    ]


def test_users_whom_a_step_of_a_rollout_gives_the_treatment_are_no_loss(tmp_path: Path) -> None:
    answer = answers(tmp_path, stepped([10, 50]))
    assert answer.verdict == "regressed"
    assert answer.warnings == {}


def test_users_who_came_with_a_step_of_a_rollout_have_fewer_lists_for_no_other_reason(tmp_path: Path) -> None:
    """Users come evenly and see a list every two hours. From 7:20 on half of the new ones get the treatment, and one of ten before."""
    events = [
        event
        for number in range(900)
        for arm in [ARMS[number * 37 % 100 < (50 if number >= 471 else 10)]]
        for seen in range(7)
        if (ts := T0_MS + number * 14 * HOUR_MS // 900 + seen * 2 * HOUR_MS) < T0_MS + 14 * HOUR_MS
        for event in visit(f"user{number}", ts, arm, clicked=(number + seen) % 10 < 4)
    ]
    assert answers(tmp_path, events).warnings == {}


def off_and_on(label: str | None) -> list[dict[str, Any]]:
    """Return three visits of 1,000 users, who come every five hours, 4 of 10 with a click. From 4:20 to 8:20 the lists of the treatment
    have another label.
    """
    events = list[dict[str, Any]]()
    for number in range(3_000):
        ts, user = T0_MS + number * 15 * HOUR_MS // 3_000, number % 1_000
        arm = ARMS[user % 2]
        is_off = arm == ARMS[1] and 13 * HOUR_MS <= 3 * (ts - T0_MS) < 25 * HOUR_MS
        events += visit(f"user{user}", ts, label if is_off else arm, clicked=user // 2 % 10 < (4, 1)[arm == ARMS[1] and not is_off])
    return events


def test_users_who_had_the_control_while_the_treatment_was_off_are_no_loss(tmp_path: Path) -> None:
    answer = answers(tmp_path, off_and_on("control"))
    assert "losses" not in answer.warnings
    assert (answer.verdict, answer.gate) == ("regressed", "fail")
    assert answer.warnings["silent arm"].startswith("treatment had no list from 2026-03-01 05:00 UTC to 2026-03-01 08:00 UTC")


def test_users_of_an_arm_that_was_off_have_fewer_lists_for_no_other_reason(tmp_path: Path) -> None:
    assert {*answers(tmp_path, off_and_on(None)).warnings} == {"silent arm"}


def test_an_arm_whose_users_all_came_with_another_arm_is_a_treatment(tmp_path: Path) -> None:
    """1,000 users of either arm come back after eight hours. Then a third of the treatment's users get a ranker that nobody clicks."""
    events = [*visits("c", "control", 1_000, range(8), 4), *visits("t", "treatment", 1_000, range(8), 4)]
    events += visits("c", "control", 1_000, range(8, 16), 4)
    for number in range(1_000):
        arm = "third" if number % 3 == 0 else "treatment"
        events += visit(f"t{number}", T0_MS + 8 * HOUR_MS + number * 8 * HOUR_MS // 1_000, arm, clicked=arm != "third" and number % 10 < 4)
    answer = answers(tmp_path, events)
    assert (answer.verdict, answer.gate) == ("regressed", "fail")
    assert answer.reason.startswith("third: ")


def test_users_with_two_devices_are_in_both_arms(tmp_path: Path) -> None:
    events = [*visits("c", "control", 500, range(10), 4), *visits("t", "treatment", 500, range(10), 4)]
    for number in range(40):
        for visited in range(2):
            events += visit(f"x{number}", T0_MS + number * 600_000 + visited * 60_000, ARMS[(number + visited) % 2], clicked=False)
    answer = answers(tmp_path, events)
    assert answer.warnings["users in both arms"].startswith("3.8 % of the users have lists of both treatment and control: all count in")
    assert "losses" not in answer.warnings


def test_users_whom_a_step_back_takes_the_treatment_look_like_a_loss(tmp_path: Path) -> None:
    """400 users move in five hours. Those of the last hour do not count yet."""
    answer = answers(tmp_path, stepped([50, 10]))
    assert (answer.verdict, answer.gate, answer.lift) == ("inconclusive", "wait", None)
    assert "320 users went from treatment to control, and 0 from control to treatment" in answer.warnings["losses"]
    start = "start = 2026-03-01T06:00:00Z"
    assert (
        f"If treatment got less traffic from some time on, replay the log and set under [experiments.named.ranker]: {start}"
        in answer.reason
    )
    since = answers(tmp_path, stepped([50, 20]), 'experiments.named={"ranker": {"start": "2026-03-01T06:00:00Z"}}')
    assert "losses" not in since.warnings


def test_a_country_with_shares_of_its_own(tmp_path: Path) -> None:
    """Half of the users of the US are in the treatment and 5 % of all others. Clicks differ by country and not by arm."""
    arms = {"US": (400, 400), "DE": (1_900, 100)}
    events = [
        event
        for country, users in arms.items()
        for arm, count in zip(ARMS, users, strict=True)
        for event in visits(f"{country}{arm}", arm, count, range(10), 6 if country == "US" else 2, country)
    ]
    answer = answers(tmp_path, events, "windows.segments=country")
    assert (answer.verdict, answer.gate, answer.lift) == ("inconclusive", "wait", None)
    assert "treatment has 5 % of the new users with country=DE and 50 % of all others" in answer.reason
    assert 'set under [experiments.named.ranker]: strata = "country"' in answer.reason
    assert answers(tmp_path, events, 'experiments.named={"ranker": {"strata": "country"}}').lift == 0
    of_us = [event for event in events if event["user_id"].startswith("US")]
    assert answers(tmp_path, of_us, "windows.segments=country").lift == 0


def test_an_hour_with_the_control_only(tmp_path: Path) -> None:
    """A promotion before the treatment starts: nine of ten users click, and two of ten from then on, in both arms."""
    events = list(visits("p", "control", 300, range(1), 9))
    for arm in ARMS:
        events += visits(arm, arm, 1_000, range(1, 11), 2)
    answer = answers(tmp_path, events)
    assert (answer.verdict, answer.gate, answer.lift) == ("inconclusive", "wait", 0.0)
    assert (
        "treatment had no list from 2026-03-01 00:00 UTC to 2026-03-01 01:00 UTC, while the other arm had 300 lists"
        in answer.warnings["silent arm"]
    )


def test_an_outage_of_one_arm_in_front_of_users_who_came_before(tmp_path: Path) -> None:
    """Users click on their first list of all. The treatment logs nothing for four hours, and then its old users look new."""
    events = list[dict[str, Any]]()
    for arm in ARMS:
        for number in range(800):
            first = T0_MS + number * 9 * HOUR_MS // 800
            for visited in range(3):
                ts = first + visited * 2 * HOUR_MS
                if arm == "control" or not 1 <= (ts - T0_MS) // HOUR_MS < 5:
                    events += visit(f"{arm}{number}", ts, arm, clicked=number % 10 < (2 if visited else 8))
    answer = answers(tmp_path, events)
    assert (answer.verdict, answer.gate) == ("inconclusive", "wait")
    assert "treatment had no list from 2026-03-01 01:00 UTC to 2026-03-01 05:00 UTC" in answer.warnings["silent arm"]


def test_a_run_that_began_again_after_a_pause_has_only_its_lists_and_says_so(tmp_path: Path) -> None:
    """The first run under the name ended after a day without lists. Its treatment was better; that of the second one is not."""
    first = [*visits("c", "control", 1_000, range(10), 2), *visits("t", "treatment", 1_000, range(10), 4)]
    pause = list(visits("p", "control", 40, range(10, 60), 2))
    for event in pause:
        event.pop("experiments", None)
    again = [*visits("d", "control", 1_000, range(60, 70), 2), *visits("u", "treatment", 1_000, range(60, 70), 2)]
    answer = answers(tmp_path, [*first, *pause, *again], "experiments.idle_days=1")
    assert (answer.verdict, answer.lift) == ("inconclusive", 0.0)
    assert "an earlier run under this name is not in these numbers: its last list was at 2026-03-01 09:5" in answer.notes
    assert "and this run began at 2026-03-03 12:00" in answer.notes


def test_an_effect_that_lasts_for_a_day(tmp_path: Path) -> None:
    """On the first day 4 of 10 users click in the treatment and 2 in the control; on the next four days 2 and 3."""
    days = [(600, 2, 4)] + [(300, 3, 2)] * 4
    events = [
        event
        for day, (users, *clicks) in enumerate(days)
        for arm, clicked in zip(ARMS, clicks, strict=True)
        for event in visits(f"{arm}{day}-", arm, users, range(24 * day, 24 * day + 24), clicked)
    ]
    answer = answers(tmp_path, events)
    assert (answer.verdict, answer.gate) == ("inconclusive", "wait")
    change = "the effect has changed: 100 % higher before 2026-03-02 00:00 UTC, 33.3 % lower since"
    assert change in answer.reason
    assert change in answer.warnings["effect changed"]
    report = next(
        experiment for experiment in json.loads((tmp_path / "report.json").read_bytes())["experiments"] if experiment["scope"] == "start"
    )
    measure = next(arm for arm in report["variants"] if arm["variant"] == "treatment")["measures"][0]
    assert [round(day["lift"], 3) for day in measure["days"]] == [1.0] + [-0.333] * 4
    assert [(day["lists"], day["new_users"], day["control_new_users"]) for day in measure["days"]] == [(600, 600, 600)] + [(300,) * 3] * 4
    assert [day["from_ms"] for day in measure["days"]] == [T0_MS + day * 24 * HOUR_MS for day in range(5)]
    assert measure["change"]["at_ms"] == measure["change"]["since"]["from_ms"] == measure["days"][1]["from_ms"]
    steady = [event for event in events if not event["user_id"].startswith(tuple(f"{arm}0-" for arm in ARMS))]
    alone = answers(tmp_path, steady)
    assert (alone.verdict, alone.gate, "effect changed" in alone.warnings) == ("regressed", "fail", False)
