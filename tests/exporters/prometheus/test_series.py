"""The table of series: names that Prometheus takes, and a README that says the same."""

from __future__ import annotations

import re

import pytest

from streammetrics.exporters.prometheus.series import SERIES, TABLE, Series, markdown, sum_series, value_series
from streammetrics.metrics.names import METRIC_NAMES
from tests.support.paths import ROOT

README = ROOT / "README.md"
MARKED = re.compile(r"<!-- series -->\n(.*?)<!-- /series -->", re.DOTALL)
each_series = pytest.mark.parametrize("series", TABLE, ids=lambda series: series.name)


def test_no_name_comes_twice() -> None:
    assert len(SERIES) == len(TABLE)


@each_series
def test_names_are_of_streammetrics_in_small_letters(series: Series) -> None:
    assert re.fullmatch(r"streammetrics(_[a-z0-9]+)+", series.name)


@each_series
def test_the_kind_can_be_told_from_the_name(series: Series) -> None:
    assert series.name.endswith("_total") is (series.kind == "counter")
    assert series.name.endswith("_info") is (series.kind == "info")


@each_series
def test_a_query_says_the_family_and_what_openmetrics_puts_behind_that_of_its_kind(series: Series) -> None:
    assert series.family + {"counter": "_total", "info": "_info"}.get(series.kind, "") == series.name


@each_series
def test_a_unit_ends_the_name(series: Series) -> None:
    assert series.name.endswith(("_seconds", "_records", "_bytes")) is bool(series.unit)
    assert series.name.endswith(series.unit)


@each_series
def test_help_is_a_sentence(series: Series) -> None:
    assert re.fullmatch(r"\S[^\n|]*\.", series.help)


def test_no_series_has_a_name_that_a_suffix_of_another_makes() -> None:
    histograms = [series.name for series in TABLE if series.kind == "histogram"]
    made = {name + suffix for name in histograms for suffix in ("_bucket", "_sum", "_count")} | {series.family for series in TABLE}
    assert len(made) == len(TABLE) + 3 * len(histograms)
    assert made.isdisjoint({series.name for series in TABLE if series.name != series.family})


@pytest.mark.parametrize("metric", METRIC_NAMES)
def test_every_metric_has_its_gauges_and_its_sums(metric: str) -> None:
    gauges = {value_series(metric, view, with_feedback) for view in ("final", "live") for with_feedback in (False, True)}
    sums = {sum_series(metric, kind) for kind in (("hits", "places") if metric == "item_hit_rate" else ("sum",))}
    assert len(gauges) == 4
    assert gauges | sums <= SERIES.keys()


def test_every_series_has_a_line_in_the_table_for_people() -> None:
    lines = markdown()
    assert all(f"| `{series.listed or series.name}` | {series.kind} |" in lines for series in TABLE)


def test_the_readme_holds_the_table() -> None:
    found = MARKED.search(README.read_text(encoding="utf-8"))
    assert found is not None, "README.md has no <!-- series --> ... <!-- /series -->"
    assert found[1].strip() == markdown().strip(), "write anew with: python -m streammetrics.exporters.prometheus.series"
