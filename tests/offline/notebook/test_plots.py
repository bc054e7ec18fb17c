"""Plots show the numbers of the tables, and say what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest

import streammetrics
from streammetrics.errors import StreammetricsError
from streammetrics.offline.notebook.plots import plot_by_cutoff, plot_by_segment, plot_lift
from streammetrics.offline.notebook.replayed import Replayed


@pytest.fixture(autouse=True)
def _without_a_display() -> Iterator[None]:
    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415 (after the choice of the backend)

    yield
    pyplot.close("all")


def test_a_metric_by_cutoff_has_one_line_per_evaluation() -> None:
    judged = streammetrics.from_grades([[0, 1, 2], [1, 0, 0], [0, 0, 1]])
    one = streammetrics.evaluate(judged, ["ndcg@3", "ndcg@1", "ndcg@2", "map"])
    axes = plot_by_cutoff({"old": one, "new": one})
    line = axes.containers[0].lines[0]
    assert line.get_xdata().tolist() == [1, 2, 3]
    assert line.get_ydata().tolist() == [one.means[f"ndcg@{k}"] for k in (1, 2, 3)]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["old", "new"]
    with pytest.raises(StreammetricsError, match="got 'mrr'; allowed are map, ndcg"):
        plot_by_cutoff(one, "mrr")


def test_a_metric_by_segment_has_one_bar_per_value(result: Replayed) -> None:
    axes = plot_by_segment(result, "ndcg@10", "surface")
    hour = result.windows.where(view="final", metric="ndcg", k=10, experiment="", window_ms=3_600_000).rows()
    expected = {row["segments"].partition("=")[2]: row["value"] for row in hour if row["segments"]}
    heights = {label.get_text(): bar.get_height() for label, bar in zip(axes.get_xticklabels(), axes.patches, strict=True)}
    assert heights == {name or "(none)": value for name, value in expected.items()}
    with pytest.raises(StreammetricsError, match="got no values of ndcg@10 by 'country'"):
        plot_by_segment(result, "ndcg@10", "country")


def test_lifts_over_time_have_a_band(result: Replayed, tmp_path: Path) -> None:
    history = result.history.rows()
    assert history
    metric, experiment = f"{history[0]['metric']}@{history[0]['k']}", history[0]["experiment"]
    axes = plot_lift(result, metric, experiment)
    treatments = {row["variant"] for row in history if row["experiment"] == experiment}
    assert len(axes.collections) == len(treatments)
    axes.figure.savefig(tmp_path / "lift.svg")
    assert (tmp_path / "lift.svg").stat().st_size > 1_000
    with pytest.raises(StreammetricsError, match="got 'none'; allowed are those with a history"):
        plot_lift(result, metric, "none")
