"""A day has the arrivals of its whole run, stage by stage."""

from __future__ import annotations

from streammetrics.experiments import Stored, StoredStage
from streammetrics.experiments.arrivals import NO_ARRIVALS, Arrivals


def stage(entry: str, key: str, users: int) -> StoredStage:
    arrivals = Arrivals.of({"control": {7: users}}) if users else NO_ARRIVALS
    return StoredStage(entry=entry, key=key, moments={}, first_exposures={}, arrivals=arrivals)


def kept(*stages: StoredStage, users: int) -> Stored:
    return Stored(
        experiment="ranker",
        scope="day",
        moments={},
        first_exposures={},
        multi_exposed_users=0,
        arrivals=Arrivals.of({"control": {7: users}}),
        recent_lists={"control": {7: users}},
        stages=stages,
    )


def test_a_day_has_the_arrivals_and_lists_of_its_run_for_the_same_users_and_stage() -> None:
    run = kept(stage("", "", 5), stage("", "9", 2), stage("9", "9", 3), users=8)
    day = kept(stage("", "9", 1), stage("9", "9", 1), stage("9", "10", 1), users=2).with_times_of(run)
    assert (day.arrivals, day.recent_lists) == (run.arrivals, run.recent_lists)
    assert [each.arrivals.by_variant for each in day.stages] == [{"control": 2}, {"control": 3}, {}]
