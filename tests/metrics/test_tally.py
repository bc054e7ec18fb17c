"""Flat tallies: the rows of lists, their sums, and the means that are read from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import ALL_METRIC_NAMES, MetricError, Scorer, Spec, TallyLayout
from streammetrics.metrics.tally import SHAPES_KEPT_MAX
from streammetrics.offline.evaluation.evaluate import exact_sum
from tests.metrics.lists import WHOLE, as_ragged, at_cutoffs, lists_of
from tests.support.tallies import tally_of

SPEC = Spec(err_grade_max=5, relevance_threshold=2)
NAMES = ["r_precision", "ndcg", "dcg@10", "mrr@10", *at_cutoffs(ALL_METRIC_NAMES, (3,))]
LAYOUT = TallyLayout(Scorer(NAMES, SPEC))

batches = st.lists(lists_of(WHOLE, items_max=15), max_size=8)


@given(batches, batches)
def test_tallies_are_sums_of_what_the_scorer_gives(first: list[list[float]], second: list[list[float]]) -> None:
    rows = LAYOUT.scorer.score_ragged(*as_ragged(first + second)).tolist()
    expected = [sum(row[at] for row in rows) for at in range(len(LAYOUT.scorer.columns))]
    total = [one + other for one, other in zip(tally_of(LAYOUT, first), tally_of(LAYOUT, second), strict=True)]
    assert total == tally_of(LAYOUT, first + second)
    assert list(LAYOUT.sums(total)) == expected
    assert [total[LAYOUT.place_of(at)] for at in range(len(LAYOUT.columns))] == expected


@given(batches)
def test_a_row_has_the_counts_and_the_columns_of_its_list(lists: list[list[float]]) -> None:
    for grades in lists:
        row = tally_of(LAYOUT, [grades])
        assert len(row) == LAYOUT.width
        assert (LAYOUT.lists(row), LAYOUT.lists_with_feedback(row)) == (1, any(grades))
        assert tuple(LAYOUT.sums(row)) == LAYOUT.scorer.score_list(grades)


@given(st.lists(lists_of(WHOLE, items_max=15), min_size=1, max_size=8))
def test_both_views_are_means_over_their_lists(lists: list[list[float]]) -> None:
    scored = [LAYOUT.scorer.values(LAYOUT.scorer.score_list(grades)) for grades in lists]
    graded = [any(grades) for grades in lists]
    kept = tally_of(LAYOUT, lists)
    assert (LAYOUT.lists(kept), LAYOUT.lists_with_feedback(kept)) == (len(lists), sum(graded))
    zero, with_feedback = LAYOUT.means(kept), LAYOUT.means(kept, "with_feedback")
    for metric in LAYOUT.scorer.metrics:
        if metric.name == "item_hit_rate":
            continue
        values = [value[str(metric)] for value in scored]
        over = [value for value, is_graded in zip(values, graded, strict=True) if is_graded]
        assert zero[str(metric)] == pytest.approx(math.fsum(values) / len(values), abs=1e-12)
        if over:
            assert with_feedback[str(metric)] == pytest.approx(math.fsum(over) / len(over), abs=1e-12)
        else:
            assert str(metric) not in with_feedback


def test_a_ratio_covers_all_places_or_those_of_lists_with_feedback() -> None:
    layout = TallyLayout(Scorer(["item_hit_rate@2"]))
    kept = tally_of(layout, [[0, 0, 0], [1, 0, 0], [1], []])
    assert kept == [4, 2, 2, 5, 3]
    assert layout.means(kept) == {"item_hit_rate@2": 2 / 5}
    assert layout.means(kept, "with_feedback") == {"item_hit_rate@2": 2 / 3}


def test_places_of_a_list_with_empty_places_are_those_with_an_item() -> None:
    layout = TallyLayout(Scorer(["item_hit_rate@2"]))
    (row,) = layout.rows_of_hits([4], [0], [3], [1], {0: (1, 3)}).tolist()
    assert row == [1, 1, 0, 1, 1]


def test_rows_of_shapes_are_those_of_their_hits_also_when_there_are_more_than_are_kept() -> None:
    layout = TallyLayout(Scorer(["ndcg@10", "item_hit_rate@10"]))
    shapes = [(length, place, 1) for length in range(1, 100) for place in range(length)]
    lengths, places, grades = zip(*shapes, strict=True)
    expected = layout.rows_of_hits(lengths, range(len(shapes)), places, grades)
    assert len(shapes) > SHAPES_KEPT_MAX
    for some in (slice(0, 3_000), slice(2_000, 4_500), slice(0, 10), slice(None), slice(4_000, None)):
        assert layout.rows_of_shapes(shapes[some]).tolist() == expected[some].tolist()
    sparse, whole = layout.rows_of_shapes([((1, 3), 3, 1), (4, 3, 1)]).tolist()
    assert (sparse[-1], whole[-1]) == (2, 4)


def test_a_tally_of_no_lists_has_no_means() -> None:
    assert LAYOUT.means(LAYOUT.zero()) == LAYOUT.means(LAYOUT.zero(), "with_feedback") == {}


def test_an_unknown_view_is_rejected() -> None:
    with pytest.raises(MetricError, match="view: got 'skip'; allowed are zero, with_feedback"):
        LAYOUT.means(LAYOUT.zero(), "skip")  # type: ignore[arg-type]


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_sums_of_signed_numbers_are_exact_beyond_64_bits(numbers: list[int]) -> None:
    assert exact_sum(np.array(numbers, dtype=np.int64)) == sum(numbers)
