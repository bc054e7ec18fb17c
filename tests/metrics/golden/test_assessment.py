"""Coverage, Gini, diversity, novelty and popularity are those of RecTools and LensKit on random lists."""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from streammetrics.offline.evaluation.assessment import Assessment, Popularity, assess_lists
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


def attributes_of(item: str) -> tuple[int, int, int]:
    number = int(item[1:])
    return number % 2, number % 3, number % 5


def assessed(k: int) -> Assessment:
    pairs = [(at, item) for at, case in enumerate(lists()) for item in case.grades]
    catalogue = {item for case in lists() for item in (*case.items, *case.grades)}
    attributes = {item: attributes_of(item) for item in catalogue}
    return assess_lists(
        [case.items for case in lists()], k, catalogue=catalogue, popularity=Popularity.of_pairs(pairs), attributes=attributes
    )


@pytest.mark.parametrize("k", CUTOFFS)
def test_the_values_are_those_of_rectools(k: int) -> None:
    found, theirs = assessed(k), ask("beyond_rectools", lists())
    assert found.means[f"coverage@{k}"] == pytest.approx(theirs[f"coverage@{k}"][0], abs=EQUAL)
    for name, factor in (("diversity", 3), ("novelty", 1), ("popularity", 1), ("popularity_share", 1)):
        values = np.array(theirs[f"{name}@{k}"])
        assert np.abs(factor * found.values[f"{name}@{k}"] - values).max() <= EQUAL * max(1, values.max()), name
        assert k == 1 or values.max() > values.min()


@pytest.mark.parametrize("k", CUTOFFS)
def test_the_gini_coefficient_is_that_of_lenskit(k: int) -> None:
    assert assessed(k).means[f"gini@{k}"] == pytest.approx(ask("beyond_lenskit", lists())[f"gini@{k}"][0], abs=EQUAL)
