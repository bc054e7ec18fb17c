"""The files for rollout controllers: their fields, their conditions, the commands and paths that they call. See also tests/integration."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from streammetrics import __version__
from streammetrics.cli.commands.gate import gate
from tests.deploy.argo import ARGO, ROLLOUTS, metric, outcome
from tests.deploy.tools import assert_clean, program, read_yaml
from tests.support.committed_state import served
from tests.support.gates import shown_answers


def urlopen_any(url: str, body: bytes) -> Any:
    """Post as Flagger does, and return the response whatever its status."""
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, {"content-type": "application/json"}), timeout=10)
    except urllib.error.HTTPError as error:
        return error


WORKFLOW = ROLLOUTS / "github-actions.yml"
FLAGGER = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "flagger.app/v1beta1"},
        "kind": {"const": "MetricTemplate"},
        "metadata": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string", "pattern": "^[a-z0-9-]+$"}}},
        "spec": {
            "type": "object",
            "required": ["provider", "query"],
            "additionalProperties": False,
            "properties": {
                "provider": {
                    "type": "object",
                    "required": ["type"],
                    "additionalProperties": False,
                    "properties": {
                        "type": {"enum": ["prometheus", "influxdb", "datadog", "cloudwatch", "newrelic", "graphite", "stackdriver"]},
                        "address": {"type": "string", "pattern": "^https?://"},
                        "secretRef": {"type": "object", "required": ["name"]},
                        "region": {"type": "string"},
                        "insecureSkipVerify": {"type": "boolean"},
                    },
                },
                "query": {"type": "string"},
            },
        },
    },
}
"""The documented fields of Flagger's MetricTemplate."""


@pytest.mark.parametrize(("name", "word"), [("good", "pass"), ("bad", "fail"), ("young", "wait")])
def test_the_web_template_takes_the_answer_of_the_exporter(name: str, word: str) -> None:
    conditions, web = metric("web"), metric("web")["provider"]["web"]
    assert "jsonPath" not in web, "the measurement is the whole answer, with the reason and the warnings"
    with served(shown_answers()) as base:
        url = web["url"].replace("{{args.exporter}}", base).replace("{{args.experiment}}", name).replace("{{args.since}}", "3h")
        with urllib.request.urlopen(urllib.request.Request(url, method=web["method"]), timeout=10) as response:
            answer = json.load(response)
    assert outcome(conditions, answer) == word
    assert answer["reason"]
    assert isinstance(answer["warnings"], list)


