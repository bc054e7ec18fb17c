"""Tests of the log of `run` that `/metrics` comes near its limit of series."""

from __future__ import annotations

from structlog.testing import capture_logs

from streammetrics.cli.run.series_log import SeriesLog
from streammetrics.wiring.series_estimate import expected_series, series_of
from tests.support.committed_state import Pipeline, two_variants
from tests.support.settings import configured


def test_the_start_warns_of_settings_near_the_limit_and_of_no_others(tmp_path) -> None:
    calm = configured(tmp_path).settings
    tight = configured(tmp_path, exporter__series_max=expected_series(calm).series + 1).settings
    with capture_logs() as logged:
        SeriesLog(calm).start()
    assert logged == []
    with capture_logs() as logged:
        SeriesLog(tight).start()
    assert [line["event"] for line in logged] == ["the limit of series is near"]
    assert logged[0]["reason"] == expected_series(tight).sentence
    assert "exporter.series_max" in logged[0]["fix"]


def test_groups_that_come_near_the_limit_are_logged_once() -> None:
    pipeline, nothing = two_variants(), Pipeline().report()
    report = pipeline.report()
    groups = {values.group for window in report.windows for values in window.groups}
    exporter = pipeline.settings.exporter.model_copy(update={"series_max": series_of(pipeline.settings, groups).series - 1})
    lines = SeriesLog(pipeline.settings.model_copy(update={"exporter": exporter}))
    with capture_logs() as logged:
        for each in (nothing, report, report, nothing, report):
            lines.take(each)
    assert [line["event"] for line in logged] == ["the limit of series is exceeded"] * 2, "and again after it was met no more"
