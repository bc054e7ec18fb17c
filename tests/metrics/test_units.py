"""The fixed-point arithmetic against Python ints and fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import Scorer
from streammetrics.metrics.units import carry, discount_units, gain_units, grade_units, shift_half_even, weigh

units = st.integers(0, 1 << 56)


@given(st.integers(0, (1 << 62) - 1), st.integers(1, 40))
def test_shifting_rounds_half_to_even(value: int, bits: int) -> None:
    for tie in (value, (value >> bits << bits) + (1 << (bits - 1))):
        expected = round(Fraction(tie, 1 << bits))
        assert shift_half_even(tie, bits) == expected
        assert shift_half_even(np.array([tie], dtype=np.int64), bits).tolist() == [expected]


@given(st.lists(st.tuples(units, st.integers(1, 1 << 44)), min_size=1, max_size=8))
def test_products_are_exact(factors: list[tuple[int, int]]) -> None:
    gains, discounts = (np.array(column, dtype=np.int64) for column in zip(*factors, strict=True))
    whole, rest = weigh(gains, discounts)
    assert [(int(w) << 40) + int(r) for w, r in zip(whole, rest, strict=True)] == [gain * discount for gain, discount in factors]
    assert int(carry(whole.sum(), rest.sum())) == sum(gain * discount for gain, discount in factors) >> 40


@given(st.floats(0, 15), st.floats(0, 15))
def test_a_better_grade_never_has_a_lower_gain(one: float, other: float) -> None:
    grades = grade_units(np.array(sorted([one, other])))
    for gain in ("linear", "exp2"):
        worse, better = gain_units(gain, grades).tolist()
        assert worse <= better


def test_whole_grades_have_whole_gains() -> None:
    grades = grade_units(np.arange(16.0))
    assert (gain_units("linear", grades) / 2**40).tolist() == list(range(16))
    assert (gain_units("exp2", grades) / 2**40).tolist() == [2**grade - 1 for grade in range(16)]


@given(st.lists(st.sampled_from([0, 1, 2, 3, 0.5, 0.75, 3.125]), max_size=20))
def test_a_dcg_is_the_exact_sum_rounded_down_and_then_half_to_even(grades: list[float]) -> None:
    discounts = discount_units("log2(i+1)", 20).tolist()
    exact = sum(Fraction(grade) * discount for grade, discount in zip(grades, discounts[: len(grades)], strict=True))
    assert Scorer(["dcg@20"]).score_list(grades) == (round(Fraction(exact.__floor__(), 1 << 12)),)
