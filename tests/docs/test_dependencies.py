"""The package declares every distribution that it imports, with a minimum version, and no other."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import streammetrics
from tests.support.paths import ROOT

DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def normal(name: str) -> str:
    """The name of a distribution as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> set[str]:
    """The distributions whose modules are imported by name, anywhere in the package. What a `try` imports belongs to an extra."""
    modules: set[str] = set()
    for file in Path(streammetrics.__file__).parent.rglob("*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        extras = {id(node) for step in ast.walk(tree) if isinstance(step, ast.Try) for node in ast.walk(step)}
        for node in ast.walk(tree):
            if id(node) in extras:
                continue
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    distributions = packages_distributions()
    return {normal(distributions[name][0]) for name in modules - {*sys.stdlib_module_names, "_typeshed", "streammetrics"}}


def test_exactly_the_imported_distributions_are_declared() -> None:
    assert {normal(re.split(r"[\[<>=~!]", one)[0]) for one in DECLARED} == imported()


def test_every_dependency_has_a_minimum_version() -> None:
    assert [one for one in DECLARED if ">=" not in one] == []


def test_contributing_explains_every_dependency() -> None:
    text = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
    rows = {name.strip() for line in text.splitlines() if line.startswith("| ") for name in line.split("|")[1].split(",")}
    assert {re.split(r"[\[<>=~!]", one)[0] for one in DECLARED} <= rows
