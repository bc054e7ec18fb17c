"""Metrics beside accuracy: worked examples, what is left out, clustered errors, and messages."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from streammetrics import Popularity, assess_lists
from streammetrics.metrics import MetricError
from tests.support.tables import for_each

SHOWN = {"l1": ["a", "b", "z"], "l2": ["a"], "l3": [], "l4": ["c", "a"]}


def test_only_what_is_known_is_assessed() -> None:
    assert assess_lists(SHOWN, 2).means == {}
    assert set(assess_lists(SHOWN, 3, catalogue="abcz").means) == {"coverage@3", "gini@3"}


def test_coverage_and_gini_of_equal_and_of_one_item() -> None:
    assert assess_lists([["a"], ["b"]], 1, catalogue="ab").means == {"coverage@1": 1.0, "gini@1": 0.0}
    one = assess_lists([["a"], ["a"]], 1, catalogue="abcd").means
    assert one == {"coverage@1": 0.25, "gini@1": 0.75}


def test_popular_items_are_neither_novel_nor_unbiased() -> None:
    used = Popularity.of_pairs([("u", "a"), ("v", "a"), ("v", "a"), ("w", "b"), ("x", "c")])
    found = assess_lists(SHOWN, 2, popularity=used)
    assert found.values["popularity@2"].tolist()[:2] == [2.0, 3.0]
    assert found.values["popularity_share@2"].tolist()[1] == 3 / 5
    assert found.values["novelty@2"].tolist()[1] == pytest.approx(-math.log2(2 / 4))
    assert math.isnan(found.values["novelty@2"][2])
    assert found.means["popularity@2"] == pytest.approx((2 + 3 + 2) / 3)


def test_the_share_of_fallbacks_has_an_error_by_user() -> None:
    flags = {"l1": True, "l2": True, "l3": False, "l4": False}
    by_list = assess_lists(SHOWN, 2, fallback=flags)
    by_user = assess_lists(SHOWN, 2, fallback=list(flags.values()), users=["u", "u", "v", "v"])
    assert by_list.means == by_user.means == {"fallback_share": 0.5}
    assert by_user.standard_errors["fallback_share"] > by_list.standard_errors["fallback_share"]
    assert repr(by_list).splitlines()[1].split()[:2] == ["fallback_share", "0.5000"]
    assert "fallback_share" in by_list._repr_html_()


@for_each(
    [
        (lambda: assess_lists(SHOWN, 0), "cut-off: got 0; allowed are whole numbers >= 1"),
        (lambda: assess_lists([["a", "a"]], 2), "item: got one twice in list 0"),
        (lambda: assess_lists(SHOWN, 3, catalogue="abc"), "item: got 'z' in list 'l1'; allowed are the items of the catalogue"),
        (lambda: assess_lists(SHOWN, 3, catalogue=""), "catalogue: got no items"),
        (lambda: assess_lists(SHOWN, 3, attributes={"a": (1,), "b": (1,)}), "item: got 'z' in list 'l1' without attributes"),
        (lambda: assess_lists([["a", "b"]], 2, attributes={"a": (1,), "b": ()}), "attributes: got different numbers of them in list 0"),
        (lambda: assess_lists(SHOWN, 3, popularity=Popularity({}, {}, 0)), "popularity: got no interactions"),
        (lambda: assess_lists(SHOWN, 3, fallback=[True]), "fallback: got 1; allowed are 4, one per list"),
        (lambda: assess_lists(SHOWN, 3, users=["u"]), "users: got 1; allowed are 4"),
    ]
)
def test_invalid_input_is_rejected_with_its_place(case: tuple[Callable[[], object], str]) -> None:
    call, message = case
    with pytest.raises(MetricError, match=re.escape(message)):
        call()
