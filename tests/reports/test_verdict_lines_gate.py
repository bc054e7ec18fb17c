"""The answer of the gate: its decision, its numbers, and that a stale report never passes."""

from __future__ import annotations

import re
from dataclasses import replace

import msgspec
import pytest

from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from streammetrics.reports.outlook import with_outlook
from streammetrics.reports.verdict_lines import GateAnswer, UnknownExperimentError, answer_gate, find_experiment
from tests.support.experiment_samples import experiment
from tests.support.gates import failing, passing, waiting


def answer(report: ExperimentReport, variant: str | None = None, *stale: str) -> GateAnswer:
    return answer_gate(report, variant, stale=stale, up_to_ms=5, answered_ms=9)


def test_an_answer_has_the_decision_and_the_numbers_behind_it() -> None:
    answer_lines = answer(failing())
    assert (answer_lines.gate, answer_lines.verdict.word, answer_lines.control, answer_lines.control_users, answer_lines.users) == (
        "fail",
        "regressed",
        "control",
        2_000,
        4_000,
    )
    (treatment,) = answer_lines.treatments
    assert (treatment.variant, treatment.gate, treatment.verdict, treatment.users) == ("treatment", "fail", "regressed", 2_000)
    assert (treatment.metric, treatment.k, treatment.up_to_ms) == ("ndcg", 10, 5)
    assert treatment.lift is not None
    assert treatment.lift < -0.1
    assert answer_lines.reason == f"treatment: {treatment.gate_reason}"
    assert (answer_lines.needed, answer_lines.stale, answer_lines.up_to_ms, answer_lines.answered_ms) == (None, (), 5, 9)


def test_a_pass_says_what_is_certain() -> None:
    answer_lines = answer(passing())
    assert answer_lines.gate == "pass"
    assert "at most 5 % worse than control in ndcg@10" in answer_lines.reason


def test_a_wait_for_users_says_how_many_are_missing() -> None:
    answer_lines = answer(waiting())
    assert (answer_lines.gate, answer_lines.needed) == ("wait", "at least 5 more users in treatment")


def test_a_wait_for_certainty_says_what_a_pass_needs() -> None:
    (planned,) = with_outlook([experiment({"control": 0.5, "treatment": 0.5}, users=500)], History())
    answer_lines = answer(planned)
    assert answer_lines.gate == "wait"
    assert answer_lines.needed is not None
    assert re.fullmatch(r"about [\d,]+ more users \([\d,]+ to [\d,]+\) to pass, if there is no difference", answer_lines.needed)


def test_a_stale_report_never_passes_and_a_failure_stays_one() -> None:
    old = answer(passing(), None, "the data is old")
    assert (old.gate, old.stale) == ("wait", ("the data is old",))
    assert [treatment.gate for treatment in old.treatments] == ["wait"]
    assert old.reason.startswith("the data is old; the last numbers: treatment: at most 5 % worse")
    bad = answer(failing(), None, "the data is old")
    assert (bad.gate, bad.reason) == ("fail", f"{answer(failing()).reason}; the data is old")
    assert answer(waiting(), None, "the data is old").needed is None
    both = answer(experiment({"control": 0.5, "same": 0.5, "worse": 0.4}, users=9_000), None, "the data is old")
    assert (both.gate, {treatment.variant: treatment.gate for treatment in both.treatments}) == ("fail", {"same": "wait", "worse": "fail"})


def test_one_treatment_can_be_asked_for() -> None:
    report = experiment({"control": 0.5, "same": 0.5, "worse": 0.4}, users=9_000)
    assert answer(report).gate == "fail"
    assert [answer(report, name).gate for name in ("same", "worse")] == ["pass", "fail"]
    assert [treatment.variant for treatment in answer(report, "same").treatments] == ["same"]


@pytest.mark.parametrize(("name", "role"), [("none", "no treatment"), ("control", "the control")])
def test_an_unknown_treatment_is_an_error_with_those_that_there_are(name: str, role: str) -> None:
    with pytest.raises(UnknownExperimentError, match=rf"'{name}' is {role} of experiment 'good'; treatments: treatment"):
        answer(passing(), name)


def test_an_unknown_treatment_of_an_invalid_experiment_is_an_error_too() -> None:
    """Its own variants get the answer of the whole experiment."""
    invalid = experiment({"control": 0.5, "treatment": 0.5}, users={"control": 2_000, "treatment": 3_000})
    assert invalid.verdict.word == "invalid"
    assert [answer(invalid, name).gate for name in ("control", "treatment")] == [answer(invalid).gate] * 2
    with pytest.raises(UnknownExperimentError, match="'none' is no treatment of experiment 'ranker'"):
        answer(invalid, "none")


def test_an_unknown_experiment_is_an_error_with_those_that_were_seen() -> None:
    with pytest.raises(UnknownExperimentError, match=r"no experiment 'rank' has final lists yet; experiments with final lists: bad, good"):
        find_experiment([passing(), failing()], "rank")
    with pytest.raises(UnknownExperimentError, match=r"experiments with final lists: none; the data is old"):
        find_experiment([], "rank", stale=["the data is old"])
    with pytest.raises(UnknownExperimentError, match=r"experiments with final lists: none; No list has a label; Most events are late$"):
        find_experiment([], "rank", warnings=["No list has a label.", "Most events are late."])
    with pytest.raises(UnknownExperimentError, match=r"experiment 'good' has no scope 'day'; it has: start"):
        find_experiment([passing()], "good", "day")


def test_an_answer_survives_json() -> None:
    for report in (passing(), failing(), waiting()):
        answer_lines = answer(report, None, "old")
        assert msgspec.json.decode(msgspec.json.encode(answer_lines), type=GateAnswer) == answer_lines


def test_a_report_of_an_earlier_version_waits() -> None:
    plain = {name: value for name, value in msgspec.to_builtins(passing()).items() if name not in ("gate", "gate_margin")}
    answer_lines = answer(msgspec.convert(plain, ExperimentReport))
    assert (answer_lines.gate, answer_lines.reason) == ("wait", "the report is of a version without a gate")


def test_the_answer_has_the_begin_of_the_running_step() -> None:
    assert answer(passing()).step_ms is None
    assert answer(replace(passing(), step_ms=7_200_000)).step_ms == 7_200_000
