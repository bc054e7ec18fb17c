"""The README of the metric library: its examples run, and its tables are complete."""

from __future__ import annotations

import ast
import doctest
import re
from dataclasses import fields
from pathlib import Path

import pytest

import streammetrics.metrics
from streammetrics.cli.commands.evaluate import main
from streammetrics.metrics import Spec
from streammetrics.metrics.names import ALL_METRIC_NAMES, EVALUATE_NAMES
from streammetrics.metrics.presets import PRESETS
from streammetrics.offline.inputs.trec import read_qrels, read_run

PAGE = Path(streammetrics.metrics.__file__).with_name("README.md")


def test_the_examples_run() -> None:
    # No doctest options: ELLIPSIS would hide digits.
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried > 15) == (0, True)


def test_the_commands_print_the_output_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (console,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    evaluations = 0
    for shown in console.removeprefix("$ ").split("\n$ "):
        typed, output = shown.rstrip("\n").split("\n", 1)
        words = typed.split()
        if words[0] == "cat":
            Path(words[1]).write_text(output + "\n")
        else:
            assert words[:2] == ["streammetrics", "evaluate"]
            assert main(words[2:]) == 0
            assert capsys.readouterr().out == output + "\n"
            evaluations += 1
    assert evaluations == 2
    stated = {name: ast.literal_eval(value) for name, value in re.findall(r"^>>> (run|qrels) = (.*)$", PAGE.read_text(), re.MULTILINE)}
    assert {"run": read_run("run.txt"), "qrels": read_qrels("qrels.txt")} == stated


def _section(title: str) -> str:
    text = PAGE.read_text()
    start = text.index(f"\n## {title}")
    return text[start : text.find("\n## ", start + 1)]


def _names_in_first_column(section: str) -> set[str]:
    return {name for line in section.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_the_page_describes_every_metric() -> None:
    assert _names_in_first_column(_section("Names")) == set(ALL_METRIC_NAMES)
    assert _names_in_first_column(_section("More metrics of evaluate")) == set(EVALUATE_NAMES)


def test_the_page_describes_every_field_of_a_spec() -> None:
    assert _names_in_first_column(_section("Definitions")) == {field.name for field in fields(Spec)}


def test_the_page_shows_every_preset() -> None:
    shown = _section("Definitions")
    assert [name for name in PRESETS if f"`{name}`" not in shown] == []


def test_links_within_the_page_have_a_target() -> None:
    text = PAGE.read_text()
    anchors = {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= anchors
