"""Assessment metrics: by hand, against their definitions, and what they refuse."""

from __future__ import annotations

from itertools import combinations
from math import log2
from operator import ne
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import Metric, MetricError, Scorer, TallyLayout
from streammetrics.metrics.assessment import AssessmentLayout, CatalogueItem, ItemCatalogue
from streammetrics.metrics.engagement import EngagementLayout
from streammetrics.metrics.names import ASSESSMENT_NAMES

ITEMS = {
    "a": CatalogueItem(("red", "big"), 6, 4),
    "b": CatalogueItem(("red", "small"), 1, 1),
    "c": CatalogueItem(("blue", "big"), 0, 0),
    "d": CatalogueItem(("blue", "small"), 1, 2),
}
CATALOGUE = ItemCatalogue(ITEMS, users=8)
METRICS = [Metric(name, 0 if name == "fallback_share" else 3) for name in ASSESSMENT_NAMES]
FALLBACK = ("source", "popular")


def values(*lists: tuple[str, ...], segments: tuple[tuple[str, str], ...] = ()) -> dict[str, float]:
    layout = AssessmentLayout(METRICS, CATALOGUE, FALLBACK)
    sums = [sum(column) for column in zip(*(layout.row(one, segments) for one in lists), strict=True)]
    return {name: above / below for name, above, below in layout.ratios(sums, len(lists)) if below}


def test_lists_by_hand() -> None:
    assert values(("a", "b")) == {
        "diversity@3": 0.5,
        "novelty@3": 2.0,  # log2(8 / 4) = 1 and log2(8 / 1) = 3
        "popularity_share@3": 7 / 8 / 2,
        "catalogue_share@3": 1.0,
        "fallback_share": 0.0,
    }
    assert values(("a", "d", "?", "b"), segments=(FALLBACK,)) == {
        "diversity@3": 1.0,
        "novelty@3": pytest.approx((1 + 2 + 3) / 3),
        "popularity_share@3": pytest.approx(7 / 8 / 3),
        "catalogue_share@3": pytest.approx(2 / 3),
        "fallback_share": 1.0,
    }


def test_a_list_that_has_no_value_is_in_no_denominator() -> None:
    assert values(()) == {"fallback_share": 0.0}
    assert values(("?",)) == {"novelty@3": 3.0, "popularity_share@3": 0.0, "catalogue_share@3": 0.0, "fallback_share": 0.0}
    assert values((), ("a",), ("a", "d")) == values(("a",), ("a", "d"))
    assert values(("", "a", "", "d")) == values(("a",)), "an empty place shows no item, but is a place"


def by_definition(items: list[str]) -> dict[str, float]:
    pairs = [(ITEMS[one].attributes, ITEMS[other].attributes) for one, other in combinations(items, 2)]
    shares = [sum(map(ne, one, other)) / 2 for one, other in pairs]
    return {
        "diversity@3": fmean(shares) if shares else 0.0,
        "novelty@3": fmean(-log2(max(ITEMS[item].users, 1) / 8) for item in items),
        "popularity_share@3": fmean(ITEMS[item].interactions / 8 for item in items),
    }


@given(st.lists(st.lists(st.sampled_from([*ITEMS]), unique=True, max_size=4), min_size=1, max_size=5))
def test_they_are_the_means_of_the_definitions_over_lists_that_show_something(lists: list[list[str]]) -> None:
    expected = [by_definition(items[:3]) for items in lists if items]
    online = values(*map(tuple, lists))
    assert {name: online[name] for name in ("diversity@3", "novelty@3", "popularity_share@3") if name in online} == (
        {name: pytest.approx(fmean(value[name] for value in expected), abs=1e-9) for name in expected[0]} if expected else {}
    )


def test_the_values_of_a_list_are_rounded_to_the_stated_units() -> None:
    layout = AssessmentLayout([Metric("popularity_share", 3), Metric("novelty", 3)], CATALOGUE)
    assert layout.row(("a", "b", "d"), ()) == [round(8 * 2**40 / 24), 1, 2 * 2**32, 1]
    thirds = AssessmentLayout([Metric("diversity", 3)], ItemCatalogue({name: CatalogueItem(("x", "y", name)) for name in "ab"}))
    assert thirds.row(("a", "b"), ()) == [366_503_875_925, 1]  # 2**40 / 3


def test_they_are_the_last_columns_of_a_tally() -> None:
    assessment = AssessmentLayout(METRICS, CATALOGUE)
    engagement = EngagementLayout([Metric("zero_result_rate"), Metric("time_to_first_click_p50")], 2.0, assessment)
    layout = TallyLayout(Scorer(["mrr@3"]), engagement=engagement)
    assert [str(column.metric) for column in layout.columns[-9:]] == [
        *(f"{name}@3" for name in ASSESSMENT_NAMES[:-1] for _ in range(2)),
        "fallback_share",
    ]


def test_a_digest_is_that_of_the_content() -> None:
    turned = ItemCatalogue(dict(reversed(ITEMS.items())), users=8)
    assert turned.digest() == CATALOGUE.digest()
    others = [ItemCatalogue(ITEMS, users=9), ItemCatalogue({**ITEMS, "d": CatalogueItem(("blue", "small"), 1, 3)}, users=8)]
    assert len({CATALOGUE.digest(), *(catalogue.digest() for catalogue in others)}) == 3


def test_wrong_input_is_rejected() -> None:
    with pytest.raises(MetricError, match="assessment metric: got ndcg@3"):
        AssessmentLayout([Metric("ndcg", 3)])
    with pytest.raises(MetricError, match="got 1 of item 'b'; allowed are 2, as of the first"):
        ItemCatalogue({"a": CatalogueItem(("x", "y")), "b": CatalogueItem(("x",))})
    with pytest.raises(MetricError, match="users up to all users, 3"):
        ItemCatalogue({"a": CatalogueItem((), 1, 4)}, users=3)
    with pytest.raises(MetricError, match="metric: got diversity@3, which needs more than grades; allowed are ndcg"):
        Scorer(["diversity@3"])
    with pytest.raises(MetricError, match="cut-off of novelty: got none"):
        Metric("novelty")
