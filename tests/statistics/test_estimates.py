"""Estimates against exact fractions and statsmodels; the lift's interval against its definition."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from streammetrics.errors import ExperimentError
from streammetrics.metrics import Scorer
from streammetrics.statistics.estimates import (
    Estimate,
    Interval,
    difference,
    estimate,
    lift_interval,
    log_evidence_above,
    log_evidence_below,
    z_value,
)
from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import of_users
from streammetrics.statistics.sequence import Mixture, two_sided
from tests.support.columns import MEASURES, ONE, totals

means = st.floats(0.01, 10)
errors = st.floats(1e-4, 0.3)
arms = st.tuples(means, errors).map(lambda mean_and_error: Estimate(mean_and_error[0], (mean_and_error[0] * mean_and_error[1]) ** 2, 1_000))


@given(st.lists(totals().filter(lambda row: row[0] > 0), min_size=2, max_size=10))
@example([[1, ONE, ONE, 1, 5, ONE >> 3], [40, 0, 0, 0, 200, 0]])
@example([[2, ONE, ONE, 2, 10, ONE >> 2]] * 3)
def test_mean_and_variance_equal_the_delta_method_exactly(users: list[list[int]]) -> None:
    moments = of_users(MEASURES, users)
    columns = {"ndcg@10": (1, 0, ONE), "dcg@10": (5, 0, 1 << 32), "item_hit_rate@5": (3, 4, 1)}
    for name, (top, bottom, unit) in columns.items():
        pairs = [(Fraction(row[top], unit), row[bottom]) for row in users]
        below = sum(d for _, d in pairs)
        arm_estimate = estimate(MEASURES, MEASURES.named(name), moments)
        if not below:
            assert arm_estimate is None
            continue
        mean = sum(y for y, _ in pairs) / below
        count = len(pairs)
        variance = Fraction(count, count - 1) * sum((y - mean * d) ** 2 for y, d in pairs) / below**2
        assert arm_estimate == Estimate(float(mean), float(variance), count)


@given(st.lists(totals().filter(lambda row: row[0] > 0), min_size=2, max_size=10))
@example([[1, 0, 0, 0, 5, 0], [3, ONE, ONE, 1, 15, 0], [1, ONE, ONE, 1, 5, 0]])
def test_the_share_of_users_with_a_hit_has_the_variance_of_a_proportion(users: list[list[int]]) -> None:
    arm_estimate = estimate(MEASURES, MEASURES.named("user_hit_rate@5"), of_users(MEASURES, users))
    share = Fraction(sum(row[2] > 0 for row in users), len(users))
    assert arm_estimate == Estimate(float(share), float(share * (1 - share) / (len(users) - 1)), len(users))


def test_mean_and_variance_equal_statsmodels_with_users_as_clusters() -> None:
    from statsmodels.regression.linear_model import OLS  # noqa: PLC0415 (takes seconds: not in every process that collects tests)

    random = np.random.default_rng(5)
    lists = random.integers(1, 20, 300)
    users = np.repeat(np.arange(300), lists)
    values = np.rint(np.clip(random.normal(0.4, 0.2, 300)[users] + random.normal(0, 0.3, len(users)), 0, 1) * ONE).astype(np.int64)
    fitted = OLS(values / ONE, np.ones(len(users))).fit(cov_type="cluster", cov_kwds={"groups": users})
    sums = np.bincount(users, values.astype(np.float64)).astype(np.int64)  # below 2**53, so exact
    users = [[int(n), int(y), 0, 0, 0, 0] for n, y in zip(lists, sums, strict=True)]
    arm_estimate = estimate(MEASURES, MEASURES.named("ndcg@10"), of_users(MEASURES, users))
    assert arm_estimate is not None
    assert arm_estimate.mean == pytest.approx(fitted.params[0], rel=1e-12)
    assert arm_estimate.variance == pytest.approx(fitted.cov_params()[0, 0], rel=1e-9)


def test_one_user_has_infinite_variance_and_no_users_have_no_mean() -> None:
    ndcg = MEASURES.named("ndcg@10")
    assert estimate(MEASURES, ndcg, of_users(MEASURES, [[1, ONE, 0, 0, 0, 0]])) == Estimate(1.0, math.inf, 1)
    assert estimate(MEASURES, ndcg, of_users(MEASURES, [])) is None


@given(arms, arms, st.floats(0.001, 1), st.floats(0, 1), st.floats(0.001, 0.3))
@example(Estimate(0.38, 1e-4, 1_000), Estimate(0.40, 1e-4, 1_000), 0.02, 0.04, 0.05)
@example(Estimate(0.5, 1e-4, 1_000), Estimate(0.02, 3e-5, 1_000), 0.02, 0.04, 0.05)
def test_the_interval_of_the_lift_contains_exactly_the_lifts_not_rejected(
    treatment: Estimate, control: Estimate, tau: float, effect: float, alpha: float
) -> None:
    mixture = Mixture(tau, effect)
    interval = lift_interval(treatment, control, mixture, alpha)
    assert interval is not None
    assert interval.lower is not None
    lift = treatment.mean / control.mean - 1
    assert -1 <= interval.lower <= lift
    assert interval.upper is None or lift <= interval.upper
    boundary = two_sided(treatment.variance + control.variance, mixture, alpha)
    for end, outside in ((interval.lower, -1e-6), (interval.upper, 1e-6)):
        if end is not None and end > -1:
            for step, expected in ((0.0, None), (outside, True), (-outside, False)):
                z = z_value(treatment, control, (1 + end) * (1 + step))
                assert z is not None
                over = abs(z) - boundary
                assert (abs(over) < 1e-6 * boundary) if expected is None else (over > 0) == expected
    if interval.upper is None:
        z = z_value(treatment, control, 1e9)
        assert z is not None
        assert abs(z) <= boundary * (1 + 1e-6)


@given(arms, arms, st.floats(0.001, 1), st.floats(0.001, 0.3))
@example(Estimate(0.38, 1e-4, 1_000), Estimate(0.40, 1e-4, 1_000), 0.02, 0.05)
@example(Estimate(0.3, 1e-5, 1_000), Estimate(0.4, 1e-5, 1_000), 0.02, 0.05)
def test_lift_and_difference_agree_about_zero(treatment: Estimate, control: Estimate, tau: float, alpha: float) -> None:
    mixture = Mixture(tau, tau / 2)
    lift, apart = lift_interval(treatment, control, mixture, alpha), difference(treatment, control, mixture, alpha)
    assert lift is not None
    assert lift.lower is not None
    assert apart is not None
    assume(min(abs(apart[1]), abs(apart[2])) > 1e-9)
    assert (lift.lower > 0) == (apart[1] > 0)
    assert (lift.upper is not None and lift.upper < 0) == (apart[2] < 0)


@given(arms, arms, st.floats(0.01, 100), st.floats(0.001, 1))
@example(Estimate(0.38, 1e-4, 1_000), Estimate(0.40, 1e-4, 1_000), 100.0, 0.02)
def test_the_unit_of_a_metric_does_not_matter(treatment: Estimate, control: Estimate, unit: float, tau: float) -> None:
    def scaled(estimate: Estimate) -> Estimate:
        return Estimate(estimate.mean * unit, estimate.variance * unit**2, estimate.users)

    one = lift_interval(treatment, control, Mixture(tau, tau), 0.05)
    other = lift_interval(scaled(treatment), scaled(control), Mixture(tau * unit, tau * unit), 0.05)
    assert one is not None
    assert other is not None
    assert one.lower == pytest.approx(other.lower, rel=1e-6, abs=1e-9)
    assert (one.upper is None) == (other.upper is None)
    if one.upper is not None and one.upper < 1e4:
        assert one.upper == pytest.approx(other.upper, rel=1e-6, abs=1e-9)


def test_the_lift_has_no_upper_bound_if_the_control_may_be_zero() -> None:
    interval = lift_interval(Estimate(0.4, 1e-4, 100), Estimate(0.02, 1e-4, 100), Mixture(0.05), 0.05)
    assert interval is not None
    assert interval.upper is None
    assert interval.lower is not None
    assert lift_interval(Estimate(0.4, 1e-4, 100), Estimate(0.0, 1e-4, 100), Mixture(0.05), 0.05) == Interval(None, None)


def test_without_variance_there_is_no_interval() -> None:
    constant = Estimate(0.5, 0.0, 100)
    assert difference(constant, constant, Mixture(0.05), 0.05) is None
    assert lift_interval(constant, constant, Mixture(0.05), 0.05) is None
    assert log_evidence_below(constant, Estimate(0.9, 0.0, 100), 0.0, Mixture(0.05)) == -math.inf
    assert difference(Estimate(0.5, math.inf, 1), constant, Mixture(0.05), 0.05) is None


@given(arms, arms, st.floats(0, 0.5), st.floats(0.001, 1))
@example(Estimate(0.3, 1e-5, 1_000), Estimate(0.4, 1e-5, 1_000), 0.01, 0.02)
@example(Estimate(0.5, 1e-5, 1_000), Estimate(0.4, 1e-5, 1_000), 0.0, 0.02)
@example(Estimate(0.396, 1e-6, 1_000), Estimate(0.4, 1e-6, 1_000), 0.05, 0.02)
def test_a_lift_is_never_certainly_below_and_above_the_same_value(
    treatment: Estimate, control: Estimate, margin: float, tau: float
) -> None:
    mixture = Mixture(tau, tau / 3)
    below, above = (log(treatment, control, -margin, mixture) for log in (log_evidence_below, log_evidence_above))
    assert min(below, above) < math.log(1 / 0.4)
    if below > math.log(20):
        assert treatment.mean < (1 - margin) * control.mean
    if log_evidence_above(treatment, control, 0.0, mixture) > math.log(20):
        assert treatment.mean > control.mean


def test_a_scale_of_zero_is_rejected() -> None:
    with pytest.raises(ExperimentError, match="tau: got 0"):
        difference(Estimate(0.3, 1e-4, 500), Estimate(0.5, 1e-4, 500), Mixture(0.0), 0.05)


def test_items_per_list_and_lists_per_user_are_means_with_a_variance_clustered_by_user() -> None:
    """By hand: users with 1, 2 and 4 lists that show 5, 20 and 40 items."""
    measures = Measures(Scorer(["item_hit_rate@3", "item_hit_rate@10"]).columns)
    users = [[lists, 0, 3 * lists, 0, items] for lists, items in ((1, 5), (2, 20), (4, 40))]
    moments = of_users(measures, users)
    assert measures.items_per_list is not None
    items, lists = (estimate(measures, measure, moments) for measure in (measures.items_per_list, measures.lists_per_user))
    assert items is not None
    assert lists is not None
    mean = 65 / 7
    assert items.mean == pytest.approx(mean)
    assert items.variance == pytest.approx(3 / 2 * sum((y - mean * d) ** 2 for d, y in ((1, 5), (2, 20), (4, 40))) / 7**2)
    assert (lists.mean, lists.users) == (pytest.approx(7 / 3), 3)
    assert lists.variance == pytest.approx(3 / 2 * sum((y - 7 / 3) ** 2 for y in (1, 2, 4)) / 3**2)


def test_without_item_hit_rate_no_items_are_counted() -> None:
    measures = Measures(Scorer(["ndcg@10"]).columns)
    assert measures.items_per_list is None
    assert estimate(measures, measures.lists_per_user, of_users(measures, [[2, 0], [4, 0]])) == Estimate(3.0, 1.0, 2)
