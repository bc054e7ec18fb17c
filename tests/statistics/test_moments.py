"""Moments after any changes in any order equal a batch computation over the users' current totals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import ExperimentError
from streammetrics.metrics import Scorer
from streammetrics.statistics.measures import LISTS_AT, USERS_AT, Measures, divide_half_even
from streammetrics.statistics.moments import add, of_users, subtract, zero
from tests.support.columns import MEASURES, ONE, SCORER, WITH_COVARIATES, covariates, of_user, totals


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | totals()), max_size=30))
def test_moments_after_any_changes_equal_a_batch_computation(history: list[tuple[int, list[int] | None]]) -> None:
    moments, present = zero(MEASURES), dict[int, list[int]]()
    for user, after in history:
        before = [present.pop(user)] if user in present else []
        present |= {} if after is None else {user: after}
        moments = add(subtract(moments, of_users(MEASURES, before)), of_users(MEASURES, [] if after is None else [after]))
    assert moments == of_users(MEASURES, present.values())


@given(st.lists(totals(), max_size=12), st.integers(0, 12))
def test_moments_merge_over_any_partition(users: list[list[int]], cut: int) -> None:
    parts = of_users(MEASURES, users[:cut]), of_users(MEASURES, users[cut:])
    assert add(*parts) == add(*reversed(parts)) == of_users(MEASURES, users)
    assert subtract(of_users(MEASURES, users), parts[1]) == parts[0]


@given(st.lists(totals(), max_size=8))
def test_many_users_at_once_equal_one_by_one(users: list[list[int]]) -> None:
    expected = zero(MEASURES)
    for row in users:
        expected = add(expected, of_user(MEASURES, row))
    assert of_users(MEASURES, users) == expected
    assert of_users(MEASURES, np.array(users, dtype=np.int64).reshape(-1, MEASURES.totals_width)) == expected


@given(st.lists(st.tuples(totals(), totals()), min_size=13, max_size=16))
def test_many_users_with_covariates_equal_one_by_one(users: list[tuple[list[int], list[int]]]) -> None:
    rows, earlier = ([pair[at] for pair in users] for at in (0, 1))
    values = [WITH_COVARIATES.covariate_values(row) for row in earlier]
    columns = WITH_COVARIATES.covariate_columns(np.array(earlier))
    assert columns.tolist() == [
        [number for covariate in covariates for number in ((0, 0) if covariate is None else (1, covariate))] for covariates in values
    ]
    one_by_one = zero(WITH_COVARIATES)
    for row_of_user, extra in zip(rows, values, strict=True):
        one_by_one = add(one_by_one, of_user(WITH_COVARIATES, row_of_user, extra))
    assert of_users(WITH_COVARIATES, rows, values) == one_by_one
    assert of_users(WITH_COVARIATES, np.array(rows), columns) == one_by_one


def test_covariates_of_large_means_are_exact() -> None:
    earlier = [[1 << 19, 1, ONE, 5, 7, (1 << 61) + 1], [1 << 20, 1, ONE, 3, 1 << 50, 5], [0] * 6]
    columns = WITH_COVARIATES.covariate_columns(np.array(earlier))
    assert columns.tolist() == [
        [number for covariate in WITH_COVARIATES.covariate_values(row) for number in ((0, 0) if covariate is None else (1, covariate))]
        for row in earlier
    ]


@given(st.lists(st.tuples(totals(), st.none() | covariates()), max_size=8))
def test_lists_of_covariates_equal_one_by_one(users: list[tuple[list[int], list[int | None] | None]]) -> None:
    expected = zero(WITH_COVARIATES)
    for row, extra in users:
        expected = add(expected, of_user(WITH_COVARIATES, row, extra))
    assert of_users(WITH_COVARIATES, [row for row, _ in users], [extra for _, extra in users]) == expected


@pytest.mark.parametrize("size", [256, 257, 2_469, 8_192, 8_193])
def test_the_largest_words_add_up_exactly(size: int) -> None:
    narrow = Measures(Scorer(["mrr@10"]).columns)
    top = (1 << 62) - 1
    assert of_users(narrow, np.full((size, 2), top)) == [size * total for total in of_user(narrow, [top, top])]


@pytest.mark.parametrize("size", [255, 256, 257, 5_000])
def test_blocks_of_many_large_users_are_exact(size: int) -> None:
    random = np.random.default_rng(size)
    top = (1 << 62) - 1
    users = random.integers(top - 1_000, top, (size, MEASURES.totals_width))
    expected = [0] * MEASURES.moments_width
    for row in users.tolist():
        expected = add(expected, of_user(MEASURES, row))
    assert of_users(MEASURES, users) == expected


def test_totals_beyond_int64_are_exact() -> None:
    enormous = [1 << 70, 1 << 80, 0, 5, 7, 1 << 75]
    assert of_users(MEASURES, [enormous, enormous]) == add(of_user(MEASURES, enormous), of_user(MEASURES, enormous))


def test_users_without_lists_add_nothing() -> None:
    assert of_users(MEASURES, [[0] * MEASURES.totals_width]) == of_users(MEASURES, []) == zero(MEASURES)
    assert of_users(MEASURES, np.zeros((3, MEASURES.totals_width), dtype=np.int64)) == zero(MEASURES)


def test_ratios_divide_by_items_and_user_measures_by_users() -> None:
    moments = of_users(MEASURES, [[2, 0, ONE, 3, 10, 0], [1, 0, 0, 0, 5, 0]])
    assert (moments[USERS_AT], moments[LISTS_AT]) == (2, 3)
    items, by_user = (MEASURES.places(MEASURES.named(name)) for name in ("item_hit_rate@5", "user_hit_rate@5"))
    assert [moments[place] for place in (items.users, items.y, items.d, items.yy, items.dd, items.yd)] == [2, 3, 15, 9, 125, 30]
    assert [moments[place] for place in (by_user.y, by_user.d, by_user.yy, by_user.yd)] == [1, 2, 1, 1]


def test_users_and_lists_come_first_in_every_layout() -> None:
    only_items = Measures(Scorer(["item_hit_rate@5"]).columns)
    assert of_user(only_items, [3, 1, 6])[: LISTS_AT + 1] == [1, 3]


@given(totals())
def test_a_covariate_is_the_mean_rounded_once(earlier: list[int]) -> None:
    lists, ndcg, hits, items, places, _ = earlier
    covariates = dict(zip(map(str, WITH_COVARIATES.of_lists), WITH_COVARIATES.covariate_values(earlier), strict=True))
    if lists:
        assert covariates["ndcg@10"] == round(Fraction(ndcg, lists << 20))
        assert covariates["hit_rate@5"] == round(Fraction(hits, lists << 20))
    else:
        assert covariates["ndcg@10"] is None
        assert covariates["hit_rate@5"] is None
    assert covariates["item_hit_rate@5"] == (round(Fraction(items << 20, places)) if places else None)


@given(st.integers(-(1 << 80), 1 << 80), st.integers(1, 1 << 40))
def test_division_rounds_half_to_even(above: int, below: int) -> None:
    assert divide_half_even(above, below) == round(Fraction(above, below))
    assert divide_half_even((2 * above + 1) * below, 2 * below) == round(Fraction(2 * above + 1, 2))


def test_wrong_widths_and_numbers_are_rejected() -> None:
    with pytest.raises(ExperimentError, match="totals: got 2 numbers; the layout has 6"):
        of_users(MEASURES, [[1, 2]])
    with pytest.raises(ExperimentError, match=r"totals: got shape \(1, 2\)"):
        of_users(MEASURES, np.array([[1, 2]]))
    for many in ([[-1, 0, 0, 0, 0, 0]], np.array([[-1, 0, 0, 0, 0, 0]])):
        with pytest.raises(ExperimentError, match="got -1 lists"):
            of_users(MEASURES, many)
    with pytest.raises(ExperimentError, match="covariates: got some"):
        of_users(MEASURES, [[1, 0, 0, 0, 0, 0]], [[None]])
    with pytest.raises(ExperimentError, match="covariates: this layout has none"):
        MEASURES.covariate_places(MEASURES.all[0])
    with pytest.raises(ExperimentError, match="measure: got 'ndcg@3'; must be one of ndcg@10"):
        MEASURES.named("ndcg@3")


def test_the_layout_keeps_the_order_of_the_scorer() -> None:
    assert MEASURES.totals_width == 1 + len(SCORER.columns)
    assert MEASURES.names == ("ndcg@10", "hit_rate@5", "item_hit_rate@5", "dcg@10", "user_hit_rate@5")
