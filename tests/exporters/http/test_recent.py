"""The recent points for the live page: all values, with gaps, within the limits."""

from __future__ import annotations

import json
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from streammetrics.exporters.http import recent as module
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.recent import RecentPoints, UnknownChoiceError
from streammetrics.reports.published import plain
from streammetrics.reports.report import Report
from streammetrics.windows.panes import Group, GroupValues, Window
from tests.support.committed_state import HOUR_MS, START_MS, Now, Pipeline, served, shown, two_variants
from tests.support.page_story import EXPERIMENT, Story, make_story

METRICS = ("ndcg@10", "mrr@10")
BLANK = Pipeline().report()


def report(end_ms: int, **lists: int) -> Report:
    """Return a report with one window of one hour in both views. `lists` has the number of lists by group."""

    def values(name: str, count: int) -> GroupValues:
        experiment, _, segment = name.partition("_")
        group = Group(experiment, "v", "surface" if segment else "", segment)
        return GroupValues(group, count, count // 2, {"ndcg@10": count / 100}, {"ndcg@10": count / 50, "mrr@10": 0.5})

    groups = tuple(values(name, count) for name, count in lists.items())
    windows = (Window(HOUR_MS, "final", end_ms - HOUR_MS, True, groups), Window(HOUR_MS, "live", end_ms, True, groups))
    return replace(BLANK, windows=windows, final_ms=end_ms - HOUR_MS, entered_ms=end_ms - HOUR_MS, watermark_ms=end_ms)


def answers_of(pipeline: Pipeline) -> HttpAnswers:
    return HttpAnswers(pipeline.exposition(), Now())


def live(recent: RecentPoints, metric: str = "ndcg@10", lists: str = "values") -> dict[str, Any]:
    window_lines: dict[str, Any] = next(
        window for window in plain(recent.lines(HOUR_MS, metric, lists))["windows"] if window["view"] == "live"
    )
    return window_lines


def test_every_value_is_kept_in_both_views() -> None:
    recent = RecentPoints(METRICS)
    for step in range(3):
        recent.add_report(report(START_MS + step, a=10 + step))
    windows = plain(recent.lines(HOUR_MS, "ndcg@10", "values"))["windows"]
    assert [window["view"] for window in windows] == ["final", "live"]
    assert windows[1]["ends_ms"] == [START_MS, START_MS + 1, START_MS + 2]
    assert windows[0]["ends_ms"] == [end - HOUR_MS for end in windows[1]["ends_ms"]]
    assert windows[1]["lines"] == [{"experiment": "a", "variant": "v", "segments": {}, "lists": [10, 11, 12], "values": [0.1, 0.11, 0.12]}]
    assert live(recent, lists="values_with_feedback")["lines"][0]["values"] == [0.2, 0.22, 0.24]


def test_a_missing_value_is_null() -> None:
    recent = RecentPoints(METRICS)
    recent.add_report(report(START_MS, a=10))
    recent.add_report(report(START_MS + 1, b=20))
    first, second = live(recent)["lines"]
    assert (first["values"], first["lists"][1]) == ([0.1, None], None)
    assert second["values"] == [None, 0.2]
    assert live(recent, "mrr@10")["lines"][0]["values"][0] is None


def test_a_repeated_end_replaces_the_point() -> None:
    recent = RecentPoints(METRICS)
    recent.add_report(report(START_MS, a=10))
    once = recent.numbers
    recent.add_report(report(START_MS, a=20))
    assert (live(recent)["ends_ms"], live(recent)["lines"][0]["values"]) == ([START_MS], [0.2])
    assert recent.numbers == once


def test_points_are_made_when_they_are_requested_or_when_an_end_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RecentPoints(METRICS)
    made: list[int] = []
    points = RecentPoints._window_point

    def counted(self: RecentPoints, window: Window) -> object:
        made.append(window.end_ms or 0)
        return points(self, window)

    monkeypatch.setattr(RecentPoints, "_window_point", counted)
    for _ in range(3):
        recent.add_report(report(START_MS, a=10))
    assert made == []
    recent.add_report(report(START_MS + 1, a=20))
    assert max(made) == START_MS
    assert live(recent)["ends_ms"] == [START_MS, START_MS + 1]
    assert max(made) == START_MS + 1


def test_later_ends_are_dropped_when_event_time_goes_back() -> None:
    recent = RecentPoints(METRICS)
    for end in (1, 2, 3, 2):
        recent.add_report(report(START_MS + end, a=10 * end))
    assert live(recent)["ends_ms"] == [START_MS + 1, START_MS + 2]


def test_windows_without_an_end_give_no_points() -> None:
    recent = RecentPoints(METRICS)
    first_report = report(START_MS, a=10)
    recent.add_report(
        replace(
            first_report,
            windows=(replace(first_report.windows[0], end_ms=None, groups=()), replace(first_report.windows[1], complete=False)),
        )
    )
    assert [window["ends_ms"] for window in plain(recent.lines(HOUR_MS, "ndcg@10", "values"))["windows"]] == [[], []]


def test_old_points_are_dropped_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POINTS_MAX", 5)
    recent = RecentPoints(METRICS)
    for end in range(12):
        recent.add_report(report(START_MS + end, a=10))
    assert live(recent)["ends_ms"] == [START_MS + end for end in range(7, 12)]


def test_groups_by_segment_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    recent = RecentPoints(METRICS)
    recent.add_report(report(START_MS, a_home=1, a=2, b=3, b_home=4))
    assert [(line["experiment"], line["segments"]) for line in live(recent)["lines"]] == [("a", {}), ("b", {})]


def test_numbers_stay_within_the_limit_and_every_window_keeps_its_last_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NUMBERS_MAX", 100)
    recent = RecentPoints(METRICS)
    for end in range(50):
        recent.add_report(report(START_MS + end, a=10, b=20))
        held = sum(len(live(recent, metric, lists)["ends_ms"]) for metric in METRICS[:1] for lists in module.LISTS[:1])
        assert (recent.numbers <= 100, held >= 1) == (True, True)
    assert live(recent)["ends_ms"][-1] == START_MS + 49
    assert recent.numbers > 80


def test_tracks_missing_from_the_report_are_dropped() -> None:
    recent = RecentPoints(METRICS)
    recent.add_report(report(START_MS, a=10))
    recent.add_report(replace(report(START_MS + 1, a=10), windows=()))
    assert (plain(recent.lines(HOUR_MS, "ndcg@10", "values"))["windows"], recent.numbers) == ([], 0)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ((60_000, "ndcg@10", "values"), r"window_ms: got 60000; allowed are 3600000"),
        ((HOUR_MS, "nonsense@3", "values"), r"metric: got 'nonsense@3'; allowed are ndcg@10, mrr@10"),
        ((HOUR_MS, "ndcg@10", "some"), r"lists: got 'some'; allowed are values, values_with_feedback"),
    ],
)
def test_an_unknown_choice_is_rejected_with_the_allowed_ones(choice: tuple[int, str, str], message: str) -> None:
    recent = RecentPoints(METRICS)
    recent.add_report(report(START_MS, a=10))
    with pytest.raises(UnknownChoiceError, match=message):
        recent.lines(*choice)


