"""What is remembered of reports for the live page: every value as it was told, gaps as gaps, and never more than the limits."""

from __future__ import annotations

import json
from dataclasses import replace
from http.client import HTTPConnection
from math import isnan
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from streammetrics.adapters.http import curves as module
from streammetrics.adapters.http.curves import Curves, UnknownChoiceError
from streammetrics.adapters.http.views import HttpViews
from streammetrics.report import Report
from streammetrics.windows import Group, GroupValues, Window
from tests.adapters.pipeline import HOUR_MS, START_MS, Now, Pipeline, served, shown, two_variants
from tests.page_world import EXPERIMENT, World, world

METRICS = ("ndcg@10", "mrr@10")
BLANK = Pipeline().report()


def report(end_ms: int, **lists: int) -> Report:
    """A report of one window of one hour, both views, with groups of so many lists and values made of their number."""

    def values(name: str, count: int) -> GroupValues:
        experiment, _, segment = name.partition("_")
        group = Group(experiment, "v", "surface" if segment else "", segment)
        return GroupValues(group, count, count // 2, {"ndcg@10": count / 100}, {"ndcg@10": count / 50, "mrr@10": 0.5})

    groups = tuple(values(name, count) for name, count in lists.items())
    windows = (Window(HOUR_MS, "final", end_ms - HOUR_MS, True, groups), Window(HOUR_MS, "live", end_ms, True, groups))
    return replace(BLANK, windows=windows, final_ms=end_ms - HOUR_MS, entered_ms=end_ms - HOUR_MS, watermark_ms=end_ms)


def showing(pipeline: Pipeline) -> HttpViews:
    return HttpViews(pipeline.exposition(), Now())


def live(curves: Curves, metric: str = "ndcg@10", lists: str = "values") -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in curves.lines(HOUR_MS, metric, lists)["windows"] if each["view"] == "live")
    return found


def test_every_value_is_remembered_as_it_was_told_in_both_views() -> None:
    curves = Curves(METRICS)
    for step in range(3):
        curves.take(report(START_MS + step, a=10 + step))
    told = curves.lines(HOUR_MS, "ndcg@10", "values")["windows"]
    assert [each["view"] for each in told] == ["final", "live"]
    assert told[1]["ends_ms"] == [START_MS, START_MS + 1, START_MS + 2]
    assert told[0]["ends_ms"] == [end - HOUR_MS for end in told[1]["ends_ms"]]
    assert told[1]["lines"] == [{"experiment": "a", "variant": "v", "segments": {}, "lists": [10, 11, 12], "values": [0.1, 0.11, 0.12]}]
    assert live(curves, lists="values_with_feedback")["lines"][0]["values"] == [0.2, 0.22, 0.24]


def test_a_value_that_is_missing_is_no_number() -> None:
    curves = Curves(METRICS)
    curves.take(report(START_MS, a=10))
    curves.take(report(START_MS + 1, b=20))
    first, second = live(curves)["lines"]
    assert (first["values"][0], isnan(first["values"][1]), isnan(first["lists"][1])) == (0.1, True, True)
    assert (isnan(second["values"][0]), second["values"][1]) == (True, 0.2)
    assert isnan(live(curves, "mrr@10")["lines"][0]["values"][0])


def test_the_same_end_told_again_counts_as_it_was_told_last() -> None:
    curves = Curves(METRICS)
    curves.take(report(START_MS, a=10))
    once = curves.numbers
    curves.take(report(START_MS, a=20))
    assert (live(curves)["ends_ms"], live(curves)["lines"][0]["values"]) == ([START_MS], [0.2])
    assert curves.numbers == once


def test_ends_after_one_that_went_back_are_void() -> None:
    curves = Curves(METRICS)
    for end in (1, 2, 3, 2):
        curves.take(report(START_MS + end, a=10 * end))
    assert live(curves)["ends_ms"] == [START_MS + 1, START_MS + 2]


def test_windows_that_have_not_begun_or_are_withheld_are_no_points() -> None:
    curves = Curves(METRICS)
    told = report(START_MS, a=10)
    curves.take(replace(told, windows=(replace(told.windows[0], end_ms=None, groups=()), replace(told.windows[1], complete=False))))
    assert [each["ends_ms"] for each in curves.lines(HOUR_MS, "ndcg@10", "values")["windows"]] == [[], []]


def test_old_points_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POINTS_MAX", 5)
    curves = Curves(METRICS)
    for end in range(12):
        curves.take(report(START_MS + end, a=10))
    assert live(curves)["ends_ms"] == [START_MS + end for end in range(7, 12)]


def test_groups_by_segment_give_way_to_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    curves = Curves(METRICS)
    curves.take(report(START_MS, a_home=1, a=2, b=3, b_home=4))
    assert [(line["experiment"], line["segments"]) for line in live(curves)["lines"]] == [("a", {}), ("b", {})]


def test_the_numbers_held_are_never_more_than_the_limit_and_every_window_keeps_its_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NUMBERS_MAX", 100)
    curves = Curves(METRICS)
    for end in range(50):
        curves.take(report(START_MS + end, a=10, b=20))
        held = sum(len(live(curves, metric, lists)["ends_ms"]) for metric in METRICS[:1] for lists in module.LISTS[:1])
        assert (curves.numbers <= 100, held >= 1) == (True, True)
    assert live(curves)["ends_ms"][-1] == START_MS + 49
    assert curves.numbers > 80


