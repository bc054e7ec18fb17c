"""Headline measures: the measures that are shown first."""

from __future__ import annotations

from streammetrics.reports.history import MEASURES_MAX, headline_measures
from tests.support.experiment_samples import experiment

WORSE = experiment({"control": 0.5, "treatment": 0.4})


def test_headline_measures_are_those_that_page_and_one_per_headline_family() -> None:
    assert headline_measures(experiment({"control": 0.5, "treatment": 0.4}, paging=("dcg@10",))) == (
        ("dcg", 10),
        ("ndcg", 10),
        ("hit_rate", 5),
        ("user_hit_rate", 5),
    )
    assert headline_measures(experiment({"control": 0.5, "treatment": 0.4}, users=20)) == ()
    assert len(headline_measures(WORSE)) <= MEASURES_MAX