@pytest.fixture(scope="module")
def story() -> tuple[Story, RecentPoints]:
    story, reports = make_story(START_MS, minutes=40)
    recent = RecentPoints(str(metric) for metric in story.pipeline.engine.layout.scorer.metrics)
    for report in reports:
        recent.add_report(report)
    return story, recent


class TestExperiments:
    def test_lifts_and_intervals_equal_the_reports_at_the_time_of_the_experiments(self, story: tuple[Story, RecentPoints]) -> None:
        latest = story[0].report()
        (measure,) = (measure for measure in latest.experiments[0].variants[1].measures if (measure.metric, measure.k) == ("ndcg", 10))
        experiment_lines = next(
            experiment
            for experiment in plain(story[1].lines(HOUR_MS, "ndcg@10", "values"))["experiments"]
            if experiment["scope"] == "start"
        )
        (line,) = (line for line in experiment_lines["lines"] if line["variant"] == "treatment")
        assert (experiment_lines["experiment"], experiment_lines["ends_ms"][-1]) == (EXPERIMENT, latest.entered_ms)
        assert latest.entered_ms != latest.final_ms
        assert (line["lift"][-1], line["lift_lower"][-1], line["lift_upper"][-1]) == (measure.lift, measure.lift_lower, measure.lift_upper)
        assert (line["mean"][-1], line["error"][-1]) == (measure.mean, measure.error)

    def test_a_measure_of_experiments_only_can_be_chosen(self, story: tuple[Story, RecentPoints]) -> None:
        document = plain(story[1].lines(HOUR_MS, "user_hit_rate@10", "values"))
        assert {line["variant"] for line in document["experiments"][0]["lines"]} == {"control", "treatment"}
        assert all(value is None for line in document["windows"][0]["lines"] for value in line["values"])

    def test_experiments_keep_one_point_per_pane(self, story: tuple[Story, RecentPoints]) -> None:
        before = plain(story[1].lines(HOUR_MS, "ndcg@10", "values"))["experiments"][0]["ends_ms"]
        story[1].add_report(story[0].report())
        assert plain(story[1].lines(HOUR_MS, "ndcg@10", "values"))["experiments"][0]["ends_ms"] == before


