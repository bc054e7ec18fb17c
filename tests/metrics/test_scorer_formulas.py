"""The scores match worked examples to all printed digits, and textbook formulas in floats to 1e-9."""

from __future__ import annotations

import math
import random
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import ALL_METRIC_NAMES, Scorer, Spec
from streammetrics.metrics.names import WHOLE_LIST_NAMES
from streammetrics.metrics.units import discount_units, persistence_units
from tests.metrics import oracle
from tests.metrics.lists import GRADE_TOP, WHOLE, accepted, at_cutoffs, batches, lists_of, metric_names, scorers
from tests.support.tables import for_each

EVERYTHING = [*WHOLE_LIST_NAMES, *at_cutoffs(ALL_METRIC_NAMES, (1, 3, 5, 10, 40))]


def value(metric: str, grades: list[float], spec: Spec | None = None) -> float:
    scorer = Scorer([metric], spec)
    return scorer.values(scorer.score_list(grades))[metric]


@for_each(
    [
        ("dcg@3", [3, 2, 3, 0, 1], 5.76186, 5),
        ("dcg@3", [3, 3, 2, 1, 0], 5.89279, 5),
        ("ndcg@3", [3, 2, 3, 0, 1], 0.977781, 6),
        ("dcg@5", [3, 2, 3, 0, 1], 6.148712, 6),
        ("dcg@5", [3, 3, 2, 1, 0], 6.323466, 6),
        ("ndcg@5", [3, 2, 3, 0, 1], 0.972364, 6),
        ("ndcg_exp@5", [4, 5, 2, 3, 1], 0.864548, 6),
        ("ndcg_exp@5", [5, 1, 3, 2, 4], 0.925134, 6),
        ("ndcg_exp@5", [5, 3, 4, 2, 1], 0.977051, 6),
        ("dcg@5", [0.5, 0.9, 0.3, 0.6, 0.1], 1.514928, 6),
        ("dcg@5", [0.6, 0.5, 0.1, 0.3, 0.9], 1.442835, 6),
        ("dcg@5", [0.9, 0.6, 0.5, 0.3, 0.1], 1.696446, 6),
        ("precision@3", [1, 1, 0, 1, 0], 0.666667, 6),
        ("precision@5", [1, 1, 0, 1, 0], 0.6, 6),
        ("cg@3", [3, 2, 3, 0, 1], 8, 6),
        ("map@5", [1, 1, 0, 1, 0], 0.916667, 6),
        ("recall@2", [1, 1, 0, 1, 0], 0.666667, 6),
        ("item_hit_rate@10", [1, 1, 0, 1, 0], 0.6, 6),
        ("hit_rate@1", [0, 1], 0, 6),
    ]
)
def test_worked_examples_match_to_all_printed_digits(case: tuple[str, list[float], float, int]) -> None:
    metric, grades, printed, digits = case
    assert round(value(metric, grades), digits) == printed


@pytest.mark.parametrize(("grades", "printed"), [([4, 5, 2, 3, 1], 39.460411), ([5, 4, 3, 2, 1], 45.642829)])
def test_exponential_gain_also_applies_to_dcg(grades: list[float], printed: float) -> None:
    assert round(value("dcg@5", grades, Spec(gain="exp2")), 6) == printed


@pytest.mark.parametrize(
    ("metric", "lists", "printed"),
    [
        ("mrr@10", [[0, 1], [1], [0, 0]], 0.5),
        ("mrr@5", [[0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]], 0.566667),
    ],
)
def test_mean_reciprocal_rank_of_several_lists(metric: str, lists: list[list[float]], printed: float) -> None:
    assert round(math.fsum(value(metric, grades) for grades in lists) / len(lists), 6) == printed


@given(batches)
def test_every_metric_matches_its_formula(lists: list[list[float]]) -> None:
    scorer = Scorer(EVERYTHING, Spec(err_grade_max=GRADE_TOP), items_max=40)
    choices = oracle.Choices(err_grade_max=GRADE_TOP)
    for grades in lists:
        # Grades are rounded to 2**-40, so the formula gets the rounded grade.
        scored = [math.ldexp(round(math.ldexp(grade, 40)), -40) for grade in grades]
        values = scorer.values(scorer.score_list(grades))
        for metric in scorer.metrics:
            expected = oracle.value(metric.name, metric.k, scored, choices=choices)
            if math.isnan(expected):
                assert str(metric) not in values
            elif metric.name not in ("ndcg", "ndcg_exp") or max(scored, default=0) >= 0.001 or not any(scored):
                assert values[str(metric)] == pytest.approx(expected, abs=1e-9), metric


