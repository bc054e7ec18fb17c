"""Lives of experiments at their boundaries."""

from __future__ import annotations

from streammetrics.engine.experiment_runs import ExperimentRuns


def test_a_life_stays_while_a_list_just_within_its_idle_time_may_come() -> None:
    runs = ExperimentRuns(idle_ms=10)
    run = runs.extend("ranker", "a", 5)
    assert runs.drop_ended(15) == []
    assert runs.near("ranker", 15) == [run]
    assert runs.drop_ended(16) == [run]
    assert runs.near("ranker", 15) == []