def test_what_a_report_no_longer_has_is_forgotten() -> None:
    curves = Curves(METRICS)
    curves.take(report(START_MS, a=10))
    curves.take(replace(report(START_MS + 1, a=10), windows=()))
    assert (curves.lines(HOUR_MS, "ndcg@10", "values")["windows"], curves.numbers) == ([], 0)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((60_000, "ndcg@10", "values"), r"window_ms: got 60000; allowed are 3600000"),
        ((HOUR_MS, "nonsense@3", "values"), r"metric: got 'nonsense@3'; allowed are ndcg@10, mrr@10"),
        ((HOUR_MS, "ndcg@10", "some"), r"lists: got 'some'; allowed are values, values_with_feedback"),
    ],
)
def test_a_choice_that_cannot_be_is_refused_with_what_can(asked: tuple[int, str, str], said: str) -> None:
    curves = Curves(METRICS)
    curves.take(report(START_MS, a=10))
    with pytest.raises(UnknownChoiceError, match=said):
        curves.lines(*asked)


@pytest.fixture(scope="module")
def story() -> tuple[World, Curves]:
    story, reports = world(START_MS, minutes=40)
    curves = Curves(str(metric) for metric in story.pipeline.engine.layout.scorer.metrics)
    for told in reports:
        curves.take(told)
    return story, curves


class TestExperiments:
    def test_lifts_and_their_bands_are_those_of_the_reports_at_the_time_up_to_which_all_lists_have_entered(
        self, story: tuple[World, Curves]
    ) -> None:
        told = story[0].told()
        (measure,) = (each for each in told.experiments[0].variants[1].measures if (each.metric, each.k) == ("ndcg", 10))
        found = next(each for each in story[1].lines(HOUR_MS, "ndcg@10", "values")["experiments"] if each["scope"] == "start")
        (line,) = (each for each in found["lines"] if each["variant"] == "treatment")
        assert (found["experiment"], found["ends_ms"][-1]) == (EXPERIMENT, told.entered_ms)
        assert told.entered_ms != told.final_ms
        assert (line["lift"][-1], line["lift_lower"][-1], line["lift_upper"][-1]) == (measure.lift, measure.lift_lower, measure.lift_upper)
        assert (line["mean"][-1], line["error"][-1]) == (measure.mean, measure.error)

    def test_a_measure_that_only_experiments_have_can_be_asked_for(self, story: tuple[World, Curves]) -> None:
        told = story[1].lines(HOUR_MS, "user_hit_rate@10", "values")
        assert {line["variant"] for line in told["experiments"][0]["lines"]} == {"control", "treatment"}
        assert all(isnan(value) for line in told["windows"][0]["lines"] for value in line["values"])

    def test_one_point_a_pane_is_kept_however_often_is_told(self, story: tuple[World, Curves]) -> None:
        before = story[1].lines(HOUR_MS, "ndcg@10", "values")["experiments"][0]["ends_ms"]
        told = story[0].told()
        story[1].take(told)
        assert story[1].lines(HOUR_MS, "ndcg@10", "values")["experiments"][0]["ends_ms"] == before


class TestPaths:
    """Over a real port."""

    def ask(self, base: str, path: str, **asked: object) -> tuple[int, Any]:
        connection = HTTPConnection(urlsplit(base).netloc, timeout=10)
        connection.request("GET", f"{path}?{urlencode(asked)}")
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def test_the_history_is_served_as_json_with_null_for_what_is_missing(self) -> None:
        pipeline = two_variants()
        views = showing(pipeline)
        views.show(pipeline.report())
        views.show(pipeline.feed("impressions", shown("u9", "late", ts=START_MS + 33 * 60_000)).move_on(START_MS + HOUR_MS).report())
        with served(views) as base:
            status, told = self.ask(base, "/api/curves", window_ms=HOUR_MS, metric="ndcg@10")
            assert status == 200
            lines = next(each for each in told["windows"] if each["view"] == "live")["lines"]
            late = next(line for line in lines if line["variant"] == "late" and not line["segments"])
            assert late["values"] == [None, 0.0]

    @pytest.mark.parametrize("window_ms", ["", "1h", "-1", "9" * 40, "٣"])
    def test_a_window_that_is_no_number_is_refused(self, window_ms: str) -> None:
        with served(showing(two_variants())) as base:
            assert self.ask(base, "/api/curves", window_ms=window_ms, metric="ndcg@10") == (
                400,
                {"error": "window_ms: is needed; allowed is a whole number of milliseconds"},
            )

    def test_a_metric_that_is_none_is_refused_with_those_that_are(self) -> None:
        pipeline = two_variants()
        views = showing(pipeline)
        views.show(pipeline.report())
        with served(views) as base:
            status, told = self.ask(base, "/api/curves", window_ms=HOUR_MS, metric="<script>")
            assert (status, told["error"].startswith("metric: got '<script>'; allowed are ndcg@2, ndcg@10")) == (400, True)

    def test_before_the_first_report_there_are_no_lines(self) -> None:
        with served(showing(two_variants())) as base:
            assert self.ask(base, "/api/curves", window_ms=HOUR_MS, metric="ndcg@10") == (200, {"windows": [], "experiments": []})
