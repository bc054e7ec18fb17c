"""Tests of experiment runs at their boundaries."""

from __future__ import annotations

from streammetrics.enrolment.runs import ExperimentRuns


def test_a_run_ends_when_no_list_within_its_idle_time_may_arrive() -> None:
    runs = ExperimentRuns(idle_ms=10)
    run = runs.extend("ranker", "a", 5)
    assert runs.drop_ended(15) == []
    assert runs.near("ranker", 15) == [run]
    assert runs.drop_ended(16) == [run]
    assert runs.near("ranker", 15) == []
