"""The curve of lists and clicks: what is counted, and messages. `test_examination` tests the estimate."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from streammetrics import position_bias
from streammetrics.metrics import MetricError
from tests.support.click_simulation import simulate

SWAPPED = 200 * [["a", "b"]] + 200 * [["b", "a"]]
CLICKED = 100 * [{"a"}] + 100 * [{"b"}] + 50 * [{"a"}] + 50 * [{"b"}] + 100 * [set()]


def test_the_curve_of_simulated_lists_is_the_known_one() -> None:
    known = 1 / np.sqrt(np.arange(1, 6))
    simulated = simulate(4, known, lists=20_000, queries=30)
    lists = simulated.items.tolist()
    clicks = [
        [item for item, clicked in zip(items, row, strict=True) if clicked] for items, row in zip(lists, simulated.clicks, strict=True)
    ]
    curve = position_bias(lists, clicks, contexts=simulated.queries.tolist(), ranks_max=5)
    assert np.abs(np.array(curve.values) / known - 1).max() < 0.05


def test_an_item_in_another_context_is_another_item() -> None:
    apart = position_bias(SWAPPED, CLICKED, contexts=["x"] * 200 + ["y"] * 200, ranks_max=2)
    assert (apart.items, apart.shared_items) == (4, 0)
    together = position_bias(SWAPPED, CLICKED, ranks_max=2)
    assert (together.items, together.shared_items) == (2, 2)


def test_only_the_first_place_of_an_item_counts() -> None:
    curve = position_bias([["a", "a", "b"]] * 3, [{"a", "z"}] * 3, ranks_max=3)
    assert [(each.shows, each.clicks) for each in curve.ranks] == [(3, 3), (0, 0), (3, 0)]


def test_lists_may_have_names() -> None:
    named = {f"q{at}": items for at, items in enumerate(SWAPPED)}
    clicks = {f"q{at}": items for at, items in enumerate(CLICKED)}
    assert position_bias(named, clicks, ranks_max=2) == position_bias(SWAPPED, CLICKED, ranks_max=2)


def test_no_lists_have_no_curve() -> None:
    assert position_bias([], []).known_to == 0


@pytest.mark.parametrize(
    ("ranked", "clicked", "contexts", "message"),
    [
        ([["a"]], [], None, "clicked: got 0; allowed are 1, one per list"),
        ([["a"]], [[]], ["x", "y"], "contexts: got 2; allowed are 1, one per list"),
        ({"l": ["a"]}, {}, None, "clicked: got none for list 'l'; allowed is one for each list"),
        ({"l": ["a"]}, [[]], None, "clicked: got a mapping and a sequence of lists, or the reverse"),
    ],
)
def test_what_does_not_fit_the_lists_has_a_message(ranked: Any, clicked: Any, contexts: Any, message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        position_bias(ranked, clicked, contexts=contexts)