def test_the_job_runs_a_command_that_there_is() -> None:
    job = metric("job")["provider"]["job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    assert (job["backoffLimit"], job["template"]["spec"]["restartPolicy"]) == (0, "Never")
    assert container["image"].endswith(f":{__version__}")
    values = {"experiment": "ranker-v7", "exporter": "http://streammetrics-exporter:9464", "deadline": "4h"}
    words = [re.sub(r"\{\{args\.(\w+)\}\}", lambda match: values[match[1]], word) for word in container["args"]]
    assert words[0] == "gate"
    context = gate.make_context("gate", words[1:])
    assert [context.params[name] for name in ("watch", "deadline")] == [True, 14_400]
    assert context.params["since_ms"] is not None


@pytest.mark.parametrize("path", ARGO, ids=lambda path: path.stem)
def test_a_template_uses_the_arguments_that_it_declares(path: Path) -> None:
    template = read_yaml(path)
    declared = {arg["name"] for arg in template["spec"].get("args", ())}
    assert set(re.findall(r"\{\{args\.(\w+)\}\}", path.read_text(encoding="utf-8"))) == declared


def test_the_rollout_uses_templates_that_there_are_with_the_arguments_that_they_need() -> None:
    templates = {read_yaml(path)["metadata"]["name"]: read_yaml(path) for path in ARGO}
    steps = read_yaml(ROLLOUTS / "argo-rollout.yaml")["spec"]["strategy"]["canary"]["steps"]
    used = [step["analysis"] for step in steps if "analysis" in step]
    assert used
    for analysis in used:
        given = {arg["name"] for arg in analysis["args"]}
        for named in analysis["templates"]:
            args = templates[named["templateName"]]["spec"]["args"]
            assert {arg["name"] for arg in args if not {"value", "valueFrom"} & set(arg)} <= given <= {arg["name"] for arg in args}


def test_lists_of_each_step_are_final_before_it_is_asked_about() -> None:
    steps = read_yaml(ROLLOUTS / "argo-rollout.yaml")["spec"]["strategy"]["canary"]["steps"]
    asked = [(before, step["analysis"]["args"]) for before, step in pairwise(steps) if "analysis" in step]
    assert [before for before, _ in asked] == [{"pause": {"duration": "3h"}}] * 2
    assert [given for _, args in asked for given in args if given["name"] == "since"] == [{"name": "since", "value": "3h"}] * 2


def test_the_metric_templates_of_flagger_have_the_documented_fields() -> None:
    text = (ROLLOUTS / "flagger-metric-templates.yaml").read_text(encoding="utf-8")
    templates = list(yaml.safe_load_all(text))
    assert [template["metadata"]["name"] for template in templates] == ["streammetrics-regression"]
    for template in templates:
        assert [error.message for error in Draft202012Validator(FLAGGER).iter_errors(template)] == []
        assert set(re.findall(r"\{\{ variables\.(\w+) \}\}", template["spec"]["query"])) == {"experiment", "job"}


@pytest.mark.parametrize(("name", "status"), [("good", 200), ("bad", 409), ("young", 409), ("unknown", 404)])
def test_the_hook_of_flagger_is_told_by_the_status(name: str, status: int) -> None:
    text = (ROLLOUTS / "flagger-metric-templates.yaml").read_text(encoding="utf-8")
    path = re.search(r"url: http://[^/]+(/\S+)$", text, re.MULTILINE)
    assert path is not None
    body = json.dumps({"name": "ranker", "namespace": "default", "phase": "Progressing", "metadata": {}}).encode()
    with served(shown_answers()) as base, urlopen_any(base + path[1].replace("ranker-v7", name), body) as response:
        assert response.status == status


def test_the_workflow_has_its_shape_and_leaves_no_door_open() -> None:
    assert f"pipx install streammetrics=={__version__}\n" in WORKFLOW.read_text(encoding="utf-8")
    assert_clean([program("check-jsonschema", "the package check-jsonschema"), "--builtin-schema", "vendor.github-workflows", WORKFLOW])
    assert_clean([program("zizmor", "the package zizmor"), "--offline", "--no-progress", WORKFLOW])


@pytest.mark.parametrize(("code", "output", "job_code"), [(0, "gate=pass", 0), (3, "gate=wait", 0), (1, "gate=fail", 1), (2, "", 2)])
def test_the_workflow_turns_each_exit_code_into_its_output(tmp_path: Path, code: int, output: str, job_code: int) -> None:
    (step,) = [step for step in read_yaml(WORKFLOW)["jobs"]["gate"]["steps"] if step.get("id") == "gate"]
    assert step["shell"] == "bash"  # with pipefail; the default shell has none
    fake = tmp_path / "streammetrics"
    fake.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@"\nexit {code}\n')
    fake.chmod(0o755)
    outputs, summary = tmp_path / "output", tmp_path / "summary"
    outputs.touch()
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(summary)}
    environ |= {"EXPERIMENT": "ranker v7", "EXPORTER": "https://x", "SINCE": "1m", "DEADLINE": "4h"}
    command = ["/bin/bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, outputs.read_text().strip()) == (job_code, output)
    words = done.stdout.splitlines()
    assert words == ["gate", "ranker v7", "--url", "https://x", "--since", "1m", "--watch", "--deadline", "4h", "--summary", str(summary)]
    assert gate.make_context("gate", words[1:]).params["since_ms"] is not None