def choices_of(spec: Spec) -> oracle.Choices:
    return oracle.Choices(
        gain=spec.gain,
        discount=spec.discount,
        threshold=spec.relevance_threshold,
        ideal=spec.ideal,
        ap_denominator=spec.ap_denominator,
        recall_denominator=spec.recall_denominator,
        precision_denominator=spec.precision_denominator,
        persistence=spec.rbp_persistence,
        err_grade_max=spec.err_grade_max,
    )


@given(lists_of(WHOLE, items_max=12), lists_of(WHOLE, items_max=4), scorers())
def test_every_choice_of_a_spec_matches_its_formula(drawn: list[float], drawn_unseen: list[float], scorer: Scorer) -> None:
    grades, unseen = ([accepted(scorer, grade) for grade in some] for some in (drawn, drawn_unseen))
    values = scorer.values(scorer.score_list(grades, unseen))
    for metric in scorer.metrics:
        expected = oracle.value(metric.name, metric.k, grades, unseen=unseen, choices=choices_of(scorer.spec))
        if not math.isnan(expected):
            assert values[str(metric)] == pytest.approx(expected, abs=1e-9), (metric, scorer.spec)


@given(lists_of(WHOLE, items_max=12), metric_names(), st.randoms(use_true_random=False))
def test_no_cutoff_equals_a_cutoff_beyond_the_end(grades: list[float], names: list[str], chance: random.Random) -> None:
    spec = Spec(err_grade_max=5)
    whole = [name for name in WHOLE_LIST_NAMES if name != "r_precision"]
    chance.shuffle(whole)
    deep = Scorer([f"{name}@{len(grades) + chance.randrange(1, 200)}" for name in whole], spec)
    assert Scorer(whole, spec).score_list(grades) == deep.score_list(grades)


@given(lists_of(st.integers(1, 15), items_max=60))
def test_whole_grades_match_the_formula_to_the_last_unit(grades: list[float]) -> None:
    scorer = Scorer(["ndcg@10", "ndcg_exp@20", "map@10", "mrr@20", "recall@5"])
    values = scorer.values(scorer.score_list(grades))
    for metric in scorer.metrics:
        assert values[str(metric)] == pytest.approx(oracle.value(metric.name, metric.k, grades), abs=1e-12)


@given(lists_of(st.sampled_from([1, 2, 3, 0.5, 0.9])), st.sampled_from([1, 3, 10, 40]))
def test_a_perfect_list_is_exactly_one_and_no_order_is_better(grades: list[float], k: int) -> None:
    metrics = [f"{name}@{k}" for name in ("ndcg", "ndcg_exp", "map", "mrr", "hit_rate", "recall", "precision")]
    scorer = Scorer(metrics, Spec(relevance_threshold=0.5))
    row = dict(zip(metrics, scorer.score_list(sorted(grades, reverse=True)), strict=True))
    if any(grades):
        assert row[f"ndcg@{k}"] == row[f"ndcg_exp@{k}"] == row[f"map@{k}"] == row[f"mrr@{k}"] == row[f"hit_rate@{k}"] == 1 << 40
    for score in scorer.score_list(grades):
        assert 0 <= score <= 1 << 40


@given(lists_of(WHOLE), lists_of(WHOLE, items_max=4), scorers())
def test_normalised_values_are_between_zero_and_one_under_any_spec(drawn: list[float], drawn_unseen: list[float], scorer: Scorer) -> None:
    grades, unseen = ([accepted(scorer, grade) for grade in some] for some in (drawn, drawn_unseen))
    for score, column in zip(scorer.score_list(grades, unseen), scorer.columns, strict=True):
        assert score >= 0
        if column.scale_bits == 40:
            assert score <= 1 << 40


@given(lists_of(st.floats(0, 8)), st.data())
def test_a_better_grade_never_lowers_a_value(grades: list[float], data: st.DataObject) -> None:
    metrics = ["cg@5", "dcg@5", "dcg_exp@5", "mrr@5", "hit_rate@5", "precision@5", "rbp@5"]
    for spec in (Spec(), Spec(gain="exp2")):
        scorer = Scorer(metrics, spec)
        before = scorer.score_list(grades)
        for place, grade in enumerate(grades):
            better = [*grades]
            better[place] = data.draw(st.floats(grade, 8))
            assert all(after >= earlier for after, earlier in zip(scorer.score_list(better), before, strict=True))


@given(lists_of(st.integers(1, 3)), st.randoms(use_true_random=False))
def test_the_order_beyond_the_cutoff_has_no_effect(grades: list[float], chance: random.Random) -> None:
    scorer = Scorer(at_cutoffs(ALL_METRIC_NAMES, (5,)))
    tail = grades[5:]
    chance.shuffle(tail)
    assert scorer.score_list(grades[:5] + tail) == scorer.score_list(grades)


