"""The randomisation tests against brute force over all outcomes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.metrics import MetricError
from streammetrics.offline.evaluation.randomisation import EXACT_PAIRS_MAX, sign_flip_test, swap_test

differences = st.lists(st.integers(-5, 5), max_size=8)
counts = st.lists(st.tuples(st.integers(0, 3), st.integers(3, 6), st.integers(0, 3), st.integers(3, 6)), min_size=1, max_size=6)


def ints(values: object) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@given(differences)
def test_few_pairs_are_tested_by_all_outcomes(found: list[int]) -> None:
    outcomes = [
        abs(sum(sign * one for sign, one in zip(signs, found, strict=True))) for signs in itertools.product((1, -1), repeat=len(found))
    ]
    expected = sum(outcome >= abs(sum(found)) for outcome in outcomes) / len(outcomes)
    assert sign_flip_test(ints(found), samples=1, seed=0) == (expected, True)


@given(counts)
def test_ratios_are_tested_by_all_swaps(rows: list[tuple[int, int, int, int]]) -> None:
    def gap(swaps: tuple[bool, ...]) -> Fraction:
        sides = [(c, d, a, b) if swap else (a, b, c, d) for swap, (a, b, c, d) in zip(swaps, rows, strict=True)]
        a, b, c, d = (sum(side[at] for side in sides) for at in range(4))
        return abs(Fraction(c, d) - Fraction(a, b))

    outcomes = [gap(swaps) for swaps in itertools.product((False, True), repeat=len(rows))]
    expected = sum(outcome >= outcomes[0] for outcome in outcomes) / len(outcomes)
    a, b, c, d = (ints(column) for column in zip(*rows, strict=True))
    assert swap_test((a, b), (c, d), samples=1, seed=0).p_value == pytest.approx(expected, abs=1e-12)


def test_random_outcomes_come_close_to_all_outcomes() -> None:
    pairs = EXACT_PAIRS_MAX + 2
    found = ints(np.random.default_rng(5).integers(-20, 30, pairs))
    signs = 1 - 2 * ((np.arange(2**pairs)[:, None] >> np.arange(pairs)) & 1)
    expected = float((np.abs(signs @ found) >= abs(found.sum())).mean())
    sampled = sign_flip_test(found, samples=200_000, seed=3)
    assert not sampled.exact
    assert sampled.p_value == pytest.approx(expected, abs=5 * (expected / 200_000) ** 0.5)


def test_equal_differences_have_the_p_value_of_a_fair_coin() -> None:
    expected = sum(math.comb(40, up) for up in range(41) if abs(2 * up - 40) >= 12) / 2**40
    found = ints([1] * 26 + [-1] * 14)
    assert sign_flip_test(found, samples=400_000, seed=11).p_value == pytest.approx(expected, abs=5 * (expected / 400_000) ** 0.5)


def test_the_seed_determines_the_result() -> None:
    found = ints(np.random.default_rng(1).integers(-9, 10, 100))
    answers = [sign_flip_test(found, samples=999, seed=seed) for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


def test_p_values_are_never_zero() -> None:
    assert sign_flip_test(ints([1] * 60), samples=999, seed=1).p_value == 1 / 1000


def test_pairs_without_a_difference_have_no_effect() -> None:
    found = ints([3, -1, 2, 5])
    assert sign_flip_test(np.concatenate([found, ints([0] * 1000)]), 1, 0) == sign_flip_test(found, 1, 0)


def test_a_ratio_without_a_denominator_has_no_p_value() -> None:
    nothing = ints([0, 0]), ints([0, 0])
    found = swap_test(nothing, nothing, samples=10, seed=0)
    assert math.isnan(found.p_value)
    with pytest.raises(MetricError, match="samples"):
        swap_test(nothing, nothing, samples=0, seed=0)


def test_no_differences_give_p_value_one() -> None:
    assert sign_flip_test(ints([0, 0]), 10, 0) == (1.0, True)
    assert sign_flip_test(ints([]), 10, 0) == (1.0, True)


def test_large_differences_are_summed_exactly() -> None:
    """As doubles, 2**59 + 1 and 2**59 would be equal, and 2 and 0 equally extreme."""
    assert sign_flip_test(ints([2**59 + 1, -(2**59), 1]), 1, 0).p_value == 6 / 8


@pytest.mark.parametrize(
    ("found", "samples", "seed", "message"),
    [
        ([2**60, 2**60], 10, 0, "sum beyond"),
        ([1], 0, 0, "samples: got 0"),
        ([1], 1.5, 0, "samples: got 1.5"),
        ([1], 10**9, 0, "samples: got 1000000000"),
        ([1], 10, -1, "seed: got -1"),
    ],
)
def test_invalid_test_inputs_are_rejected(found: list[int], samples: int, seed: int, message: str) -> None:
    with pytest.raises(MetricError, match=message):
        sign_flip_test(ints(found), samples, seed)
