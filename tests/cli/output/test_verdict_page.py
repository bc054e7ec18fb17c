"""The page of verdicts: it needs nothing else, whatever a variant is called is text, and its charts show the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from streammetrics.cli.output.interval_chart import HEIGHT, LEFT, RIGHT, WIDTH, bounds, interval_chart
from streammetrics.cli.output.report_reader import ExperimentResults
from streammetrics.cli.output.verdict_page import page
from streammetrics.experiments import ExperimentReport
from streammetrics.reports.history import History, Point
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


def places(points: list[tuple[int, Point]], tag: str, kind: str) -> list[tuple[float, float]]:
    (element,) = [each for each in interval_chart(points, -0.01).iter(tag) if each.get("class") == kind]
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in element.attrib["points"].split())]


def point(lift: float, lower: float | None, upper: float | None) -> Point:
    return Point("b", "ndcg", 10, lift, lower, upper)


def test_the_band_contains_the_line_from_first_to_last_snapshot() -> None:
    points = [(0, point(-0.1, -0.3, 0.2)), (50, point(-0.12, -0.2, -0.02)), (100, point(-0.11, -0.15, -0.07))]
    line, band = places(points, "polyline", "lift"), places(points, "polygon", "band")
    assert [x for x, _ in line] == [LEFT, (LEFT + WIDTH - RIGHT) / 2, WIDTH - RIGHT]
    upper, lower = band[:3], band[:2:-1]
    assert [x for x, _ in upper] == [x for x, _ in lower] == [x for x, _ in line]
    assert all(top[1] < middle[1] < bottom[1] for top, middle, bottom in zip(upper, line, lower, strict=True))
    assert all(0 <= y <= HEIGHT for _, y in band)


def test_an_unbounded_end_is_at_the_edge_of_the_scale() -> None:
    points = [(0, point(0.1, None, None)), (100, point(0.1, -0.1, None))]
    band = places(points, "polygon", "band")
    assert band[0][1] == band[1][1] < places(points, "polyline", "lift")[0][1] < band[3][1]


def test_a_single_snapshot_is_at_the_right() -> None:
    assert [x for x, _ in places([(7, point(0.1, -0.1, 0.3))], "polyline", "lift")] == [WIDTH - RIGHT]


def test_the_scale_fits_the_later_half_zero_and_the_margin() -> None:
    points = [point(-0.1, -9.0, 40.0), point(-0.1, -0.2, 0.1)]
    low, high = bounds(points, -0.01)
    assert -0.25 < low < -0.2
    assert 0.1 < high < 0.15
    assert bounds([point(0.0, 0.0, 0.0)], 0.0) == (-0.01, 0.01)
