"""Tests of the HTML page of experiments: it is self-contained, and names are never markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from streammetrics.cli.output.report_reader import ExperimentResults
from streammetrics.cli.output.verdict_page import page
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History
from tests.experiments.samples import experiment

AT_MS = 1_732_183_200_000
WORSE = experiment({"control": 0.5, "treatment": 0.4})


def results(*experiments: ExperimentReport, looks: int = 5) -> ExperimentResults:
    history = History()
    for look in range(looks):
        history = history.add(AT_MS - (looks - look) * 120_000, experiments)
    return ExperimentResults(experiments, history, AT_MS, "1.2.3")


class Read(HTMLParser):
    """Tags with their attributes, and all text outside of the style."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._in_style = False
        self.feed(content.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if not self._in_style:
            self.text += data

    def count(self, tag: str) -> int:
        return sum(each == tag for each, _ in self.tags)


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    content = page(results(WORSE), "report.json")
    read = Read(content)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in read.tags}
    names = {name for _, attributes in read.tags for name in attributes}
    assert not {"src", "href", "style"} & names
    assert not [name for name in names if name.startswith("on")]
    assert re.search(rb"url\(|@import|https?://", content) is None
    assert content.startswith(b"<!doctype html>\n<html")


def test_the_page_shows_verdict_numbers_and_health() -> None:
    read = Read(page(results(WORSE), "report.json"))
    measure = WORSE.variants[1].measures[0]
    assert measure.verdict is not None
    assert measure.lift is not None
    for words in ("regressed", WORSE.verdict.reason, measure.verdict.reason, f"{100 * measure.lift:+.1f} %", "2,000", "report.json"):
        assert words in read.text
    assert "split of users: as configured" in read.text
    assert "2024-11-21 10:00 UTC" in read.text


def test_each_compared_variant_has_a_chart_of_each_main_measure() -> None:
    three = experiment({"control": 0.5, "a": 0.4, "b": 0.5})
    assert Read(page(results(three), "x")).count("svg") == 2 * 3
    assert Read(page(results(experiment({"control": 0.5, "treatment": 0.4}, users=50)), "x")).count("svg") == 0


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&amp;b", "\x00\ud800\u202e", "👩‍🔬"])
def test_variant_names_are_never_markup(name: str) -> None:
    control, treatment = WORSE.variants
    strange = replace(WORSE, experiment=name, variants=(control, replace(treatment, variant=name)))
    read = Read(page(results(strange), name))
    assert not {"script", "img"} & {tag for tag, _ in read.tags}
    assert read.text.count(re.sub("[\x00\ud800\u202e]", "\ufffd", name)) > 5


HEBREW, ARABIC = "\u05d0\u05d7\u05e8", "\u0645\u0628 7"


def test_names_in_another_direction_are_isolated() -> None:
    strange = experiment({"control": 0.5, HEBREW: 0.4, ARABIC: 0.4}, name=HEBREW, whole=True)
    content = page(results(strange), "x").decode()
    assert strange.verdict.reason.startswith(f"{HEBREW}: ")
    assert f"</strong> <bdi>{HEBREW}</bdi>: " in content
    title = f"<title>Experiments: \u2068{HEBREW}\u2069</title>"
    assert title in content
    for name in (HEBREW, ARABIC):
        drawn = re.findall(f"(.{{5}}){name}(.{{6}})", content.replace(title, ""))
        assert len(drawn) > 5
        assert set(drawn) == {("<bdi>", "</bdi>")}


@pytest.mark.parametrize("experiments", [(), (WORSE,)])
def test_everything_except_the_heading_is_in_the_main_landmark(experiments: tuple[ExperimentReport, ...]) -> None:
    content = page(results(*experiments), "x").decode()
    assert re.findall("<(/?(?:body|header|main|section))>", content) == [
        *("body", "header", "/header", "main"),
        *("section", "/section") * len(experiments),
        *("/main", "/body"),
    ]


def test_a_page_without_experiments_says_so() -> None:
    assert "No experiment has final lists yet, up to " in Read(page(results(), "x")).text
