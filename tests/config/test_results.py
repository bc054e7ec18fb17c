"""Tests of the settings that change results: grades, metrics and windows."""

from __future__ import annotations

from streammetrics.config import (
    Settings,
)
from streammetrics.config.results import PANES_MAX
from streammetrics.events.grades import parse_grades
from streammetrics.events.model import EventLimits
from streammetrics.metrics.names import ALL_METRIC_NAMES, METRIC_NAMES
from tests.support.settings import by_flags, problem_of


def test_grades_are_normalized():
    assert by_flags({"join.grades": "click = 1.0 ,purchase=3"}).settings.join.grades == "purchase=3, click=1"
    assert parse_grades(Settings().join.grades).grades == (0, 1, 2, 3)


def test_a_problem_in_the_grades_names_the_rule():
    problem = problem_of(join__grades="click=1, watch<3=1")
    assert "'watch<3=1'" in problem.allowed


def test_metrics_must_be_known_and_distinct():
    for names in (["ndgc"], ["mrr", "mrr"], []):
        assert problem_of(metrics__names=names).key == "metrics.names"


def test_a_metric_name_with_a_cut_off_is_rejected_with_advice():
    assert problem_of(metrics__names=["ndcg@10"]).allowed.endswith("ndcg@10 is not a metric; put its cut-off in metrics.cutoffs")


def test_only_the_metrics_of_the_stream_can_be_chosen():
    names = by_flags({"metrics.names": ",".join(METRIC_NAMES)}).settings.metrics.names
    assert names == METRIC_NAMES
    for name in {*ALL_METRIC_NAMES} - {*METRIC_NAMES}:
        rule = problem_of(metrics__names=["mrr", name]).allowed
        assert rule == f"must be a list of distinct names from {', '.join(METRIC_NAMES)}; {name} is not a metric"


def test_event_limits_match_the_event_model():
    assert Settings().events.limits == EventLimits()
    assert by_flags({"events.items_max": 50}).settings.events.limits == EventLimits(items_max=50)


def test_a_window_that_is_not_a_whole_number_of_panes_is_rejected():
    problem = problem_of(windows__windows=["2m", "90s"], windows__pane_ms=60_000)
    assert (problem.key, problem.value) == ("windows.windows", '["2m", "90s"]')
    assert "90s (90000 ms)" in problem.allowed
    assert "windows.pane_ms is 60000" in problem.allowed


def test_a_segment_name_with_an_equals_sign_is_rejected():
    problem = problem_of(windows__segments=["a", "a=b"])
    assert (problem.key, problem.value) == ("windows.segments", '["a", "a=b"]')
    assert problem.allowed == (
        "must be a list of at most 32 distinct names without =; a segment name cannot contain =, because segments are shown as name=value"
    )


def test_the_same_window_in_two_spellings_is_rejected():
    assert "twice" in problem_of(windows__windows=["60m", "1h"]).allowed


def test_the_default_retention_is_the_longest_window_plus_one_day():
    assert Settings().windows.retention_ms == 3_600_000 + 86_400_000
    assert by_flags({"windows.windows": "2d,1h"}).settings.windows.retention_ms == 3 * 86_400_000


def test_the_retention_must_be_at_least_the_longest_window():
    assert by_flags({"windows.retention_ms": 3_600_000}).settings.windows.retention_ms == 3_600_000
    assert problem_of(windows__retention_ms=3_599_999).key == "windows.retention_ms"


def test_the_number_of_kept_panes_is_limited():
    most = PANES_MAX * 60_000
    assert by_flags({"windows.retention_ms": most}).settings.windows.retention_ms == most
    problem = problem_of(windows__retention_ms=most + 1)
    assert problem.key == "windows.retention_ms"
    assert problem.allowed.endswith("set windows.pane_ms to at least 60001")


def test_too_many_panes_are_reported_for_the_windows_if_the_retention_is_a_default():
    most = f"{PANES_MAX * 1_000 - 86_400_000}ms"
    assert by_flags({"windows.windows": most, "windows.pane_ms": 1_000}).settings.windows.retention_ms == PANES_MAX * 1_000
    problem = problem_of(windows__windows=["25h"], windows__pane_ms=1_000)
    assert (problem.key, problem.value) == ("windows.windows", '["25h"]')
    assert "for the longest window plus one day, 176400000 ms" in problem.allowed
    assert problem.allowed.endswith("set windows.pane_ms to at least 1764")


def test_an_attribution_time_above_the_gap_is_a_warning():
    assert by_flags({"join.attribution_ms": 1_800_000}).warnings == ()
    (warning,) = by_flags({"join.attribution_ms": 1_800_001}).warnings
    assert warning.startswith("join.attribution_ms (1800001) exceeds join.gap_ms (1800000)")
