"""Diversity, novelty and the share of popularity of lists are those of RecTools on random lists."""

from __future__ import annotations

import random
from collections import Counter
from functools import cache

import numpy as np
import pytest

from streammetrics.metrics.assessment import AssessmentLayout, CatalogueItem, ItemCatalogue
from streammetrics.metrics.names import Metric
from streammetrics.metrics.records import SUM_BITS
from tests.metrics.golden.answers import ask
from tests.metrics.golden.cases import CUTOFFS, Case

EQUAL = 1e-12


@cache
def lists() -> list[Case]:
    """Lists of 1..20 of 60 items, some items much more often than others, with earlier use of some."""
    draw = random.Random(2011)
    pool = [f"d{number:03d}" for number in range(60)]
    weights = [1 / (number + 1) for number in range(60)]
    cases = []
    for _ in range(250):
        items = tuple(dict.fromkeys(draw.choices(pool, weights, k=draw.randint(1, 20))))
        used = dict.fromkeys(draw.choices(pool, weights, k=draw.randint(0, 6)), 1.0)
        cases.append(Case(items, used))
    return cases


def catalogue() -> ItemCatalogue:
    """All items: their attributes as the worker makes them, and the lists that used them before."""
    used = Counter(item for case in lists() for item in case.grades)
    numbers = {item: int(item[1:]) for case in lists() for item in (*case.items, *case.grades)}
    items = {
        item: CatalogueItem((str(number % 2), str(number % 3), str(number % 5)), used[item], used[item]) for item, number in numbers.items()
    }
    return ItemCatalogue(items, users=sum(bool(case.grades) for case in lists()))


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize(("name", "factor"), [("diversity", 3), ("novelty", 1), ("popularity_share", 1)])
def test_the_values_of_lists_are_those_of_rectools(name: str, factor: int, k: int) -> None:
    layout = AssessmentLayout([Metric(name, k)], catalogue())
    values = np.array([above / below for case in lists() for _, above, below in layout.ratios(layout.row(case.items, ()), 1)])
    theirs = np.array(ask("beyond_rectools", lists())[f"{name}@{k}"])
    rounding = 2.0**-SUM_BITS if name == "novelty" else 0  # half a unit for each item's novelty, and half for their mean
    assert np.abs(factor * values - theirs).max() <= rounding + EQUAL * max(1, theirs.max())
    assert (name, k) == ("diversity", 1) or theirs.max() > theirs.min()
