"""Lives of experiments at their boundaries."""

from __future__ import annotations

from streammetrics.experiment_lives import Lives


def test_a_life_stays_while_a_list_just_within_its_idle_time_may_come() -> None:
    lives = Lives(idle_ms=10)
    life = lives.extend("ranker", "a", 5)
    assert lives.drop_ended(15) == []
    assert lives.near("ranker", 15) == [life]
    assert lives.drop_ended(16) == [life]
    assert lives.near("ranker", 15) == []
