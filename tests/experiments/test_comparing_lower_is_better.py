"""Measures that get better when they fall: verdict, gate, plan and words know the direction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streammetrics.experiments import Policy
from streammetrics.experiments.gate import within_gate_margin
from streammetrics.experiments.verdict import MeasureComparison, evidence, judge
from streammetrics.statistics.estimates import Estimate
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale

ABANDONMENT = Measure("abandonment_rate", 0, "ratio", 2, 3, 0, lower_is_better=True)
NDCG = Measure("ndcg", 10, "mean", 2, 1, 40)
SCALE = MeasureScale(0.02, 0.4)


def compared(measure: Measure, mean: float, error: float = 0.003) -> MeasureComparison:
    return MeasureComparison(measure, Estimate(mean, error**2, 9_000), Estimate(0.4, error**2, 9_000), SCALE)


@pytest.mark.parametrize(("mean", "word"), [(0.45, "regressed"), (0.35, "improved"), (0.4, "inconclusive")])
def test_a_rise_is_a_regression(mean: float, word: str) -> None:
    verdict = judge(Policy(), [compared(ABANDONMENT, mean)])["abandonment_rate"]
    assert verdict.word == word


def test_the_words_name_the_true_direction() -> None:
    verdict = judge(Policy(), [compared(ABANDONMENT, 0.45)])["abandonment_rate"]
    assert verdict.reason.startswith("12.5 % higher abandonment_rate than control")


@pytest.mark.parametrize("change", [-0.05, -0.01, 0.0, 0.01, 0.05])
def test_the_evidence_is_that_of_the_opposite_change_of_a_usual_measure(change: float) -> None:
    """The errors of both arms are alike, so only the margin's share of the control's error differs."""
    policy = Policy(margin=0.0)
    lower, higher = evidence(policy, compared(ABANDONMENT, 0.4 + change)), evidence(policy, compared(NDCG, 0.4 - change))
    assert lower == pytest.approx(higher)


def test_safe_and_the_gate_reject_a_rise_of_the_margin() -> None:
    policy = Policy(margin=0.05, gate_margin=0.05, paging=("abandonment_rate",))
    for mean, is_within in ((0.4, True), (0.42, False), (0.3, True)):
        comparison = compared(ABANDONMENT, mean)
        assert (within_gate_margin(policy, [comparison]) == {"abandonment_rate"}) is is_within
    assert judge(policy, [compared(ABANDONMENT, 0.4)])["abandonment_rate"].word == "safe"


def test_two_measures_agree_when_one_falls_and_the_other_rises() -> None:
    policy = Policy(paging=("ndcg@10", "abandonment_rate"))
    verdicts = judge(policy, [compared(NDCG, 0.5), compared(ABANDONMENT, 0.3)])
    assert {name: verdict.word for name, verdict in verdicts.items()} == {"ndcg@10": "improved", "abandonment_rate": "improved"}
    contradicting = judge(policy, [compared(NDCG, 0.5), replace_mean(compared(ABANDONMENT, 0.3), 0.5)])
    assert {verdict.word for verdict in contradicting.values()} == {"mixed"}


def replace_mean(comparison: MeasureComparison, mean: float) -> MeasureComparison:
    return comparison._replace(treatment=replace(comparison.treatment, mean=mean))