RECALL_LIKE = ("ndcg", "ndcg_exp", "recall", "f1", "map")
"""The metrics that depend on relevant items beyond the cut-off, through the ideal or through R."""


@given(st.lists(st.integers(0, 3), min_size=5, max_size=5), lists_of(st.integers(1, 3)), lists_of(st.integers(1, 3)))
def test_items_beyond_the_cutoff_change_recall_like_values_only(first: list[float], tail: list[float], other: list[float]) -> None:
    names = [name for name in ALL_METRIC_NAMES if name not in (*RECALL_LIKE, "r_precision")]
    scorer = Scorer(at_cutoffs(names, (5,)))
    assert scorer.score_list(first + tail) == scorer.score_list(first + other) == scorer.score_list(first, unseen=tail)
    assert Scorer(["ndcg@1"]).score_list([1, 3]) != Scorer(["ndcg@1"]).score_list([1, 0])


@given(lists_of(WHOLE), lists_of(WHOLE, items_max=6))
def test_an_unseen_item_counts_like_one_beyond_every_cutoff(grades: list[float], unseen: list[float]) -> None:
    scorer = Scorer([f"{name}@30" for name in ("ndcg", "ndcg_exp", "recall", "map", "mrr", "precision", "f1")])
    filled = grades + [0] * (30 - len(grades))
    assert scorer.score_list(filled, unseen) == scorer.score_list(filled + unseen)
    spec = Spec(ideal="shown")
    assert Scorer(["ndcg@30"], spec).score_list(filled, unseen) == Scorer(["ndcg@30"], spec).score_list(filled)


def test_the_ideal_includes_items_beyond_the_cutoff() -> None:
    assert value("ndcg@1", [1, 3]) == pytest.approx(1 / 3, abs=1e-12)


def test_the_original_discount_counts_two_ranks_in_full() -> None:
    assert value("dcg@4", [1, 1, 1, 1], Spec(discount="max(1,log2(i))")) == pytest.approx(2 + 1 / math.log2(3) + 0.5, abs=1e-9)


def test_the_threshold_sets_the_lowest_relevant_grade() -> None:
    grades = [0.5, 2, 1]
    assert [value("precision@3", grades, Spec(relevance_threshold=at)) for at in (0.5, 1, 2, 3)] == [
        pytest.approx(share, abs=1e-12) for share in (1, 2 / 3, 1 / 3, 0)
    ]


def test_discounts_are_correctly_rounded_logarithms() -> None:
    with localcontext(prec=50):
        exact = [int((2**44 * Decimal(2).ln() / Decimal(rank + 1).ln()).to_integral_value(ROUND_HALF_EVEN)) for rank in range(1, 451)]
    np.testing.assert_array_equal(discount_units("log2(i+1)", 450), [*exact, 0])


def test_persistences_are_rounded_down_and_sum_to_at_most_one() -> None:
    for persistence in (0.5, 0.8, 0.95, 0.999):
        weights = persistence_units(persistence, 5000).tolist()
        exact = [int((1 - Fraction(persistence)) * Fraction(persistence) ** at * 2**52) for at in range(300)]
        assert weights[:300] == exact
        assert sum(weights) <= 1 << 52


@for_each(
    [
        ("err@3", [3, 2, 4], Spec(err_grade_max=4), 7 / 16 + 9 / 16 * 3 / 16 / 2 + 9 / 16 * 13 / 16 * 15 / 16 / 3),
        ("rbp@5", [1, 0, 1, 0, 0], Spec(rbp_persistence=0.5), 0.625),
        ("r_precision", [1, 0, 1, 1, 0], Spec(), 0.666667),
        ("f1@2", [1, 0, 1], Spec(), 0.5),
        ("dcg_exp@5", [4, 5, 2, 3, 1], Spec(), 39.460411),
        ("ndcg@2", [0, 1], Spec(gain="binary", ideal="full"), 0.386853),
        ("ndcg@2", [1, 2, 3], Spec(ideal="first_k"), 0.859719),
        ("map@2", [1, 0, 1], Spec(ap_denominator="R"), 0.5),
        ("recall@1", [1, 1], Spec(recall_denominator="min(R,k)"), 1),
        ("precision@5", [1, 0], Spec(precision_denominator="min(n,k)"), 0.5),
        ("ndcg@2", [1, 2], Spec(gain=(0, 1, 10), discount=(1, 4)), 3.5 / 10.25),
    ]
)
def test_choices_have_the_values_computed_by_hand(case: tuple[str, list[float], Spec, float]) -> None:
    metric, grades, spec, printed = case
    assert value(metric, grades, spec) == pytest.approx(printed, abs=5e-7)
