"""An experiment without a verdict says when it comes, and how its live lists compare."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streammetrics.cli.output.report_reader import read_report
from streammetrics.reports.first_numbers import LISTS_MIN
from streammetrics.reports.history import History
from streammetrics.reports.published import plain, published
from tests.support.command_line import called
from tests.support.committed_state import MINUTE_MS, START_MS, Pipeline, clicked, shown

FINAL_MS = 31 * MINUTE_MS + 5_000
"""join.attribution_ms, lateness_ms and out_of_orderness_ms at their defaults."""


def fed(lists: int, control: str = "control") -> Pipeline:
    """Return a task with so many lists of each of two variants: all of the control are clicked at rank 1, of the other at rank 2."""
    pipeline = Pipeline()
    pipeline.feed("impressions", *[shown(f"{arm}{number}", arm) for arm in (control, "treatment") for number in range(lists)])
    items = ((control, "a"), ("treatment", "b"))
    return pipeline.feed("feedback", *[clicked(f"{arm}{number}", item) for arm, item in items for number in range(lists)])


def test_lifts_are_those_of_live_lists_without_an_interval() -> None:
    report = fed(LISTS_MIN).move_on(START_MS + 5 * MINUTE_MS).report()
    (awaited,) = report.awaited
    assert (awaited.experiment, awaited.control, awaited.measure, awaited.control_lists) == ("ranker", "control", "ndcg@10", LISTS_MIN)
    assert awaited.shown().first_verdict_ms == START_MS + FINAL_MS
    (live_lift,) = awaited.lifts
    assert (live_lift.variant, round(live_lift.lift, 4), live_lift.lists) == ("treatment", -0.3691, LISTS_MIN)  # 1 / log2(3) - 1
    first, live = awaited.sentences()
    assert first.startswith(
        "The first verdict comes between 2024-11-21 10:31 UTC and 2024-11-21 10:41 UTC, or later if users are few: lists"
    )
    assert live.startswith(
        "Live, without confidence: treatment has 36.9 % lower ndcg@10 than control (100 and 100 lists of the last 60 min)"
    )


@pytest.mark.parametrize(("lists", "control"), [(LISTS_MIN - 1, "control"), (LISTS_MIN, "old")], ids=["few lists", "no control"])
def test_without_a_control_or_with_few_lists_there_is_no_lift(lists: int, control: str) -> None:
    (awaited,) = fed(lists, control).move_on(START_MS + 5 * MINUTE_MS).report().awaited
    assert awaited.lifts == ()
    assert len([*awaited.sentences()]) == 1


def test_an_experiment_with_statistics_is_not_awaited(tmp_path: Path) -> None:
    for minutes, awaited, experiments in ((10, ["ranker"], set()), (36, [], {"ranker"})):
        events, report = tmp_path / f"{minutes}.ndjson", tmp_path / f"{minutes}.json"
        assert called("simulate", "--out", events, "--minutes", str(minutes)).returncode == 0
        assert called("replay", events, "--no-flush", "--report", report).returncode == 0
        document = json.loads(report.read_bytes())
        assert [awaited_experiment["experiment"] for awaited_experiment in document["awaited"]] == awaited
        assert {experiment["experiment"] for experiment in document["experiments"]} == experiments


def test_report_shows_what_is_awaited_and_finds_it_by_name() -> None:
    pipeline = fed(LISTS_MIN).move_on(START_MS + 5 * MINUTE_MS)
    results = read_report(plain(published(pipeline.report(), pipeline.engine.layout, History())), "here").only(["ranker"])
    assert [(awaited_experiment.experiment, len(awaited_experiment.sentences)) for awaited_experiment in results.awaited] == [("ranker", 2)]
