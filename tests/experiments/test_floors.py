"""Floors: effective users, the largest user's share, and expected users with a hit, against counting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments.floors import effective_users, expected_hit_users, largest_user_share_max, users_with_hit
from streammetrics.experiments.moments import of_users
from tests.experiments.columns import MEASURES, ONE, totals

arms = st.lists(totals().filter(lambda each: each[0] > 0), min_size=1, max_size=12)


@given(arms)
def test_effective_users_equal_counting_and_the_share_is_an_upper_bound(users: list[list[int]]) -> None:
    moments = of_users(MEASURES, users)
    for measure, weights in (
        (MEASURES.named("ndcg@10"), [each[0] for each in users]),
        (MEASURES.named("item_hit_rate@5"), [each[4] for each in users]),
    ):
        expected = sum(weights) ** 2 / sum(each * each for each in weights) if any(weights) else 0.0
        assert effective_users(MEASURES, measure, moments) == pytest.approx(expected)
        share = largest_user_share_max(MEASURES, measure, moments)
        assert share >= (max(weights) / sum(weights) if any(weights) else 0.0) - 1e-9
        assert share <= 1 + 1e-9


def test_user_measures_count_every_user_once() -> None:
    moments = of_users(MEASURES, [[1, 0, 0, 0, 5, 0]] * 50 + [[900, 0, ONE, 1, 4_500, 0]])
    assert effective_users(MEASURES, MEASURES.named("user_hit_rate@5"), moments) == 51


@given(arms)
def test_users_with_a_hit_are_exact_at_the_cutoff_of_the_hit_rate_and_never_too_many(users: list[list[int]]) -> None:
    moments = of_users(MEASURES, users)
    hit = sum(each[2] > 0 for each in users)
    assert users_with_hit(MEASURES, MEASURES.named("hit_rate@5"), moments) == pytest.approx(max(hit, 0))
    assert users_with_hit(MEASURES, MEASURES.named("ndcg@10"), moments) <= sum(each[1] > 0 for each in users) + 1e-9


def test_expected_hits_are_pooled_over_both_arms() -> None:
    def users(count: int, hits: int) -> list[int]:
        return of_users(MEASURES, [[1, ONE, ONE, 1, 5, 1]] * hits + [[1, 0, 0, 0, 5, 0]] * (count - hits))

    hit_rate = MEASURES.named("hit_rate@5")
    assert expected_hit_users(MEASURES, hit_rate, users(100, 0), users(900, 50)) == 5.0
    assert expected_hit_users(MEASURES, hit_rate, users(0, 0), users(0, 0)) == 0.0
