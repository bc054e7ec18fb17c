"""The path of the gate over a real connection: decisions, errors, and everything that must keep it from passing."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any

import pytest

from streammetrics.connectors.source import Input
from streammetrics.experiments import ExperimentReport
from streammetrics.exporters.http.answers import STALE_MS, HttpAnswers
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import START_MS, Now, served
from tests.support.gates import MINUTE_MS, failing, gate_answers, passing, report_at


def ask(answers: HttpAnswers, path: str) -> tuple[int, Any]:
    with served(answers) as base:
        try:
            with urllib.request.urlopen(f"{base}/api/gate/{path}", timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)


def shown(*, age_ms: int = 0, **options: Any) -> HttpAnswers:
    answers = gate_answers(START_MS, **options)
    answers.show(report_at(START_MS, age_ms=age_ms))
    return answers


@pytest.mark.parametrize(("name", "gate"), [("good", "pass"), ("bad", "fail"), ("young", "wait")])
def test_each_experiment_has_its_decision(name: str, gate: str) -> None:
    status, answer = ask(shown(), name)
    assert (status, answer["gate"], answer["experiment"], answer["stale"]) == (200, gate, name, [])


def test_a_treatment_and_a_scope_can_be_named() -> None:
    assert ask(shown(), "good?variant=treatment&scope=start")[1]["variant"] == "treatment"
    assert ask(shown(), "good?scope=day")[0] == 404


def test_the_begin_of_the_running_step_can_be_said() -> None:
    asked: list[tuple[str, str, int]] = []

    def since(name: str, scope: str, since_ms: int) -> ExperimentReport:
        asked.append((name, scope, since_ms))
        return replace(failing("good"), step_ms=since_ms)

    answers = gate_answers(START_MS)
    answers.show(replace(report_at(START_MS), since=since))
    document = ask(answers, "good?since=2024-11-21T11:00:00%2B01:00")[1]
    assert asked == [("good", "start", 1_732_183_200_000)]
    assert (document["gate"], document["step_ms"]) == ("fail", 1_732_183_200_000)
    assert ask(answers, "good")[1]["gate"] == "pass"
    ask(answers, "good?since=40m")
    assert asked[1] == ("good", "start", START_MS - 40 * MINUTE_MS)
    for wrong in ("noon", "2024-11-21T11:00"):
        status, answer = ask(answers, f"good?since={wrong}")
        assert (status, answer["error"]) == (
            400,
            f"since: got {wrong!r}; a time has a date and a zone, such as 2026-02-01T09:00:00Z; a span ago is such as 40m",
        )


@pytest.mark.parametrize("path", ["good?scope=week", "good?treatment=a"])
def test_a_wrong_parameter_is_refused(path: str) -> None:
    status, answer = ask(shown(), path)
    assert (status, "allowed are" in answer["error"]) == (400, True)


@pytest.mark.parametrize("path", ["rank", "good?variant=none"])
def test_an_unknown_name_is_404_with_those_that_there_are(path: str) -> None:
    status, answer = ask(shown(), path)
    assert status == 404
    assert ("bad, good, young" in answer["error"]) or ("treatments: treatment" in answer["error"])


def test_a_name_may_have_any_characters() -> None:
    answers = gate_answers(START_MS)
    answers.show(report_at(START_MS, passing("ranker v7/β")))
    assert ask(answers, "ranker%20v7/%CE%B2")[1]["gate"] == "pass"
    assert ask(answers, "ranker%20v7%2F%CE%B2")[1]["gate"] == "pass"


def test_without_a_report_there_is_no_answer() -> None:
    assert ask(gate_answers(START_MS), "good")[0] == 503


def test_old_event_time_never_passes() -> None:
    status, answer = ask(shown(age_ms=10 * MINUTE_MS), "good")
    assert (status, answer["gate"]) == (200, "wait")
    assert "the watermark is 10 min behind the clock" in answer["reason"]


def test_a_report_that_was_read_long_ago_never_passes_and_says_why() -> None:
    clock, status = Now(), ProcessStatus()
    answers = shown(status=status, clock=clock)
    clock.seconds += STALE_MS / 1_000
    assert ask(answers, "good")[1]["gate"] == "pass"
    clock.seconds += 1
    status.publish_trouble = Trouble(clock.seconds - 60, 4, "Redis at cache:6379 is gone")
    document = ask(answers, "good")[1]
    assert document["gate"] == "wait"
    assert document["reason"].startswith("the committed state was last read 2 min ago: Redis at cache:6379 is gone (for 60 s, 4 tries)")
    assert ask(answers, "bad")[1]["gate"] == "fail"


def test_a_worker_that_is_behind_never_passes() -> None:
    status = ProcessStatus(lag_seconds={Input("impressions", 0): STALE_MS / 1_000 + 1})
    assert "this worker is 2 min behind its inputs" in ask(shown(status=status), "good")[1]["reason"]
    assert ask(shown(status=status, loop=False), "good")[1]["gate"] == "pass"


def test_tasks_without_a_commit_leave_no_experiment_and_say_so() -> None:
    answers = gate_answers(START_MS)
    report = report_at(START_MS, failing())
    answers.show(type(report)(**{**{name: getattr(report, name) for name in report.__slots__}, "tasks": 5, "experiments": ()}))
    status, answer = ask(answers, "bad")
    assert status == 404
    assert "1 of 5 tasks have committed anything" in answer["error"]
