"""All input shapes and all sizes of a batch give the same integers for a list."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streammetrics.metrics import ALL_METRIC_NAMES, METRIC_NAMES, Scorer, Spec
from streammetrics.metrics.kernel.blocks import BLOCK_HITS, BLOCK_LISTS
from tests.metrics.lists import (
    ANY,
    accepted,
    as_hits,
    as_ragged,
    as_unseen,
    at_cutoffs,
    batches,
    lists_of,
    metric_names,
    score_hits,
    scorers,
)
from tests.support.tables import for_each


@given(batches, st.data(), scorers(), st.randoms(use_true_random=False))
def test_all_input_shapes_give_the_same_integers(
    drawn: list[list[float]], data: st.DataObject, scorer: Scorer, chance: random.Random
) -> None:
    lists = [[accepted(scorer, grade) for grade in grades] for grades in drawn]
    hidden = [[accepted(scorer, grade) for grade in data.draw(lists_of(ANY, items_max=5))] for _ in lists]
    unseen = as_unseen(hidden)
    both = list(zip(lists, hidden, strict=True))
    expected = np.array([scorer.score_list(*pair) for pair in both], dtype=np.int64).reshape(len(lists), len(scorer.columns))
    shuffled = as_hits(lists)
    chance.shuffle(shuffled)
    ways: dict[str, npt.ArrayLike] = {
        "one list, numpy": [scorer.score_list(np.array(grades, dtype=np.float64), extra) for grades, extra in both],
        "hits": score_hits(scorer, lists, as_hits(lists), unseen),
        "hits in any order": score_hits(scorer, lists, shuffled, unseen),
        "ragged": scorer.score_ragged(*as_ragged(lists), unseen),
    }
    for way, got in ways.items():
        np.testing.assert_array_equal(np.reshape(got, expected.shape), expected, err_msg=way)


@for_each(product([1, 3, 5, 12], [20, 57, 64, 65, 130, 1024, 1025]))
def test_lists_and_their_hits_have_the_same_scores_for_any_length_and_grade(case: tuple[int, int]) -> None:
    top, longest = case
    chance = np.random.default_rng(longest + top)
    lengths = np.array([0, longest, 1, *chance.integers(0, longest + 1, 40), longest, 0])
    offsets = np.cumsum([0, *lengths])
    flat = (chance.integers(1, top + 1, offsets[-1]) * (chance.random(offsets[-1]) < 0.2)).astype(np.uint8)
    unseen = chance.integers(0, lengths.size, 30), chance.integers(0, top + 1, 30)
    for names in (["map", *at_cutoffs(METRIC_NAMES, (5, 10))], ["r_precision", *at_cutoffs(ALL_METRIC_NAMES, (20, 70))], ["rbp@200"]):
        scorer = Scorer(names, Spec(err_grade_max=15))
        from_hits = scorer.score_hits(lengths, *hits_of(flat, offsets), unseen)
        np.testing.assert_array_equal(scorer.score_ragged(flat, offsets, unseen), from_hits)


def hits_of(flat: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hits = np.flatnonzero(flat)
    rows = np.searchsorted(offsets, hits, side="right") - 1
    return rows, hits - offsets[rows], flat[hits]


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_lists_in_several_blocks_score_like_single_lists(dtype: type) -> None:
    chance = np.random.default_rng(11)
    lengths = chance.integers(0, 30, BLOCK_LISTS + 700)
    offsets = np.cumsum([0, *lengths])
    flat = (chance.integers(1, 4, offsets[-1]) * (chance.random(offsets[-1]) < 0.3)).astype(dtype)
    flat[offsets[BLOCK_LISTS + 3] :][:2] = 9  # the last block has higher grades than the first
    scorer = Scorer(["ndcg@10", "map@20", "mrr@5"])
    batch = scorer.score_ragged(flat, offsets)
    for row in [*range(0, lengths.size, 97), *range(BLOCK_LISTS - 3, BLOCK_LISTS + 6), lengths.size - 1]:
        assert tuple(batch[row].tolist()) == scorer.score_list(flat[offsets[row] : offsets[row + 1]].tolist())


@given(lists_of(ANY), metric_names(), st.sampled_from([None, 8, 9.5]), st.integers(30, 60))
def test_limits_do_not_change_results(grades: list[float], names: list[str], grade_max: float | None, items_max: int) -> None:
    spec = Spec(err_grade_max=9.5)
    usual = Scorer(names, spec)
    assume(max(grades, default=0) <= usual.grade_max)  # without a cut-off, long lists leave less room for grades
    bounded = Scorer(names, spec, items_max=items_max, grade_max=grade_max)
    assert bounded.score_list(grades) == usual.score_list(grades)
    assert bounded.score_ragged(grades, [0, len(grades)]).tolist() == [list(usual.score_list(grades))]


@given(lists_of(ANY))
def test_a_metric_has_the_same_value_alone_and_among_others(grades: list[float]) -> None:
    spec = Spec(err_grade_max=8)
    names = ["r_precision", "map", *at_cutoffs(ALL_METRIC_NAMES, (20, 3))]
    together = Scorer(names, spec).values(Scorer(names, spec).score_list(grades))
    alone: dict[str, float] = {}
    for name in names:
        alone |= Scorer([name], spec).values(Scorer([name], spec).score_list(grades))
    assert together == alone


@pytest.mark.parametrize("grades", [[1, 2, 3], [0.5, 0.9, 1.5], np.linspace(0.001, 3, 5000)], ids=["whole", "few", "many"])
def test_batches_of_many_blocks_score_like_single_lists(grades: list[float]) -> None:
    chance = np.random.default_rng(7)
    lengths = chance.integers(0, 40, 2 * BLOCK_LISTS + 5)
    lengths[[0, 1, -1]] = 0
    filled = chance.random((lengths.size, 40)) < 0.45
    rows, positions = np.nonzero(filled & (np.arange(40) < lengths[:, None]))
    assert rows.size > 2 * BLOCK_HITS
    drawn = chance.choice(grades, rows.size)
    scorer = Scorer(["r_precision", *at_cutoffs(METRIC_NAMES, (5, 20))])
    batch = scorer.score_hits(lengths, rows, positions, drawn)
    borders = np.searchsorted(rows, np.arange(lengths.size + 1)).tolist()
    places, values = positions.tolist(), drawn.tolist()
    for row in [*range(0, lengths.size, 11), *range(BLOCK_LISTS - 3, BLOCK_LISTS + 3), lengths.size - 1]:
        hits = slice(borders[row], borders[row + 1])
        graded = dict(zip(places[hits], values[hits], strict=True))
        assert tuple(batch[row].tolist()) == scorer.score_list([graded.get(place, 0) for place in range(lengths[row])])


def test_a_list_larger_than_a_block_is_scored_whole() -> None:
    size = BLOCK_HITS + 100
    scorer = Scorer(["ndcg@10", "recall@100", "map@5000", "dcg@20000"], grade_max=3)
    grades = [1, 2, 3, 0.5] * (size // 4)
    flat = [1, *grades, 2, 0]
    batch = scorer.score_ragged(flat, [0, 1, 1 + len(grades), len(flat)])
    assert [tuple(row) for row in batch.tolist()] == [scorer.score_list(part) for part in ([1], grades, [2, 0])]


def test_oversized_tables_are_not_built() -> None:
    grades = np.random.default_rng(3).random(4000) * 3
    scorer = Scorer(["ndcg@1000", "ndcg_exp@500", "dcg@2000"])
    assert scorer.score_ragged(grades, [0, grades.size]).tolist() == [list(scorer.score_list(grades.tolist()))]


@for_each([np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, np.bool_])
def test_the_dtype_of_a_grade_does_not_matter(dtype: type) -> None:
    scorer = Scorer(["ndcg@3", "map@3"])
    assert scorer.score_ragged(np.array([0, 1, 1], dtype=dtype), [0, 3]).tolist() == [list(scorer.score_list([0, 1, 1]))]


def test_no_lists_give_no_rows() -> None:
    scorer = Scorer(["ndcg@3", "item_hit_rate@3"])
    for rows in (scorer.score_hits([], [], [], []), scorer.score_ragged([], [0])):
        assert rows.shape == (0, 3)
        assert rows.dtype == np.int64


def test_empty_lists_have_no_places_and_score_zero() -> None:
    scorer = Scorer(["r_precision", *at_cutoffs(METRIC_NAMES, (3,))])
    assert not scorer.score_ragged([], [0, 0, 0]).any()
    assert "item_hit_rate@3" not in scorer.values(scorer.score_list([]))


def test_columns_follow_the_requested_order() -> None:
    scorer = Scorer(["item_hit_rate@2", "dcg@1", "ndcg@2", "item_hit_rate@1"])
    assert [(str(column.metric), column.kind, column.scale_bits) for column in scorer.columns] == [
        ("item_hit_rate@2", "hits", 0),
        ("item_hit_rate@2", "places", 0),
        ("dcg@1", "sum", 32),
        ("ndcg@2", "sum", 40),
        ("item_hit_rate@1", "hits", 0),
        ("item_hit_rate@1", "places", 0),
    ]
    assert scorer.score_list([1, 0, 0]) == (1, 2, 1 << 32, 1 << 40, 1, 1)
    assert scorer.values(scorer.score_list([1, 0, 0])) == {"item_hit_rate@2": 0.5, "dcg@1": 1.0, "ndcg@2": 1.0, "item_hit_rate@1": 1.0}


@given(lists_of(st.integers(1, 15), items_max=40), st.integers(1, 40))
def test_the_largest_grades_allowed_do_not_overflow(grades: list[float], k: int) -> None:
    for names in ([f"ndcg@{k}", f"cg@{k}", f"dcg@{k}"], [f"ndcg_exp@{k}"]):
        scorer = Scorer(names)
        largest = [scorer.grade_max if grade else 0 for grade in grades]
        top = scorer.score_list([scorer.grade_max] * len(grades))
        assert scorer.score_ragged(largest, [0, len(grades)]).tolist() == [list(scorer.score_list(largest))]
        assert all(score <= best for score, best in zip(scorer.score_list(largest), top, strict=True))
