"""Engagement metrics on lists written by hand, and the layout that sums them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from streammetrics.metrics import Metric, MetricError, Scorer, TallyLayout
from streammetrics.metrics.engagement import BOUNDS_MS, EngagementFacts, EngagementLayout
from streammetrics.metrics.names import ENGAGEMENT_NAMES
from tests.support.tables import for_each

METRICS = [Metric(name, 2 if name == "first_click_share" else 0) for name in ENGAGEMENT_NAMES]

FOUR_LISTS = {
    # empty; abandoned and followed; clicked at rank 1 after 2 s; clicked at rank 3 after 4 s, bought two items for 6.5 together
    "items": [0, 10, 10, 5],
    "satisfied": [0, 0, 0, 1],
    "rank": [0, 0, 1, 3],
    "delay_ms": [0, 0, 2_000, 4_000],
    "purchases": [0, 0, 0, 2],
    "value": [0, 0, 0, int(6.5 * 2**16)],
    "opens": [1, 0, 0, 1],
    "followed": [1, 1, 0, 0],
}
MEANS = {
    "zero_result_rate": 0.25,
    "abandonment_rate": 1 / 3,
    "first_click_share@2": 0.5,
    "first_click_rank": 2.0,
    "time_to_first_click": 3.0,
    "time_to_first_click_p50": 2.0,
    "time_to_first_click_p90": 4.0,
    "time_to_first_click_p99": 4.0,
    "satisfied_rate": 0.25,
    "reformulation_rate": 0.5,
    "lists_per_session": 2.0,
    "purchases_per_list": 0.5,
    "value_per_list": 1.625,
}


def facts(lists: dict[str, list[int]]) -> EngagementFacts:
    return EngagementFacts(**{name: np.array(values, dtype=np.int64) for name, values in lists.items()})


def test_the_worked_example() -> None:
    layout = EngagementLayout(METRICS)
    sums = layout.rows(facts(FOUR_LISTS)).sum(axis=0).tolist()
    assert {name: above / below for name, above, below in layout.ratios(sums, 4)} == MEANS


def test_engagement_metrics_are_the_last_numbers_of_a_tally() -> None:
    scorer, engagement = Scorer(["mrr@3"]), EngagementLayout(METRICS)
    layout = TallyLayout(scorer, engagement=engagement)
    plain = TallyLayout(scorer)
    rows = layout.rows_of_hits([0, 10, 10, 5], [2, 3], [0, 2], [1, 3])
    rows[:, layout.engagement_from :] += engagement.rows(facts(FOUR_LISTS))
    total = rows.sum(axis=0).tolist()
    assert total[: plain.width] == plain.rows_of_hits([0, 10, 10, 5], [2, 3], [0, 2], [1, 3]).sum(axis=0).tolist()
    assert layout.means(total) == plain.means(total[: plain.width]) | MEANS
    assert layout.means(total, "with_feedback").keys() == {"mrr@3"}
    assert layout.sums(total)[1:] == tuple(total[layout.engagement_from :])
    assert [layout.place_of(index) for index in range(len(layout.columns))] == [2, *range(3, layout.width)]


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    layout = EngagementLayout([Metric("time_to_first_click_p50")])
    delays = [0, 100, 101, 125, 126, 1_000_000, 1_000_001, 0]
    lists = {name: [1] * len(delays) for name in FOUR_LISTS} | {"delay_ms": delays, "rank": [1] * 7 + [0]}
    rows = layout.rows(facts(lists))
    assert [layout.columns[at].metric.k for at in rows.argmax(axis=1)[:7]] == [100, 100, 125, 125, 160, 1_000_000, 0]
    assert rows.sum(axis=1).tolist() == [1] * 7 + [0]
    assert [(name, above / below) for name, above, below in layout.ratios(rows.sum(axis=0).tolist(), 8)] == [
        ("time_to_first_click_p50", 0.125)
    ]
    assert list(layout.ratios([0] * 41 + [3], 3)) == [("time_to_first_click_p50", 0, 0)]  # beyond the last bound


def test_the_bounds_of_the_histogram_have_the_stated_resolution() -> None:
    assert all(after / before <= 1.28 for before, after in pairwise(BOUNDS_MS))
    assert (BOUNDS_MS[0], BOUNDS_MS[-1], len(BOUNDS_MS)) == (100, 1_000_000, 41)


def test_a_ratio_of_no_clicks_is_left_out() -> None:
    layout = TallyLayout(Scorer(["mrr@3"]), engagement=EngagementLayout([Metric("first_click_rank")]))
    assert layout.means([2, 0, 0, 0, 0]) == {"mrr@3": 0.0}


@for_each(ENGAGEMENT_NAMES)
def test_only_the_share_of_first_clicks_has_a_cut_off(name: str) -> None:
    wrong = 0 if name == "first_click_share" else 3
    with pytest.raises(MetricError, match=f"cut-off of {name}"):
        Metric(name, wrong)


def test_wrong_layouts_are_rejected() -> None:
    with pytest.raises(MetricError, match="engagement metric: got ndcg@3"):
        EngagementLayout([Metric("ndcg", 3)])
    with pytest.raises(MetricError, match="metric: got zero_result_rate, which needs more than grades"):
        Scorer(["zero_result_rate"])
