"""The list metrics of the oracle, against published examples."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tests.oracle import (
    metric_values,
    stored_values,
)


class TestScores:
    @pytest.mark.parametrize(
        ("grades", "name", "value"),
        [
            ([3, 2, 3, 0, 1], "dcg@3", 5.76186),
            ([3, 3, 2, 1, 0], "dcg@3", 5.89279),
            ([3, 2, 3, 0, 1], "ndcg@3", 0.977781),
            ([3, 2, 3, 0, 1], "dcg@5", 6.148712),
            ([3, 3, 2, 1, 0], "dcg@5", 6.323466),
            ([3, 2, 3, 0, 1], "ndcg@5", 0.972364),
            ([4, 5, 2, 3, 1], "ndcg_exp@5", 0.864548),
            ([5, 1, 3, 2, 4], "ndcg_exp@5", 0.925134),
            ([5, 3, 4, 2, 1], "ndcg_exp@5", 0.977051),
            ([0.5, 0.9, 0.3, 0.6, 0.1], "dcg@5", 1.514928),
            ([0.6, 0.5, 0.1, 0.3, 0.9], "dcg@5", 1.442835),
            ([1, 1, 0, 1, 0], "precision@3", 0.666667),
            ([1, 1, 0, 1, 0], "precision@5", 0.6),
        ],
    )
    def test_published_examples_agree_to_the_given_digits(self, grades: list[float], name: str, value: float) -> None:
        digits = len(str(value).partition(".")[2])
        assert round(metric_values(grades, [3, 5])[name], digits) == value

    def test_reciprocal_ranks_end_at_the_cut_off(self) -> None:
        firsts = ([0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1])
        assert sum(stored_values(grades, [5])["mrr@5"] for grades in firsts) == 2**39 + 2**40 + round(Fraction(2**40, 5))
        assert metric_values([0, 0, 1], [2])["mrr@2"] == 0

    def test_recall_and_average_precision_use_all_relevant_items_of_the_list(self) -> None:
        stored = stored_values([1, 0, 1, 1], [2, 3])
        assert (stored["recall@2"], stored["recall@3"]) == (round(Fraction(2**40, 3)), round(Fraction(2**41, 3)))
        assert (stored["map@2"], stored["map@3"]) == (2**39, round((1 + Fraction(2, 3)) / 3 * 2**40))

    def test_the_ideal_order_uses_all_items_of_the_list(self) -> None:
        assert metric_values([0, 3], [1])["ndcg@1"] == 0
        assert stored_values([1, 3], [1])["ndcg@1"] == round(Fraction(2**40, 3))

    def test_precision_divides_by_the_cut_off_even_for_shorter_lists(self) -> None:
        assert metric_values([1], [4])["precision@4"] == 0.25

    def test_a_list_without_grades_has_value_zero(self) -> None:
        assert set(metric_values([0, 0], [1, 3]).values()) == set(metric_values([], [1, 3]).values()) == {0}

    def test_a_half_is_rounded_to_even(self) -> None:
        assert [stored_values([fragment * 2.0**-33], [1])["cg@1"] for fragment in (1, 3, 5)] == [0, 2, 2]
        assert stored_values([1], [3])["precision@3"] == round(Fraction(2**40, 3))
