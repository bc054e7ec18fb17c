"""Arms in which all users have the same value: 0 of 2,000 against 2,000 of 2,000 is found, and 0 against 300 has a reason in words."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.special import betaln  # type: ignore[import-untyped]  # scipy has no stubs

from streammetrics.experiments import ExperimentReport, Measures, Policy, Stored, build_report, choose_scales, of_users
from streammetrics.experiments.no_spread import least_difference, log_evidence_apart
from streammetrics.exporters.prometheus.experiment_rows import measure_rows
from streammetrics.metrics import Scorer
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.names import Metric
from tests.experiments.samples import at_most

MEASURES = Measures([*Scorer(["hit_rate@10", "dcg@10"]).columns, *EngagementLayout([Metric("zero_result_rate")]).columns])
ONE = 1 << 40
GRID = np.linspace(1e-6, 1 - 1e-6, 200_001)
users = st.integers(1, 3_000)


def log_mean(ones: int, zeros: int) -> float:
    """The mean likelihood with the prior Beta(1/2, 1/2) of each arm, from the beta function."""
    return float(betaln(ones + 0.5, 0.5) + betaln(0.5, zeros + 0.5) - 2 * betaln(0.5, 0.5))


@given(users, users, st.floats(0.5, 1.5))
@example(2_000, 2_000, 1.0)
@example(10, 2_000, 0.99)
@example(2_000, 10, 1.01)
def test_the_evidence_is_the_mean_likelihood_against_the_greatest_one_of_the_hypothesis(ones: int, zeros: int, ratio: float) -> None:
    greatest = (ones * np.log(np.minimum(ratio * GRID, 1)) + zeros * np.log1p(-GRID)).max()
    assert log_evidence_apart(ones, zeros, ratio) == pytest.approx(log_mean(ones, zeros) - greatest, rel=1e-4, abs=1e-4)


@given(users, users)
@example(2_000, 2_000)
@example(100, 3_000)
@example(2, 2)
def test_the_least_difference_is_the_largest_that_is_certain(ones: int, zeros: int) -> None:
    def evidence(bound: float) -> float:
        other = GRID[1 - bound > GRID]
        return log_mean(ones, zeros) - float((ones * np.log(other + bound) + zeros * np.log1p(-other)).max())

    found = least_difference(ones, zeros, 0.05)
    if found is None:
        assert evidence(0.0) < math.log(20) + 1e-4
    else:
        assert evidence(max(found - 1e-3, 0.0)) >= math.log(20) - 1e-3
        assert found > 1 - 2e-3 or evidence(found + 1e-3) < math.log(20)


@pytest.mark.parametrize(("count", "log_e", "least"), [(2_000, 2_763.8, 0.994), (100, 132.9, 0.914), (10, 10.4, 0.447)])
def test_known_values(count: int, log_e: float, least: float) -> None:
    assert round(log_evidence_apart(count, count, 1.0), 1) == log_e
    assert least_difference(count, count, 0.05) == pytest.approx(least, abs=6e-4)


def report(control: Sequence[Sequence[int]], treatment: Sequence[Sequence[int]], **rules: object) -> ExperimentReport:
    moments = {"control": of_users(MEASURES, control), "treatment": of_users(MEASURES, treatment)}
    policy = Policy(**{"paging": ("hit_rate@10",), **rules})  # type: ignore[arg-type]
    first = {name: sums[0] for name, sums in moments.items()}
    stored = Stored(experiment="ranker", scope="start", moments=moments, first_exposures=first, multi_exposed_users=0)
    return build_report(MEASURES, policy, stored, choose_scales(MEASURES, policy, stored, {}))


def user(*, hit: bool, empty: bool = False, dcg: float = 0.0) -> list[int]:
    return [1, ONE * hit, int(dcg * ONE), int(empty)]


HIT, MISS = user(hit=True), user(hit=False)


@pytest.mark.parametrize(
    ("control", "treatment", "word", "gate"),
    [(HIT, MISS, "regressed", "fail"), (MISS, HIT, "improved", "pass"), (MISS, MISS, "inconclusive", "wait")],
)
def test_none_of_2_000_against_all_of_2_000_is_found(control: list[int], treatment: list[int], word: str, gate: str) -> None:
    found = report([control] * 2_000, [treatment] * 2_000)
    assert (found.verdict.word, found.gate and found.gate.word) == (word, gate)
    measure = found.variants[1].measures[0]
    if word == "regressed":
        words = "hit_rate@10 is 0 % against 100 % in control; the difference is at least 99.4 points"
        assert found.verdict.reason == f"treatment: {words}; 95 % confidence, safe to check at any time"
        assert (measure.lift, measure.lift_lower) == (-1.0, -1.0)
        assert measure.judged_lift_upper == measure.lift_upper == measure.difference_upper == pytest.approx(-0.9941, abs=1e-4)
    elif word == "improved":
        assert measure.lift is None
        assert measure.difference_lower == pytest.approx(0.9941, abs=1e-4)
        assert measure.p_value == pytest.approx(0.0)


def test_a_few_users_are_not_enough() -> None:
    assert report([HIT] * 99, [MISS] * 2_000).verdict.word == "inconclusive"
    assert report([HIT] * 100, [MISS] * 100).verdict.word == "regressed"
    assert report([HIT] * 12, [MISS] * 12, min_users=2, effective_users_min=0, hit_users_min=0).verdict.word == "regressed"
    assert report([HIT] * 2, [MISS] * 2, min_users=2, effective_users_min=0, hit_users_min=0).verdict.word == "inconclusive"


def test_a_control_that_has_none_of_it_gives_a_reason_in_words_and_pages() -> None:
    """No empty list in 2,000 users of the control, and 300 in 2,000 of the treatment."""
    filled, empty = user(hit=False), user(hit=False, empty=True)
    found = report([filled] * 2_000, [empty] * 300 + [filled] * 1_700, paging=("zero_result_rate",))
    (measure,) = [each for each in found.variants[1].measures if each.paging]
    assert (found.verdict.word, found.gate and found.gate.word) == ("regressed", "fail")
    assert measure.difference_lower is not None
    assert 0.11 < measure.difference_lower < 0.13
    words = f"zero_result_rate is 15 % against 0 % in control; the difference is at least {100 * measure.difference_lower:.3g} points"
    assert found.verdict.reason.startswith(f"treatment: {words}; 95 % confidence")
    assert (measure.lift, measure.judged_lift_upper) == (None, -1.0)
    pages = [row.value for row in measure_rows(found) if row.series == "judged_lift_upper" and row.variant == "treatment"]
    assert pages == [-1.0]


def test_constants_of_a_measure_without_a_bound_give_no_confidence() -> None:
    found = report([user(hit=True, dcg=1.0)] * 2_000, [user(hit=True, dcg=0.0)] * 2_000, paging=("dcg@10",))
    assert found.verdict.reason.endswith("all users have the same value, so no confidence can be given")


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_users_who_are_alike_in_both_arms_are_never_found_apart(share: float) -> None:
    """Rare and frequent events without a difference, at every look at which one arm has none and the other has all."""
    random, wrong = np.random.default_rng(20_261_126), 0
    for chance in (0.01, 0.5, 0.99):
        for _ in range(200):
            treated, event = random.random(400) < share, random.random(400) < chance
            counts = [np.cumsum(mask) for mask in (treated, treated & event, ~treated, ~treated & event)]
            for own, hits, others, other_hits in zip(*(each.tolist() for each in counts), strict=True):
                if own and others and (hits, other_hits) in ((own, 0), (0, others)):
                    ones, zeros = (own, others) if hits else (others, own)
                    if log_evidence_apart(ones, zeros, 1.0) >= math.log(20):
                        wrong += 1
                        break
    assert wrong <= at_most(0.05, 600)
