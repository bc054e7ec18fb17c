"""One list has one row of integers, whichever way it is handed in and whatever stands beside it."""

from __future__ import annotations

import math
import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import METRIC_NAMES, Scorer, Spec
from streammetrics.metrics.batch import BLOCK_HITS, BLOCK_LISTS
from tests.metrics.lists import ANY, as_hits, as_padded, as_ragged, batches, lists_of, metric_names, score_hits

specs = st.builds(
    Spec,
    gain=st.sampled_from(["linear", "exp2"]),
    discount=st.sampled_from(["log2(i+1)", "max(1,log2(i))"]),
    relevance_threshold=st.sampled_from([0.25, 1, 2]),
)


@given(batches, metric_names(), specs, st.randoms(use_true_random=False))
def test_all_paths_give_the_same_integers(lists: list[list[float]], names: list[str], spec: Spec, chance: random.Random) -> None:
    scorer = Scorer(names, spec)
    expected = np.array([scorer.score_list(grades) for grades in lists], dtype=np.int64).reshape(len(lists), len(scorer.columns))
    shuffled = as_hits(lists)
    chance.shuffle(shuffled)
    ways: dict[str, npt.ArrayLike] = {
        "one list, sparse": [scorer.score_list_hits(len(grades), [(at, g) for at, g in enumerate(grades) if g][::-1]) for grades in lists],
        "one list, numpy": [scorer.score_list(np.array(grades, dtype=np.float64)) for grades in lists],
        "hits": score_hits(scorer, lists, as_hits(lists)),
        "hits in any order": score_hits(scorer, lists, shuffled),
        "ragged": scorer.score_ragged(*as_ragged(lists)),
        "padded": scorer.score_padded(*as_padded(lists, padding=math.nan)),
    }
    for way, got in ways.items():
        np.testing.assert_array_equal(np.reshape(got, expected.shape), expected, err_msg=way)


@given(lists_of(ANY), metric_names(), st.sampled_from([None, 8, 9.5]), st.integers(30, 60))
def test_limits_change_no_number(grades: list[float], names: list[str], grade_max: float | None, items_max: int) -> None:
    bounded = Scorer(names, items_max=items_max, grade_max=grade_max)
    assert bounded.score_list(grades) == Scorer(names).score_list(grades)
    assert bounded.score_ragged(grades, [0, len(grades)]).tolist() == [list(Scorer(names).score_list(grades))]


@given(lists_of(ANY))
def test_one_metric_alone_has_the_number_it_has_in_company(grades: list[float]) -> None:
    names = [f"{name}@{k}" for name in METRIC_NAMES for k in (20, 3)]
    together = Scorer(names).values(Scorer(names).score_list(grades))
    alone: dict[str, float] = {}
    for name in names:
        alone |= Scorer([name]).values(Scorer([name]).score_list(grades))
    assert together == alone


@pytest.mark.parametrize("grades", [[1, 2, 3], [0.5, 0.9, 1.5], np.linspace(0.001, 3, 5000)], ids=["whole", "few", "many"])
def test_batches_of_many_blocks_equal_the_one_list_path(grades: list[float]) -> None:
    chance = np.random.default_rng(7)
    lengths = chance.integers(0, 40, 2 * BLOCK_LISTS + 5)
    lengths[[0, 1, -1]] = 0
    filled = chance.random((lengths.size, 40)) < 0.15
    rows, positions = np.nonzero(filled & (np.arange(40) < lengths[:, None]))
    assert rows.size > 2 * BLOCK_HITS
    drawn = chance.choice(grades, rows.size)
    scorer = Scorer([f"{name}@{k}" for name in METRIC_NAMES for k in (5, 20)])
    batch = scorer.score_hits(lengths, rows, positions, drawn)
    borders = np.searchsorted(rows, np.arange(lengths.size + 1)).tolist()
    places, values = positions.tolist(), drawn.tolist()
    for row in [*range(0, lengths.size, 11), *range(BLOCK_LISTS - 3, BLOCK_LISTS + 3), lengths.size - 1]:
        hits = slice(borders[row], borders[row + 1])
        assert tuple(batch[row].tolist()) == scorer.score_list_hits(int(lengths[row]), zip(places[hits], values[hits], strict=True))


def test_one_list_larger_than_a_block_is_scored_whole() -> None:
    size = BLOCK_HITS + 100
    scorer = Scorer(["ndcg@10", "recall@100", "map@5000", "dcg@20000"], grade_max=3)
    grades = [1, 2, 3, 0.5] * (size // 4)
    flat = [1, *grades, 2, 0]
    batch = scorer.score_ragged(flat, [0, 1, 1 + len(grades), len(flat)])
    assert [tuple(row) for row in batch.tolist()] == [scorer.score_list(part) for part in ([1], grades, [2, 0])]


def test_tables_that_would_be_too_large_are_done_without() -> None:
    grades = np.random.default_rng(3).random(4000) * 3
    scorer = Scorer(["ndcg@1000", "ndcg_exp@500", "dcg@2000"])
    assert scorer.score_padded(grades.reshape(1, -1)).tolist() == [list(scorer.score_list(grades.tolist()))]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.float32, np.float64, np.bool_])
def test_the_dtype_of_a_grade_does_not_matter(dtype: type) -> None:
    scorer = Scorer(["ndcg@3", "map@3"])
    assert scorer.score_padded(np.array([[0, 1, 1]], dtype=dtype)).tolist() == [list(scorer.score_list([0, 1, 1]))]


def test_no_lists_give_no_rows() -> None:
    scorer = Scorer(["ndcg@3", "item_hit_rate@3"])
    for rows in (scorer.score_hits([], [], [], []), scorer.score_ragged([], [0]), scorer.score_padded(np.zeros((0, 4)))):
        assert rows.shape == (0, 3)
        assert rows.dtype == np.int64


def test_lists_without_items_have_no_places_and_score_nothing() -> None:
    scorer = Scorer([f"{name}@3" for name in METRIC_NAMES])
    assert not scorer.score_padded(np.zeros((2, 0))).any()
    assert "item_hit_rate@3" not in scorer.values(scorer.score_list([]))


def test_columns_follow_the_order_asked_for() -> None:
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
