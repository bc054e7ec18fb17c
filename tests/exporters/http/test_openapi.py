"""Tests of the OpenAPI description: real answers of each path match it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from streammetrics.exporters.http.openapi import API_VERSION
from streammetrics.reports.history import History
from streammetrics.reports.report import Report
from tests.support.committed_state import HOUR_MS, MINUTE_MS, served
from tests.support.experiment_samples import experiment
from tests.support.page_story import Story, make_story, with_experiments


@pytest.fixture(scope="module")
def story() -> tuple[Story, list[Report]]:
    return make_story(int(time.time() * 1_000) + MINUTE_MS, minutes=60)


@pytest.fixture(scope="module")
def base(story: tuple[Story, list[Report]]) -> Iterator[str]:
    """A port with experiments, interleaved lists, windows and a history."""
    answers = story[0].answers()
    whole = experiment({"control": 0.5, "treatment": 0.45, "interleaved": 0.5}, name="whole", whole=True)
    for report in story[1][-3:]:
        whole_report = with_experiments(report, *report.experiments, whole)
        answers.show(whole_report, History().add(report.entered_ms or 0, whole_report.experiments))
    with served(answers) as port:
        yield port


def answer(base: str, path: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"{base}{path}", timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def problems(base: str, path: str) -> list[str]:
    """Return where an answer differs from the description of its path and status."""
    _, description = answer(base, "/api/openapi.json")
    status, content = answer(base, path)
    named = path.partition("?")[0]
    operation = description["paths"]["/api/gate/{experiment}" if named.startswith("/api/gate/") else named]["get"]
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": description["components"]})
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(content)]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/report", 200),
        ("/api/report/state", 200),
        ("/api/report/experiments", 200),
        (f"/api/report/experiments?experiment=whole&experiment=none&window_ms={HOUR_MS}&segment=surface=home&scope=day", 200),
        ("/api/report/experiments?window_ms=x", 400),
        ("/api/report/experiments?scope=week", 400),
        (f"/api/curves?window_ms={HOUR_MS}&metric=ndcg@10", 200),
        (f"/api/curves?window_ms={HOUR_MS}&metric=none", 400),
        ("/api/pulse", 200),
        ("/api/gate/whole", 200),
        ("/api/gate/whole?variant=treatment", 200),
        ("/api/gate/none", 404),
        ("/api/gate/whole?scope=week", 400),
    ],
)
def test_real_answers_match_the_description(base: str, path: str, status: int) -> None:
    answer_lines, content = answer(base, path)
    assert answer_lines == status
    assert content
    assert problems(base, path) == []


def test_an_answer_without_a_report_matches(story: tuple[Story, list[Report]]) -> None:
    with served(story[0].answers()) as port:
        assert answer(port, "/api/report")[0] == 503
        assert problems(port, "/api/report") == []
        assert answer(port, "/api/gate/whole")[0] == 503
        assert problems(port, "/api/gate/whole") == []
        assert problems(port, "/api/pulse") == []


def test_a_missing_or_unknown_field_is_found(story: tuple[Story, list[Report]]) -> None:
    answers = story[0].answers()
    answers.show(replace(story[1][-1], tasks=-1))
    with served(answers) as port:
        assert problems(port, "/api/report") == ["$.tasks: -1 is less than the minimum of 0"]


def test_the_description_has_a_version_and_each_path_of_the_api(base: str) -> None:
    status, description = answer(base, "/api/openapi.json")
    assert (status, description["openapi"], description["info"]["version"]) == (200, "3.1.0", API_VERSION)
    paths = [
        "/api/report",
        "/api/report/state",
        "/api/report/experiments",
        "/api/gate/{experiment}",
        "/api/curves",
        "/api/pulse",
        "/api/openapi.json",
    ]
    assert [*description["paths"]] == paths
    for schema in description["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_an_unknown_path_lists_the_description(base: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{base}/api/none", timeout=10)
    assert (refused.value.code, b"/api/openapi.json" in refused.value.read()) == (404, True)