class TestPaths:
    """The paths on a real port."""

    def ask(self, base: str, path: str, **choice: object) -> tuple[int, Any]:
        connection = HTTPConnection(urlsplit(base).netloc, timeout=10)
        connection.request("GET", f"{path}?{urlencode(choice)}")
        answer = connection.getresponse()
        content = json.loads(answer.read())
        connection.close()
        return answer.status, content

    def test_points_are_served_as_json_with_null_for_missing_values(self) -> None:
        pipeline = two_variants()
        answers = answers_of(pipeline)
        answers.show(pipeline.report())
        answers.show(pipeline.feed("impressions", shown("u9", "late", ts=START_MS + 33 * 60_000)).move_on(START_MS + HOUR_MS).report())
        with served(answers) as base:
            status, answer = self.ask(base, "/api/curves", window_ms=HOUR_MS, metric="ndcg@10")
            assert status == 200
            lines = next(window for window in answer["windows"] if window["view"] == "live")["lines"]
            late = next(line for line in lines if line["variant"] == "late" and not line["segments"])
            assert late["values"] == [None, 0.0]

    @pytest.mark.parametrize("window_ms", ["", "1h", "-1", "9" * 40, "٣"])
    def test_a_window_that_is_not_a_number_is_rejected(self, window_ms: str) -> None:
        with served(answers_of(two_variants())) as base:
            assert self.ask(base, "/api/curves", window_ms=window_ms, metric="ndcg@10") == (
                400,
                {"error": f"window_ms: got {window_ms!r}; allowed is a whole number of milliseconds"},
            )

    def test_an_unknown_metric_is_rejected_with_the_known_ones(self) -> None:
        pipeline = two_variants()
        answers = answers_of(pipeline)
        answers.show(pipeline.report())
        with served(answers) as base:
            status, answer = self.ask(base, "/api/curves", window_ms=HOUR_MS, metric="<script>")
            assert (status, answer["error"].startswith("metric: got '<script>'; allowed are ndcg@2, ndcg@10")) == (400, True)

    def test_before_the_first_report_there_are_no_lines(self) -> None:
        with served(answers_of(two_variants())) as base:
            assert self.ask(base, "/api/curves", window_ms=HOUR_MS, metric="ndcg@10") == (200, {"windows": [], "experiments": []})


def test_a_new_process_has_the_curves_of_the_one_before() -> None:
    """The final values are the same. The live ones are those of the panes as they are now."""
    story, reports = make_story(START_MS, minutes=45)
    before, after = RecentPoints(METRICS), RecentPoints(METRICS)
    for report in reports:
        before.add_report(report)
    fresh = replace(reports[-1], earlier_windows=story.pipeline.builder.earlier_windows(reports[-1]))
    after.add_report(fresh)
    after.add_report(replace(reports[-1], counts={}))  # a later report with the same ends must not take their place
    ours, theirs = (
        {window["view"]: window for window in plain(one.lines(HOUR_MS, "ndcg@10", "values"))["windows"]} for one in (after, before)
    )
    for view, least in (("live", 40), ("final", 10)):
        lines = theirs[view]["lines"]
        shown_at = [at for at, _ in enumerate(theirs[view]["ends_ms"]) if any(line["lists"][at] for line in lines)]
        assert len(shown_at) > least
        assert ours[view]["ends_ms"] == [theirs[view]["ends_ms"][at] for at in shown_at]
    final_at = shown_at
    for mine, other in zip(ours["final"]["lines"], theirs["final"]["lines"], strict=True):
        assert mine["values"] == [pytest.approx(other["values"][at]) for at in final_at]
