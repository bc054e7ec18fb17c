"""The README of the metric library: its examples run, and its tables are complete."""

from __future__ import annotations

import doctest
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

import streammetrics.metrics
from streammetrics import evaluate, from_run, preset
from streammetrics.metrics import Spec
from streammetrics.metrics.names import ALL_METRIC_NAMES
from streammetrics.metrics.presets import PRESETS
from streammetrics.metrics.records import METRICS

PAGE = Path(streammetrics.metrics.__file__).with_name("README.md")


def test_the_examples_run() -> None:
    # No doctest options: ELLIPSIS would hide digits.
    failed, tried = doctest.testfile(str(PAGE), module_relative=False)
    assert (failed, tried > 15) == (0, True)


def test_pytrec_eval_hands_over_its_files_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.txt").write_text("q1 Q0 d1 1 0.5 mine\nq1 Q0 d2 2 0.5 mine\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d2 3\nq1 0 d3 1\n")
    monkeypatch.chdir(tmp_path)
    rows = dict(re.findall(r"^\| \[(\S+)\]\(\S+\) \| `(run, qrels = .*)` \|$", PAGE.read_text(), re.MULTILINE))
    assert [*rows] == ["pytrec_eval", "ranx", "ir-measures"]
    (call,) = re.findall(r"^`(evaluate\(from_run\(run, qrels, .*\))` then", PAGE.read_text(), re.MULTILINE)
    names: dict[str, Any] = {"pytrec_eval": pytrec_eval, "evaluate": evaluate, "from_run": from_run, "preset": preset}
    with pytest.warns(ResourceWarning):  # the line closes no file
        exec(rows["pytrec_eval"], names)
    (theirs,) = pytrec_eval.RelevanceEvaluator(names["qrels"], {"ndcg_cut_10"}).evaluate(names["run"]).values()
    assert eval(call, names).means == {"ndcg@10": pytest.approx(theirs["ndcg_cut_10"], abs=1e-12)}


def _section(title: str) -> str:
    text = PAGE.read_text()
    start = text.index(f"\n## {title}")
    return text[start : text.find("\n## ", start + 1)]


def _names_in_first_column(section: str) -> set[str]:
    return {name for line in section.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line.split("|")[1])}


def test_the_page_describes_every_metric_and_says_which_may_have_no_cutoff() -> None:
    without = {"yes": "optional", "no": "required", "always": "none"}
    rows = re.findall(r"^\| (`.*?`) \|.*\| (yes|no|always) \|$", _section("Names"), re.MULTILINE)
    described = {name: without[answer] for names, answer in rows for name in re.findall(r"`(\w+)`", names)}
    assert described == {name: METRICS[name].cutoff for name in ALL_METRIC_NAMES}


def test_the_page_describes_every_field_of_a_spec() -> None:
    assert _names_in_first_column(_section("Definitions")) == {field.name for field in fields(Spec)}


def test_the_page_shows_every_preset() -> None:
    section = _section("Definitions")
    assert [name for name in PRESETS if f"`{name}`" not in section] == []


def test_links_within_the_page_have_a_target() -> None:
    text = PAGE.read_text()
    anchors = {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)}
    assert set(re.findall(r"\]\(#([^)]*)\)", text)) <= anchors
