"""Effective users and the largest user's share against counting, and which measures have a ceiling."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.metrics.names import ENGAGEMENT_NAMES, METRIC_NAMES, Metric
from streammetrics.statistics.estimates import effective_users, largest_user_share_max
from streammetrics.statistics.moments import of_users
from tests.support.columns import MEASURES, ONE, totals

arms = st.lists(totals().filter(lambda row: row[0] > 0), min_size=1, max_size=12)


USUAL = [1, ONE // 2, ONE, 1, 5, 1 << 33]
"""A user with one list and one hit."""


@given(arms)
@example([USUAL] * 60 + [[40, 0, 0, 0, 200, 0]])
@example([[1, 0, 0, 0, 0, 0]])
def test_effective_users_equal_counting_and_the_share_is_an_upper_bound(users: list[list[int]]) -> None:
    moments = of_users(MEASURES, users)
    for measure, weights in (
        (MEASURES.named("ndcg@10"), [row[0] for row in users]),
        (MEASURES.named("item_hit_rate@5"), [row[4] for row in users]),
    ):
        expected = sum(weights) ** 2 / sum(weight * weight for weight in weights) if any(weights) else 0.0
        assert effective_users(MEASURES, measure, moments) == pytest.approx(expected)
        share = largest_user_share_max(len(users), effective_users(MEASURES, measure, moments))
        assert share >= (max(weights) / sum(weights) if any(weights) else 0.0) - 1e-9
        assert share <= 1 + 1e-9


def test_user_measures_count_every_user_once() -> None:
    moments = of_users(MEASURES, [[1, 0, 0, 0, 5, 0]] * 50 + [[900, 0, ONE, 1, 4_500, 0]])
    assert effective_users(MEASURES, MEASURES.named("user_hit_rate@5"), moments) == 51


def test_rates_and_normalised_measures_have_a_ceiling_and_sums_and_times_have_none() -> None:
    metrics = [Metric(name, 10 if name == "first_click_share" else 0) for name in ENGAGEMENT_NAMES if "first_click_p" not in name]
    metrics += [Metric(name, 0 if name == "r_precision" else 10) for name in METRIC_NAMES]
    open_ended = {metric.name for metric in metrics if metric.record.ceiling is None}
    assert open_ended == {
        "dcg",
        "cg",
        "value_per_list",
        "purchases_per_list",
        "lists_per_session",
        "first_click_rank",
        "time_to_first_click",
    }
