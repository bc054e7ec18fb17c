"""Tallies: merging, reverting, reading means, storing, and rejecting different layouts."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.metrics import ALL_METRIC_NAMES, MetricError, PackedLists, Scorer, Spec, Tally, TallyLayout
from streammetrics.metrics.exact_integers import exact_sum, sum_of_products, sum_of_row
from streammetrics.metrics.kernels.packed import CHUNK_WORDS
from streammetrics.metrics.spec import Gain
from streammetrics.metrics.varints import read_varints, write_varints
from tests.metrics.lists import WHOLE, as_hits, as_padded, as_ragged, at_cutoffs, lists_of

SPEC = Spec(err_grade_max=5, relevance_threshold=2)
NAMES = ["r_precision", "ndcg", "dcg@10", "mrr@10", *at_cutoffs(ALL_METRIC_NAMES, (3,))]
LAYOUT = TallyLayout(Scorer(NAMES, SPEC), products=[("ndcg@3", "mrr@10"), ("dcg@3", "dcg@10")])
PLAIN = TallyLayout(Scorer(NAMES, SPEC), moments=False)

batches = st.lists(lists_of(WHOLE, items_max=15), max_size=8)


def tally(lists: list[list[float]], layout: TallyLayout = LAYOUT) -> Tally:
    return layout.of_ragged(*as_ragged(lists))


@given(batches, batches, batches)
def test_merging_is_associative_and_commutative_with_the_empty_tally_as_identity(
    first: list[list[float]], second: list[list[float]], third: list[list[float]]
) -> None:
    one, two, three = tally(first), tally(second), tally(third)
    assert one.merge(two).merge(three) == one.merge(two.merge(three)) == tally(first + second + third)
    assert one.merge(two) == two.merge(one)
    assert one.merge(LAYOUT.empty()) == one == LAYOUT.empty().merge(one)


@given(batches, batches, batches)
def test_merged_lists_can_be_removed_or_replaced(kept: list[list[float]], before: list[list[float]], after: list[list[float]]) -> None:
    assert tally(kept).merge(tally(before)).revert(tally(before)) == tally(kept)
    assert tally(kept).merge(tally(before)).update(tally(before), tally(after)) == tally(kept + after)


@pytest.mark.parametrize("layout", [LAYOUT, PLAIN], ids=["moments", "sums"])
@given(lists=batches, whole=st.booleans())
def test_every_input_shape_and_every_split_gives_the_same_tally(layout: TallyLayout, lists: list[list[float]], whole: bool) -> None:
    lists = [[min(grade, 3) * (1 if whole else 0.5) for grade in grades] for grades in lists]
    expected = layout.empty()
    for grades in lists:
        expected = expected.merge(layout.of_list(grades))
    rows, positions, grades = zip(*as_hits(lists), strict=True) if as_hits(lists) else ((), (), ())
    assert layout.of_hits([len(some) for some in lists], rows, positions, grades) == expected
    assert layout.of_padded(*as_padded(lists, padding=math.nan)) == tally(lists, layout) == expected
    if whole:
        assert layout.of_packed(PackedLists.from_ragged(*as_ragged(lists))) == expected


@given(
    st.lists(lists_of(st.integers(1, 3), items_max=40), max_size=12),
    st.lists(st.sampled_from([1, 2, 3, 9, 10, 11, 20, 64, 65, 130, 1000]), min_size=1, max_size=2, unique=True),
    st.sampled_from(["linear", "exp2", "binary", (0, 2, 2, 7)]),
    st.sampled_from([0.5, 1, 2, 3, 9]),
)
@example([[0, 1, 1]], [1000], "binary", 1)  # a cut-off above 255 with counts stored as bytes
def test_sums_equal_the_sums_over_single_lists(lists: list[list[float]], ks: list[int], gain: Gain, threshold: float) -> None:
    scorer = Scorer(at_cutoffs(("ndcg", "hit_rate", "dcg", "mrr"), ks), Spec(gain=gain, relevance_threshold=threshold))
    rows = [scorer.score_list(grades) for grades in lists]
    expected = (len(lists), sum(map(any, lists)), *(sum(row[at] for row in rows) for at in range(len(scorer.columns))))
    layout = TallyLayout(scorer, moments=False)
    assert layout.of_packed(PackedLists.from_ragged(*as_ragged(lists))).numbers == expected
    assert tally(lists, layout).numbers == expected


@pytest.mark.parametrize(("longest", "ks"), [(30, (10,)), (100, (5, 12))])
def test_packed_lists_in_many_chunks_have_the_same_sums_as_hits(longest: int, ks: tuple[int, ...]) -> None:
    chance = np.random.default_rng(longest)
    lengths = chance.integers(0, longest + 1, 2 * CHUNK_WORDS + 9)
    lengths[[0, CHUNK_WORDS - 1, CHUNK_WORDS, -1]] = 0
    offsets = np.cumsum([0, *lengths])
    filled = chance.random(lengths.size) * (chance.random(lengths.size) < 0.9)  # lists with no hits, some hits, and only hits
    flat = (chance.integers(1, 4, offsets[-1]) * (chance.random(offsets[-1]) < np.repeat(filled, lengths))).astype(np.uint8)
    hits = np.flatnonzero(flat)
    rows = np.repeat(np.arange(lengths.size), lengths)[hits]
    layout = TallyLayout(Scorer(at_cutoffs(("ndcg", "mrr", "hit_rate", "map", "recall"), ks)), moments=False)
    expected = layout.of_hits(lengths, rows, hits - offsets[rows], flat[hits])
    assert layout.of_packed(PackedLists.from_ragged(flat, offsets)) == expected == layout.of_ragged(flat, offsets)


@given(batches)
def test_the_rows_of_lists_sum_to_their_tally(lists: list[list[float]]) -> None:
    rows, positions, grades = zip(*as_hits(lists), strict=True) if as_hits(lists) else ((), (), ())
    own = PLAIN.rows_of_hits([len(some) for some in lists], rows, positions, grades)
    assert own.shape == (len(lists), PLAIN.width)
    assert [int(total) for total in own.sum(axis=0)] == list(tally(lists, PLAIN).numbers)


@given(st.lists(lists_of(WHOLE, items_max=15), min_size=1, max_size=8))
def test_every_view_is_the_mean_over_its_lists(lists: list[list[float]]) -> None:
    scored = [LAYOUT.scorer.values(LAYOUT.scorer.score_list(grades)) for grades in lists]
    relevant = [any(grade >= 2 for grade in grades) for grades in lists]
    graded = [any(grades) for grades in lists]
    kept = tally(lists)
    assert (kept.lists, kept.lists_with_feedback) == (len(lists), sum(graded))
    for metric in LAYOUT.scorer.metrics:
        if metric.name == "item_hit_rate":
            continue
        known = dict.fromkeys(("ndcg", "ndcg_exp", "err"), graded) | {name: [True] * len(lists) for name in ("dcg", "dcg_exp", "cg")}
        values = [value[str(metric)] for value in scored]
        views = {
            "zero": values,
            "skip": [value for value, is_known in zip(values, known.get(metric.name, relevant), strict=True) if is_known],
            "one": [value if is_known else 1.0 for value, is_known in zip(values, known.get(metric.name, relevant), strict=True)],
            "with_feedback": [value for value, is_graded in zip(values, graded, strict=True) if is_graded],
        }
        for view, over in views.items():
            means = kept.means(view)  # type: ignore[arg-type]
            if over:
                assert means[str(metric)] == pytest.approx(math.fsum(over) / len(over), abs=1e-12), (view, metric)
            else:
                assert str(metric) not in means


def test_the_spec_sets_the_default_view() -> None:
    lists = [[0, 0], [1, 0]]
    for view, expected in (("zero", 0.5), ("skip", 1.0), ("one", 1.0)):
        layout = TallyLayout(Scorer(["mrr@2"], Spec(no_relevant=view)))  # type: ignore[arg-type]
        assert tally(lists, layout).means() == {"mrr@2": expected}


def test_a_ratio_covers_all_places_or_those_of_lists_with_feedback() -> None:
    layout = TallyLayout(Scorer(["item_hit_rate@2"]), moments=False)
    kept = tally([[0, 0, 0], [1, 0, 0], [1], []], layout)
    assert kept.numbers == (4, 2, 2, 5, 3)
    assert kept.means("zero") == {"item_hit_rate@2": 2 / 5}
    assert kept.means("with_feedback") == {"item_hit_rate@2": 2 / 3}


def test_no_list_defines_a_metric_if_no_grade_can_be_relevant() -> None:
    layout = TallyLayout(Scorer(["ndcg@2", "mrr@2", "dcg@2"], Spec(gain="binary", relevance_threshold=9)))
    kept = tally([[1, 0], [0], []], layout)
    assert kept == layout.of_packed(PackedLists.from_bytes([bytes([1, 0]), bytes([0]), b""])) == tally([[0.5, 0], [0], []], layout)
    assert (kept.means("zero"), kept.means("skip")) == ({"ndcg@2": 0.0, "mrr@2": 0.0, "dcg@2": 0.0}, {"dcg@2": 0.0})


def test_unseen_items_define_metrics_and_count_as_feedback() -> None:
    layout = TallyLayout(Scorer(["recall@1", "ndcg@1"], Spec(no_relevant="skip")))
    kept = layout.of_ragged([0, 0], [0, 1, 2], unseen=([1], [1]))
    assert kept.lists_with_feedback == 1
    assert kept.means() == {"recall@1": 0.0, "ndcg@1": 0.0}
    assert kept == layout.of_list([0]).merge(layout.of_list([0], unseen=[1]))


@given(st.lists(lists_of(WHOLE, items_max=15), min_size=2, max_size=8))
def test_variances_and_covariances_equal_the_textbook_values(lists: list[list[float]]) -> None:
    rows = np.array([LAYOUT.scorer.score_list(grades) for grades in lists], dtype=object)
    where = {column.metric: (at, column.scale_bits) for at, column in enumerate(LAYOUT.scorer.columns)}
    for one, other in (("ndcg@3", "ndcg@3"), ("ndcg@3", "mrr@10"), ("mrr@10", "ndcg@3"), ("dcg@3", "dcg@10"), ("dcg@10", "dcg@10")):
        (x, x_bits), (y, y_bits) = (where[metric] for name in (one, other) for metric in LAYOUT.scorer.metrics if str(metric) == name)
        xs, ys = ([Fraction(int(row[at]), 1 << bits) for row in rows] for at, bits in ((x, x_bits), (y, y_bits)))
        mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
        exact = sum(((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)), Fraction(0)) / (len(xs) - 1)
        assert tally(lists).covariance(one, other) == float(exact)


@given(batches)
def test_a_stored_tally_is_read_back_unchanged(lists: list[list[float]]) -> None:
    for layout in (LAYOUT, PLAIN):
        kept = tally(lists, layout)
        again = Tally.from_bytes(kept.to_bytes())
        assert again == kept
        assert again.means("zero") == kept.means("zero")
        assert again.merge(kept).lists == 2 * kept.lists
        assert again.to_bytes() == kept.to_bytes()


def test_a_stored_tally_contains_the_whole_spec() -> None:
    spec = Spec(gain=(0, 0.1, 3), discount=(1, 2.5), ideal="shown", no_relevant="one", rbp_persistence=0.7)
    layout = TallyLayout(Scorer(["ndcg@5"], spec))
    assert Tally.from_bytes(layout.of_list([1, 2]).to_bytes()).layout.scorer.spec == spec


STORED = LAYOUT.of_list([3, 0, 1]).to_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "stored tally: got version none; allowed is 1"),
        (b"\x02" + STORED[1:], "stored tally: got version 2; allowed is 1"),
        (STORED[:-1], "stored tally: got damaged bytes"),
        (STORED[:40], "stored tally: got damaged bytes"),
        (STORED + b"\x00", "stored tally: got 1 extra bytes"),
        (STORED.replace(b"metrics-1", b"metrics-0"), "stored tally: got arithmetic streammetrics-metrics-0"),
        (STORED.replace(b"ndcg@3", b"ndgc@3"), "metric name: got 'ndgc'"),
    ],
)
def test_invalid_bytes_are_rejected(data: bytes, message: str) -> None:
    with pytest.raises(MetricError, match=re.escape(message)):
        Tally.from_bytes(data)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (TallyLayout(Scorer(["ndcg@3"], Spec(gain="exp2"))), "spec field gain: got 'exp2' and 'linear'"),
        (TallyLayout(Scorer(["ndcg@5"])), "tally metrics: got ndcg@5 and ndcg@3"),
        (TallyLayout(Scorer(["ndcg@3"]), moments=False), "tally moments: got False and True"),
        (TallyLayout(Scorer(["ndcg@3"]), products=[("ndcg@3", "ndcg@3")]), "tally products: got "),
    ],
)
def test_tallies_of_different_layouts_are_not_merged(other: TallyLayout, message: str) -> None:
    mine = TallyLayout(Scorer(["ndcg@3"])).empty()
    for act in (mine.merge, mine.revert):
        with pytest.raises(MetricError, match=re.escape(message)):
            act(other.empty())


def test_statistics_without_stored_moments_are_rejected() -> None:
    plain = TallyLayout(Scorer(["ndcg@3", "mrr@3", "item_hit_rate@3"]), moments=False)
    full = TallyLayout(plain.scorer)
    for act, message in (
        (lambda: plain.empty().means("skip"), "view: got 'skip' of a tally without moments"),
        (lambda: plain.empty().means("mean"), "view: got 'mean'; allowed are zero, skip, one, with_feedback"),  # type: ignore[arg-type]
        (lambda: plain.empty().covariance("ndcg@3"), "covariance: got a tally without moments"),
        (lambda: full.empty().covariance("ndcg@3", "mrr@3"), "covariance: got ndcg@3 and mrr@3; allowed are the pairs of products"),
        (lambda: full.empty().covariance("item_hit_rate@3"), "product: got item_hit_rate@3"),
        (lambda: full.rows_of_hits([], [], [], []), "rows: got a layout with moments"),
        (lambda: TallyLayout(plain.scorer, moments=False, products=[("ndcg@3", "mrr@3")]), "products: got some without moments"),
    ):
        with pytest.raises(MetricError, match=re.escape(message)):
            act()


def test_an_empty_tally_has_no_means_and_no_variance() -> None:
    for view in ("zero", "skip", "one", "with_feedback"):
        assert LAYOUT.empty().means(view) == {}  # type: ignore[arg-type]
    assert math.isnan(LAYOUT.empty().covariance("ndcg@3"))


@given(st.lists(st.integers(0, 2**62), max_size=50), st.data())
def test_sums_are_exact_beyond_64_bits(numbers: list[int], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.integers(0, 2**62), min_size=len(numbers), max_size=len(numbers)))
    one, other = np.array(numbers, dtype=np.int64), np.array(others, dtype=np.int64)
    assert sum_of_row(one) == sum(numbers)
    assert sum_of_products(one, other) == sum(a * b for a, b in zip(numbers, others, strict=True))
    assert sum_of_products(one, one) == sum(a * a for a in numbers)


@given(st.lists(st.integers(-(2**62), 2**62)))
def test_sums_of_signed_numbers_are_exact_beyond_64_bits(numbers: list[int]) -> None:
    assert exact_sum(np.array(numbers, dtype=np.int64)) == sum(numbers)


@pytest.mark.parametrize("most", [(1 << 40) - 1, 1 << 40, (1 << 42) + 1, (1 << 43) + 1, (1 << 49) - 1, (1 << 53) - 1])
def test_sums_of_many_doubles_are_exact(most: int) -> None:
    many = np.full(30_001, float(most))
    assert sum_of_row(many) == 30_001 * most
    assert sum_of_products(many.astype(np.int64), many.astype(np.int64)) == 30_001 * most**2


@given(st.lists(st.integers()))
def test_numbers_are_read_back_unchanged(numbers: list[int]) -> None:
    data = write_varints(numbers)
    assert read_varints(data, 0, len(numbers)) == (numbers, len(data))
