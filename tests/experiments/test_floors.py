"""Floors: effective users, the largest user's share, and expected users with a hit, against counting."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.experiments import Policy, Stored
from streammetrics.experiments.cell_estimates import Pair
from streammetrics.experiments.floors import (
    EventUsers,
    effective_users,
    expected_event_users,
    largest_user_share_max,
    users_above_zero,
    users_below_ceiling,
)
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import of_users
from streammetrics.metrics.names import ENGAGEMENT_NAMES, METRIC_NAMES, Column, Metric
from tests.experiments.columns import MEASURES, ONE, totals
from tests.experiments.samples import in_one_hour

arms = st.lists(totals().filter(lambda each: each[0] > 0), min_size=1, max_size=12)


USUAL = [1, ONE // 2, ONE, 1, 5, 1 << 33]
"""A user with one list and one hit."""
NOTHING = [1, 0, 0, 0, 5, 0]
FULL = [2, 2 * ONE, 2 * ONE, 10, 10, 2 << 33]
"""A user whose every item and list has a hit, in the best order."""


@given(arms)
@example([USUAL] * 60 + [[40, 0, 0, 0, 200, 0]])
@example([[1, 0, 0, 0, 0, 0]])
def test_effective_users_equal_counting_and_the_share_is_an_upper_bound(users: list[list[int]]) -> None:
    moments = of_users(MEASURES, users)
    for measure, weights in (
        (MEASURES.named("ndcg@10"), [each[0] for each in users]),
        (MEASURES.named("item_hit_rate@5"), [each[4] for each in users]),
    ):
        expected = sum(weights) ** 2 / sum(each * each for each in weights) if any(weights) else 0.0
        assert effective_users(MEASURES, measure, moments) == pytest.approx(expected)
        share = largest_user_share_max(len(users), effective_users(MEASURES, measure, moments))
        assert share >= (max(weights) / sum(weights) if any(weights) else 0.0) - 1e-9
        assert share <= 1 + 1e-9


def test_user_measures_count_every_user_once() -> None:
    moments = of_users(MEASURES, [[1, 0, 0, 0, 5, 0]] * 50 + [[900, 0, ONE, 1, 4_500, 0]])
    assert effective_users(MEASURES, MEASURES.named("user_hit_rate@5"), moments) == 51


@given(arms)
@example([USUAL, NOTHING, FULL])
@example([FULL] * 3)
@example([NOTHING] * 3)
def test_users_with_an_event_are_exact_for_shares_of_users_and_never_too_many(users: list[list[int]]) -> None:
    moments = of_users(MEASURES, users)
    hit = sum(each[2] > 0 for each in users)
    assert users_above_zero(MEASURES, MEASURES.named("hit_rate@5"), moments) == pytest.approx(hit)
    assert users_above_zero(MEASURES, MEASURES.named("ndcg@10"), moments) <= sum(each[1] > 0 for each in users) + 1e-9
    assert users_below_ceiling(MEASURES, MEASURES.named("user_hit_rate@5"), moments) == pytest.approx(len(users) - hit)
    below = {"ndcg@10": lambda each: each[1] < each[0] * ONE, "item_hit_rate@5": lambda each: each[3] < each[4]}
    for name, is_below in below.items():
        assert users_below_ceiling(MEASURES, MEASURES.named(name), moments) <= sum(map(is_below, users)) + 1e-9
    assert users_below_ceiling(MEASURES, MEASURES.named("dcg@10"), moments) == math.inf


def test_users_who_are_alike_are_counted_exactly_on_both_sides() -> None:
    moments = of_users(MEASURES, [FULL] * 30 + [NOTHING] * 7)
    for name in ("ndcg@10", "hit_rate@5", "item_hit_rate@5"):
        measure = MEASURES.named(name)
        found = users_above_zero(MEASURES, measure, moments), users_below_ceiling(MEASURES, measure, moments)
        assert found == (30, pytest.approx(7)), name


def test_the_numerator_of_another_measure_is_not_taken_for_hits() -> None:
    """All users have a hit, and one of them sees popular items."""
    shares = Measures([Column(Metric("hit_rate", 5), "sum", 0), Column(Metric("popularity_share", 5), "sum", 0)])
    moments = of_users(shares, [[1, 1, 0]] * 99 + [[1, 1, 1]])
    assert users_above_zero(shares, shares.named("hit_rate@5"), moments) == 100
    assert users_above_zero(shares, shares.named("popularity_share@5"), moments) == 1


def test_rates_and_normalised_measures_have_a_ceiling_and_sums_and_times_have_none() -> None:
    metrics = [Metric(name, 10 if name == "first_click_share" else 0) for name in ENGAGEMENT_NAMES if "first_click_p" not in name]
    metrics += [Metric(name, 0 if name == "r_precision" else 10) for name in METRIC_NAMES]
    open_ended = {metric.name for metric in metrics if metric.ceiling is None}
    assert open_ended == {
        "dcg",
        "cg",
        "value_per_list",
        "purchases_per_list",
        "lists_per_session",
        "first_click_rank",
        "time_to_first_click",
    }


def pooled(users: int, above: int) -> list[int]:
    """Moments of users with one list each, all hits or none."""
    return of_users(MEASURES, [[1, ONE, ONE, 5, 5, 1]] * above + [NOTHING] * (users - above))


def test_expected_events_are_pooled_over_both_arms() -> None:
    hit_rate = MEASURES.named("hit_rate@5")
    assert expected_event_users(MEASURES, hit_rate, pooled(100, 0), pooled(900, 50)) == (5.0, 95.0)
    assert expected_event_users(MEASURES, hit_rate, pooled(100, 98), pooled(900, 882)) == (98.0, pytest.approx(2.0))
    assert expected_event_users(MEASURES, MEASURES.named("dcg@10"), pooled(100, 10), pooled(900, 90)).least == 10.0
    assert expected_event_users(MEASURES, hit_rate, pooled(0, 0), pooled(0, 0)) == EventUsers(0.0, 0.0)


@pytest.mark.parametrize(
    ("name", "above", "reason"),
    [
        ("hit_rate@5", 19, "hits are too rare: about 1.9 users with a hit are expected in treatment, at least 20 are needed"),
        ("hit_rate@5", 500, None),
        ("hit_rate@5", 970, "hit_rate@5 is close to 1: about 3 users below it are expected in treatment, at least 20 are needed"),
        ("ndcg@10", 970, "ndcg@10 is close to 1: about 3 users below it are expected in treatment, at least 20 are needed"),
        ("user_hit_rate@5", 970, "user_hit_rate@5 is close to 1: about 3 users below it are expected in treatment, at least 20 are needed"),
        ("dcg@10", 970, None),
    ],
)
def test_a_measure_needs_events_on_both_sides(name: str, above: int, reason: str | None) -> None:
    arms, measure = {"treatment": pooled(100, above // 10), "control": pooled(900, above - above // 10)}, MEASURES.named(name)
    kept = Stored(experiment="x", scope="start", first_exposures={}, **in_one_hour(MEASURES, arms))
    found = Pair(MEASURES, kept, *arms).combined(measure)
    assert found is not None
    assert found.unmet_floor(Policy(), measure, *arms) == reason
