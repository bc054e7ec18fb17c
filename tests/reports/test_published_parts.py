"""The parts of a report: together they have its fields, and the chosen numbers equal those of the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.reports.published import ReportChoice
from streammetrics.reports.report import Report
from streammetrics.windows.panes import Group
from tests.support.experiment_samples import experiment
from tests.support.page_story import EXPERIMENT, make_story

NAMES = ("b", "c", "d", EXPERIMENT)


@pytest.fixture(scope="module")
def answers() -> HttpAnswers:
    """Four experiments with windows of two segment values each."""
    story, reports = make_story(1_732_183_200_000, minutes=60)
    answer = story.answers()
    answer.show(_large(reports[-1]))
    return answer


def _large(report: Report) -> Report:
    """Return the report with windows and statistics of more experiments."""
    windows = tuple(
        replace(
            window, groups=(*window.groups, *(replace(v, group=v.group._replace(experiment=n)) for v in window.groups for n in NAMES[:3]))
        )
        for window in report.windows
    )
    names = {name: experiment({"control": 0.5, "treatment": 0.3 + 0.05 * at}, name=name) for at, name in enumerate(NAMES)}
    return replace(report, windows=windows, experiments=(*names.values(), replace(names["c"], scope="day")))


def part(answers: HttpAnswers, choice: ReportChoice | None) -> Any:
    return json.loads(answers.report_part(choice) or b"")


def whole(answers: HttpAnswers) -> Any:
    return json.loads(answers.report_json() or b"")


def test_both_parts_together_have_the_fields_of_the_report(answers: HttpAnswers) -> None:
    state, experiments = part(answers, None), part(answers, ReportChoice())
    assert not state.keys() & experiments.keys()
    assert {*state, *experiments} - {"experiment_names", "segments", "scopes"} == whole(answers).keys()
    assert all(value == whole(answers)[name] for name, value in state.items())


def test_the_worst_experiment_is_chosen_if_none_is_named(answers: HttpAnswers) -> None:
    answer = part(answers, ReportChoice())
    assert [experiment["experiment"] for experiment in answer["experiments"]] == ["b"]
    assert answer["experiment_names"] == ["b", "c", "d", EXPERIMENT]
    assert [line["experiment"] for line in answer["verdicts"] if not line["variant"]] == answer["experiment_names"]
    assert {line["experiment"] for line in answer["verdicts"] if line["variant"]} == {"b"}
    assert answer["scopes"] == ["day", "start"]


@pytest.mark.parametrize("segment", ["", "surface=home"])
def test_the_chosen_numbers_equal_those_of_the_whole_report(answers: HttpAnswers, segment: str) -> None:
    answer = part(answers, ReportChoice(("c", "d"), 300_000, segment))
    assert answer["experiments"] == [
        experiment for experiment in whole(answers)["experiments"] if experiment["experiment"] in "cd" and experiment["scope"] == "start"
    ]
    group = Group("", "", *segment.split("=")) if segment else Group()
    for window, window_of_part in zip(whole(answers)["windows"], answer["windows"], strict=True):
        kept = [
            numbers
            for numbers in window["groups"]
            if window["window_ms"] == 300_000 and numbers["experiment"] in ("", "c", "d") and numbers["segments"] == group.segments
        ]
        assert window_of_part == window | {"groups": kept}
    assert answer["segments"] == ["", "surface=", "surface=home", "surface=search"]


def test_a_day_is_chosen_alone(answers: HttpAnswers) -> None:
    answer = part(answers, ReportChoice(("c",), day=True))
    assert {(line["experiment"], line["scope"]) for line in (*answer["experiments"], *answer["verdicts"])} == {("c", "day")}
