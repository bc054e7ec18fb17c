"""Signs of fewer items, and of more users with few lists: found when planted, and hardly ever without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from streammetrics.experiments.list_signs import ListSigns, list_signs
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import of_users
from streammetrics.metrics import Scorer

MEASURES = Measures(Scorer(["ndcg@10", "item_hit_rate@3", "item_hit_rate@10"]).columns)


def arm(seed: int, *, users: int = 1_000, items: int = 10, crawler: float = 0.0, tail: float = 0.0) -> list[int]:
    """The moments of an arm: users with several lists, of which some are empty. `crawler`: more lists, each of a user of its own."""
    random = np.random.default_rng(seed)
    lists = np.minimum(random.pareto(tail, users) * 2 + 1, 500).astype(int) if tail else random.geometric(0.2, users)
    lists = np.concatenate([lists, np.ones(int(crawler * lists.sum()), int)])
    user = np.repeat(np.arange(lists.size), lists)
    is_empty = random.random(user.size) < np.minimum(random.gamma(0.3, 1.0, lists.size) * 0.04 / 0.3, 1)[user]
    rows = np.zeros((lists.size, 1 + len(MEASURES.columns)), np.int64)
    rows[:, 0] = lists
    for place, column in enumerate(MEASURES.columns, 1):
        if column.kind == "places":
            rows[:, place] = np.bincount(user, np.where(is_empty, 0, min(items, column.metric.k)), lists.size)
    return of_users(MEASURES, rows)


def signs(treatment: Sequence[int], control: Sequence[int]) -> ListSigns:
    return list_signs(MEASURES, ("new", treatment), ("old", control))


def test_fewer_items_are_told_with_what_they_do() -> None:
    found = signs(arm(1, items=4), arm(2))
    assert found.fewer_items is not None
    assert found.fewer_items.startswith("new shows 3.8")
    assert found.notes == (f"{found.fewer_items}: item_hit_rate@10 is per item shown and rises by that alone",)


def test_more_items_are_told_and_hold_nothing_back() -> None:
    found = signs(arm(1), arm(2, items=4))
    assert found.fewer_items is None
    assert found.notes[0].endswith("item_hit_rate@10 is per item shown and falls by that alone")


def test_nine_of_ten_items_are_always_found() -> None:
    assert all(signs(arm(2 * seed, items=9), arm(2 * seed + 1)).fewer_items for seed in range(50))


def test_a_crawler_with_an_id_for_each_request_is_told() -> None:
    (note,) = signs(arm(1, crawler=0.06), arm(2)).notes
    assert note.startswith("new has 4.")
    assert " fewer: users come back more or less often, or a crawler or client makes new ids in one arm" in note


@pytest.mark.parametrize("tail", [0.0, 1.5])
def test_alike_arms_have_hardly_ever_a_sign(tail: float) -> None:
    assert sum(bool(signs(arm(2 * seed, tail=tail), arm(2 * seed + 1, tail=tail)).notes) for seed in range(300)) <= 3


def test_a_difference_of_a_hundredth_of_the_items_is_not_told_however_certain() -> None:
    rows = np.array([[1, 0, 0, 0, 0, 0]] * 1_000_000, np.int64)[:, : 1 + len(MEASURES.columns)]
    place = 1 + next(at for at, column in enumerate(MEASURES.columns) if (column.kind, column.metric.k) == ("places", 10))
    rows[:, place] = 10
    control = of_users(MEASURES, rows)
    rows[: rows.shape[0] // 10, place] = 9
    assert signs(of_users(MEASURES, rows), control).notes == ()


def test_measures_without_items_have_no_sign_of_them() -> None:
    measures = Measures(Scorer(["mrr@10"]).columns)
    moments = of_users(measures, [[2, 0]] * 200)
    assert list_signs(measures, ("new", moments), ("old", moments)) == ListSigns()
