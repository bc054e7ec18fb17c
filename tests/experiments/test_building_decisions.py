"""Decisions get all that they need: covariances, treatments, margins. The parts are tested alone; these are the lines that call them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from streammetrics.experiments import CovarianceLayout, Policy, StoredSums, build_report, choose_scales, cross_of_users, of_users
from streammetrics.experiments.cell_estimates import Pair, PairEstimate
from streammetrics.experiments.experiment_report import ExperimentReport, MeasureReport
from streammetrics.experiments.verdict import MeasureComparison, evidence, judge, log_evidence_within
from streammetrics.statistics.estimates import (
    Estimate,
    difference,
    estimate,
    lift_interval,
    log_evidence_above,
    log_evidence_below,
    variance_of,
    z_value,
)
from streammetrics.statistics.measures import Measure
from streammetrics.statistics.sequence import MeasureScale, p_value, scale_of
from tests.support.columns import MEASURES, ONE, WITH_COVARIATES
from tests.support.experiment_samples import arm, in_one_hour, stored
from tests.support.tables import for_each

NDCG = MEASURES.named("ndcg@10")
SCALE = MeasureScale(0.04, 0.4)
DECIDING = ("ndcg@10", "hit_rate@5", "item_hit_rate@5")


def compared(lift: float, error: float = 0.004, measure: Measure = NDCG, covariance: float = 0.0) -> MeasureComparison:
    control, treatment = (Estimate(0.4 * (1 + change), error**2, 5_000) for change in (0.0, lift))
    return MeasureComparison(measure, treatment, control, SCALE, covariance=covariance)


@pytest.mark.parametrize("covariance", [0.0, 8e-6, -8e-6])
def test_all_evidence_has_the_covariance_of_the_arms(covariance: float) -> None:
    comparison, policy = compared(-0.04, covariance=covariance), Policy(margin=0.02)
    arms = comparison.treatment, comparison.control
    log_evidence = evidence(policy, comparison)
    assert log_evidence.drop == log_evidence_below(*arms, -0.02, SCALE.mixture(0.08), covariance)
    assert log_evidence.rise == log_evidence_above(*arms, 0.0, SCALE.mixture(0.1), covariance)
    assert log_evidence.safe == log_evidence_above(*arms, -0.02, SCALE.mixture(0.02), covariance)
    assert log_evidence_within(comparison, 0.05) == log_evidence_above(*arms, -0.05, SCALE.mixture(0.05), covariance)


@pytest.mark.parametrize(("margin", "effect"), [(0.0, 0.1), (0.01, 0.09), (0.05, 0.05), (0.08, 0.05), (0.3, 0.05)])
def test_a_drop_detects_minimum_lift_less_the_margin_but_at_least_half_of_it(margin: float, effect: float) -> None:
    comparison = compared(-0.4)
    expected = log_evidence_below(comparison.treatment, comparison.control, -margin, SCALE.mixture(effect))
    assert evidence(Policy(margin=margin), comparison).drop == pytest.approx(expected)


def with_evidence(value: float, measure: Measure) -> MeasureComparison:
    """A comparison whose E of a drop is this value."""
    low, high = -0.5, 0.5
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if evidence(Policy(margin=0.0), compared(middle, measure=measure)).drop < math.log(value) else (middle, high)
        )
    return compared((low + high) / 2, measure=measure)


@for_each(
    [
        ((25, 60, 0.4), {"hit_rate@5"}),
        ((25, 60, 16), {"ndcg@10", "hit_rate@5"}),
        ((25, 60, 14), {"hit_rate@5"}),
        ((21, 21, 21), {*DECIDING}),
        ((21, 21, 17), set()),
        ((59, 0.4, 0.4), set()),
        ((61, 0.4, 0.4), {"ndcg@10"}),
    ]
)
def test_a_measure_is_certain_only_with_the_smallest_of_the_others(case: tuple[Sequence[float], set[str]]) -> None:
    """E_i, and its means with the smallest one and the smallest two of the others, are at least 20."""
    values, certain = case
    policy = Policy(margin=0.0, paging=DECIDING)
    verdicts = judge(policy, [with_evidence(value, MEASURES.named(name)) for value, name in zip(values, DECIDING, strict=True)])
    assert {name for name, verdict in verdicts.items() if verdict.word == "regressed"} == certain


def test_a_deciding_measure_without_a_comparison_counts_as_no_evidence() -> None:
    policy = Policy(margin=0.0, paging=("ndcg@10", "hit_rate@5"))
    assert [judge(policy, [with_evidence(value, NDCG)])["ndcg@10"].word for value in (30, 41)] == ["inconclusive", "regressed"]


FROZEN = {"ndcg@10": 0.03, "ndcg@10 control": 0.5}


def of_arms(treatment: Sequence[int], control: Sequence[int]) -> MeasureComparison:
    treatment_estimate, against = estimate(MEASURES, NDCG, treatment), estimate(MEASURES, NDCG, control)
    assert treatment_estimate is not None
    assert against is not None
    return MeasureComparison(NDCG, treatment_estimate, against, MeasureScale(0.03, 0.5))


def is_between(log_e: float) -> bool:
    """Whether E is certain for one treatment, and not for three."""
    return math.log(22) < log_e < math.log(55)


def reported(arms: Mapping[str, Sequence[int]], policy: Policy) -> MeasureReport:
    """The deciding measure of the treatment "a"."""
    first = {name: sums[0] for name, sums in arms.items()}
    kept = StoredSums(experiment="x", scope="start", first_list_users=first, **in_one_hour(MEASURES, arms))
    report = build_report(MEASURES, policy, kept, FROZEN)
    return next(measure for variant in report.variants if variant.variant == "a" for measure in variant.measures if measure.paging)


def test_treatments_share_the_error_of_the_verdict_and_of_the_gate() -> None:
    control, same = arm(1_400, 0.5, 1), arm(1_400, 0.5, 2)
    policy = Policy(paging=("ndcg@10",), margin=0.0)
    arms = (arm(1_400, 0.5 - drop / 1_000, 3) for drop in range(100))
    worse = next(arm for arm in arms if is_between(evidence(policy, of_arms(arm, control)).drop))
    words = [reported({"control": control, "a": worse, **dict.fromkeys(others, same)}, policy) for others in ("", "bc")]
    assert [measure.verdict and measure.verdict.word for measure in words] == ["regressed", "inconclusive"]
    margins = (margin / 1_000 for margin in range(5, 300))
    margin = next(candidate for candidate in margins if is_between(log_evidence_within(of_arms(same, control), candidate)))
    wide = replace(policy, gate_margin=margin)
    measures = [reported({"control": control, "a": same, **dict.fromkeys(others, worse)}, wide) for others in ("", "bc")]
    assert [comparison.within_gate_margin for comparison in measures] == [True, False]
    assert reported({"control": control, "a": same}, replace(wide, margin=margin, gate_margin=margin / 2)).within_gate_margin is False


def test_the_reduced_interval_decides_only_if_the_policy_says_so() -> None:
    reports = {}
    for uses_it in (False, True):
        kept = stored({"control": 0.5, "treatment": 0.47}, whole=True)
        policy = Policy(paging=("ndcg@10",), cuped_verdict=uses_it)
        scales = choose_scales(WITH_COVARIATES, policy, kept, {})
        reports[uses_it] = measure_of(build_report(WITH_COVARIATES, policy, kept, scales))
    plain, reduced = reports[False], reports[True]
    assert plain.reduced is not None
    assert plain.lift_upper != plain.reduced.lift_upper
    assert (plain.judged_lift_upper, reduced.judged_lift_upper) == (plain.lift_upper, plain.reduced.lift_upper)


def test_the_share_of_users_with_a_hit_has_the_same_error_in_its_interval_and_verdict() -> None:
    users = MEASURES.named("user_hit_rate@5")
    moments = {"control": arm(1_400, 0.3, 1), "treatment": arm(1_400, 0.3, 2)}
    kept = StoredSums(experiment="x", scope="start", first_list_users=dict.fromkeys(moments, 1_400), **in_one_hour(MEASURES, moments))
    scales = choose_scales(MEASURES, Policy(), kept, {})
    report = build_report(MEASURES, Policy(), kept, scales)
    (user_hit_rate,) = [measure for measure in report.variants[1].measures if measure.metric == "user_hit_rate"]
    arms = [estimate(MEASURES, users, moments[name]) for name in ("treatment", "control")]
    scale = scale_of(users, scales)
    assert scale is not None
    assert arms[0] is not None
    assert arms[1] is not None
    interval = lift_interval(arms[0], arms[1], scale.mixture(0.1), 0.05)
    assert interval is not None
    assert (user_hit_rate.alpha, user_hit_rate.lift_lower, user_hit_rate.lift_upper) == (0.05, interval.lower, interval.upper)
    for value, word in ((15, "inconclusive"), (30, "regressed")):
        assert judge(Policy(margin=0.0, paging=("user_hit_rate@5",)), [with_evidence(value, users)])["user_hit_rate@5"].word == word


SHARES = {"control": 1.0, "treatment": 1.0}
BY_LIST = Policy(unit="list", shares=SHARES, paging=("ndcg@10",), margin=0.0)


def by_list(lift: float, seed: int, users: int = 400) -> StoredSums:
    """Users who differ much, with four lists in each arm."""
    random, rows = np.random.default_rng(seed), dict[str, list[list[int]]]()
    for _ in range(users):
        taste = random.beta(0.6, 0.9)
        for name, chance in (("control", taste), ("treatment", min(1.0, taste * (1 + lift)))):
            hits = int(random.binomial(4, chance))
            rows.setdefault(name, []).append([4, hits * ONE, hits * ONE, hits, 20, hits << 33])
    moments = {name: of_users(MEASURES, of_arm) for name, of_arm in rows.items()}
    pairs = {("control", "treatment"): cross_of_users(CovarianceLayout(MEASURES), rows["control"], rows["treatment"])}
    first = dict.fromkeys(moments, users // 2)
    return StoredSums(experiment="ranker", scope="start", first_list_users=first, pairs=pairs, **in_one_hour(MEASURES, moments))


def test_an_experiment_by_list_is_judged_with_the_covariance_of_its_arms() -> None:
    kept = by_list(-0.15, 3)
    pair_estimate = Pair(MEASURES, kept, "treatment", "control").combined(NDCG)
    assert pair_estimate is not None
    assert pair_estimate.covariance > 0.5 * pair_estimate.control.variance
    scales = choose_scales(MEASURES, BY_LIST, kept, {})
    scale = scale_of(NDCG, scales)
    assert scale is not None
    assert scale.tau == pytest.approx(math.sqrt(variance_of(pair_estimate.treatment, pair_estimate.control, pair_estimate.covariance) or 0))
    assert scale.control_mean == pytest.approx(pair_estimate.control.mean)
    report = build_report(MEASURES, BY_LIST, kept, scales)
    measure = measure_of(report)
    check_intervals(measure, pair_estimate, scale)
    comparison = MeasureComparison(NDCG, pair_estimate.treatment, pair_estimate.control, scale, covariance=pair_estimate.covariance)
    assert evidence(BY_LIST, comparison._replace(covariance=0.0)).drop < math.log(20) < evidence(BY_LIST, comparison).drop
    assert report.verdict.word == "regressed"


def measure_of(report: ExperimentReport) -> MeasureReport:
    return next(measure for measure in report.variants[1].measures if str(NDCG) == f"{measure.metric}@{measure.k}")


def check_intervals(measure: MeasureReport, pair_estimate: PairEstimate, scale: MeasureScale) -> None:
    arms, mixture = (pair_estimate.treatment, pair_estimate.control), scale.mixture(0.1)
    assert (measure.difference, measure.difference_lower, measure.difference_upper) == difference(
        *arms, mixture, 0.05, pair_estimate.covariance
    )
    lift = lift_interval(*arms, mixture, 0.05, pair_estimate.covariance)
    assert lift is not None
    assert (measure.lift_lower, measure.lift_upper) == (lift.lower, lift.upper)
    z, variance = z_value(*arms, 1.0, pair_estimate.covariance), variance_of(*arms, pair_estimate.covariance)
    assert z is not None
    assert variance is not None
    assert measure.p_value == p_value(z, variance, mixture)
    assert measure.judged is not None
    assert measure.judged.covariance == pair_estimate.covariance
