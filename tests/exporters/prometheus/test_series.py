"""The table of series: Prometheus accepts its names, and the page of the exporters shows the same table."""

from __future__ import annotations

import re

from streammetrics.exporters.prometheus.family import Series
from streammetrics.exporters.prometheus.metric_series import sum_series, value_series
from streammetrics.exporters.prometheus.series import SERIES, TABLE, markdown
from streammetrics.metrics.names import METRIC_NAMES
from tests.support.paths import ROOT
from tests.support.tables import for_each

PAGE = ROOT / "streammetrics" / "exporters" / "README.md"
MARKED = re.compile(r"<!-- series -->\n(.*?)<!-- /series -->", re.DOTALL)
each_series = for_each(TABLE, lambda series: series.name)


def test_names_are_unique() -> None:
    assert len(SERIES) == len(TABLE)


@each_series
def test_names_start_with_streammetrics_and_are_lower_case(series: Series) -> None:
    assert re.fullmatch(r"streammetrics(_[a-z0-9]+)+", series.name)


@each_series
def test_the_suffix_shows_the_kind(series: Series) -> None:
    assert series.name.endswith("_total") is (series.kind == "counter")
    assert series.name.endswith("_info") is (series.kind == "info")


@each_series
def test_the_name_is_the_family_with_the_suffix_of_its_kind(series: Series) -> None:
    assert series.family + {"counter": "_total", "info": "_info"}.get(series.kind, "") == series.name


@each_series
def test_the_name_ends_with_the_unit(series: Series) -> None:
    assert series.name.endswith(("_seconds", "_records", "_bytes")) is bool(series.unit)
    assert series.name.endswith(series.unit)


@each_series
def test_the_help_text_is_one_line_that_ends_with_a_period(series: Series) -> None:
    assert re.fullmatch(r"\S[^\n|]*\.", series.help)


def test_no_name_equals_another_name_with_a_suffix() -> None:
    histograms = [series.name for series in TABLE if series.kind == "histogram"]
    made = {name + suffix for name in histograms for suffix in ("_bucket", "_sum", "_count")} | {series.family for series in TABLE}
    assert len(made) == len(TABLE) + 3 * len(histograms)
    assert made.isdisjoint({series.name for series in TABLE if series.name != series.family})


@for_each(METRIC_NAMES)
def test_every_metric_has_gauges_and_sums(metric: str) -> None:
    gauges = {value_series(metric, view) for view in ("final", "live")}
    sums = {sum_series(metric, kind) for kind in (("hits", "places") if metric == "item_hit_rate" else ("sum",))}
    assert len(gauges) == 2
    assert gauges | sums <= SERIES.keys()


def test_every_series_has_a_line_in_the_markdown_table() -> None:
    lines = markdown()
    assert all(f"| `{series.listed or series.name}` | {', '.join(series.labels)} |" in lines for series in TABLE)


def test_the_page_names_the_series_whose_kind_their_names_do_not_show() -> None:
    histograms = [series.name for series in TABLE if series.kind == "histogram"]
    assert histograms == ["streammetrics_commit_seconds"]
    assert "`streammetrics_commit_seconds` is a histogram" in PAGE.read_text(encoding="utf-8")


def test_the_page_of_the_exporters_has_the_generated_table() -> None:
    match = MARKED.search(PAGE.read_text(encoding="utf-8"))
    assert match is not None, f"{PAGE} has no <!-- series --> ... <!-- /series -->"
    assert match[1].strip() == markdown().strip(), "replace it with the output of: python -m streammetrics.exporters.prometheus.series"


@each_series
def test_help_sentences_have_at_most_40_words(series: Series) -> None:
    assert max(len(sentence.split()) for sentence in series.help.split(". ")) <= 40
