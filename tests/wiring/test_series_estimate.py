"""Tests of the estimate of series: what it counts, when it is near the limit, and which setting it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.config import Settings, load
from streammetrics.exporters.prometheus.rows import ReportRows
from streammetrics.exporters.prometheus.value_lines import lines_of
from streammetrics.windows.panes import Group
from streammetrics.wiring.reports import window_names
from streammetrics.wiring.series_estimate import NEAR_SHARE, expected_series, series_of
from tests.support.committed_state import ranker, two_variants, with_experiments
from tests.support.settings import NAMED, configured

WIDE = {"windows__segments": "surface,country", "metrics__cutoffs": "1,3,5,10"}


def settings_of(**flags: object) -> Settings:
    return load(None, {}, {key.replace("__", "."): value for key, value in flags.items()}).settings


def test_the_estimate_of_groups_is_near_the_series_of_their_report() -> None:
    pipeline = two_variants()
    report = with_experiments(pipeline.report(), ranker(), replace(ranker(), scope="day"))
    measured = {(each.metric, each.k) for variant in ranker().variants for each in variant.measures}
    experiments = pipeline.settings.experiments.model_copy(update={"metrics": tuple(f"{name}@{k}" for name, k in measured)})
    settings = pipeline.settings.model_copy(update={"experiments": experiments})
    rows = ReportRows(pipeline.engine.layout, window_names(pipeline.settings), 100).update(report, 1_000_000)
    of_windows = sum(lines_of(window, values) for window in report.windows for values in window.groups)
    series = series_of(settings, {values.group for window in report.windows for values in window.groups}).series
    assert of_windows <= len(rows)
    assert 0.7 * series <= len(rows) <= 1.1 * series


def test_without_names_an_experiment_has_two_variants_and_named_ones_have_their_own(tmp_path) -> None:
    assert "all traffic and 2 variants, in 2 windows, final and live, with 5 numbers each" in expected_series(settings_of()).sentence
    assert "all traffic and 2 variants" in expected_series(configured(tmp_path, NAMED).settings).sentence
    stages = "stages = [{ shares = { a = 9, b = 1, c = 1 } }, { start = 2026-01-31T09:00:00Z, shares = { a = 1, b = 1, c = 1 } }]"
    named = configured(tmp_path, f"{NAMED}\n[experiments.named.ramp]\n{stages}\n[experiments.named.other]").settings
    assert "all traffic and 7 variants" in expected_series(named).sentence


def test_segments_multiply_and_groups_max_limits() -> None:
    few, some = expected_series(settings_of()), expected_series(settings_of(windows__segments="surface"))
    assert some.series - few.series == 3 * 10 * 2 * (2 * 5 + 1)
    assert "each also by 10 values of 1 segment" in some.sentence
    limited = expected_series(settings_of(windows__segments="surface", windows__groups_max=10))
    assert limited.series - few.series == (10 - 3) * 2 * (2 * 5 + 1)


def test_it_is_near_from_eight_tenths_on_and_says_what_is_lost_beyond_the_limit() -> None:
    series = expected_series(settings_of()).series
    limit = int(series / NEAR_SHARE)
    near, calm = expected_series(settings_of(exporter__series_max=limit)), expected_series(settings_of(exporter__series_max=limit + 2))
    assert (near.is_near, calm.is_near) == (True, False)
    assert "80% of it" in near.sentence
    over = expected_series(settings_of(exporter__series_max=series - 1))
    assert "Series beyond it are left out of /metrics" in over.sentence


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        (WIDE, "windows.segments cuts most: about "),
        ({"metrics__cutoffs": "1,3,5,10,20"}, "metrics.cutoffs cuts most: about "),
        (
            {"windows__windows": "5m,1h,6h,12h", "metrics__names": "ndcg,mrr", "experiments__enabled": "false"},
            "windows.windows cuts most: about ",
        ),
        ({"metrics__names": "ndcg,mrr,map,hit_rate,recall,precision"}, "metrics.names cuts most: about "),
        ({"metrics__names": "ndcg", "windows__windows": "5m"}, "Raise exporter.series_max"),
    ],
)
def test_the_setting_that_cuts_most_is_named(flags: dict[str, str], setting: str) -> None:
    found = expected_series(settings_of(exporter__series_max=100, **flags))
    assert found.fix.startswith(setting)
    assert "aise exporter.series_max" in found.fix


def test_the_number_without_the_setting_is_that_of_such_settings() -> None:
    fewer = expected_series(settings_of(metrics__cutoffs="1,3,5,10", exporter__series_max=100)).series
    assert f"about {fewer:,} series without segments" in expected_series(settings_of(exporter__series_max=100, **WIDE)).fix


def test_no_segment_is_blamed_if_no_list_has_one() -> None:
    found = series_of(settings_of(exporter__series_max=100, **WIDE), {Group("", ""), Group("ranker", "a"), Group("ranker", "b")})
    assert "3 groups of all traffic and variants, in 2 windows" in found.sentence
    assert "windows.segments" not in found.fix
