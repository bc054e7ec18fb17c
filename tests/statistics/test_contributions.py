"""Contributions add up exactly, and intervals of segment values hold."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.statistics.contributions import ListSpread, ValueSums, contributions, corrected_z, rank_contributions

sums = st.integers(0, 60).flatmap(lambda bottom: st.tuples(st.integers(0, bottom << 40 if bottom else 0), st.just(bottom)))
arms = st.dictionaries(
    st.sampled_from(["", "home", "search", "_other", "cart"]), sums.map(lambda sums_of_value: ValueSums(*sums_of_value)), max_size=5
)


def mean(arm: dict[str, ValueSums], bits: int) -> Fraction:
    return Fraction(
        sum(sums_of_value.top for sums_of_value in arm.values()), sum(sums_of_value.bottom for sums_of_value in arm.values()) << bits
    )


@given(arms, arms)
def test_contributions_add_up_to_the_difference_without_rounding(treatment: dict[str, ValueSums], control: dict[str, ValueSums]) -> None:
    of_values = contributions(treatment, control, 40)
    if not all(sum(sums_of_value.bottom for sums_of_value in arm.values()) for arm in (treatment, control)):
        assert of_values == {}
        return
    assert sum(contribution.total for contribution in of_values.values()) == mean(treatment, 40) - mean(control, 40)
    assert (
        sum(contribution.share for contribution in of_values.values())
        == sum(contribution.control_share for contribution in of_values.values())
        == 1
    )


@given(arms, arms)
def test_the_other_way_round_contributions_are_opposite(treatment: dict[str, ValueSums], control: dict[str, ValueSums]) -> None:
    one, other = contributions(treatment, control), contributions(control, treatment)
    assert {value: (-contribution.within, -contribution.mix) for value, contribution in one.items()} == {
        value: (contribution.within, contribution.mix) for value, contribution in other.items()
    }


def test_lists_that_move_to_a_worse_value_are_mix_and_no_effect() -> None:
    treatment = {"good": ValueSums(40, 50), "bad": ValueSums(10, 50)}
    control = {"good": ValueSums(64, 80), "bad": ValueSums(4, 20)}
    of_values = contributions(treatment, control)
    assert [contribution.within for contribution in of_values.values()] == [0, 0]
    assert sum(contribution.mix for contribution in of_values.values()) == Fraction(50, 100) - Fraction(68, 100)
    assert all(contribution.mix < 0 for contribution in of_values.values())


def test_a_value_of_one_arm_only_is_mix() -> None:
    of_values = contributions({"a": ValueSums(10, 50), "new": ValueSums(5, 50)}, {"a": ValueSums(20, 100)})
    assert of_values["new"].within == 0
    assert of_values["new"].control_mean is None
    assert sum(contribution.total for contribution in of_values.values()) == Fraction(15, 100) - Fraction(20, 100)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4), st.integers(1, 50), st.integers(1, 50))
def test_ranks_add_up_to_the_difference_at_the_last_cutoff(steps: list[tuple[int, int]], lists: int, control_lists: int) -> None:
    treatment, control = (np.cumsum([step[side] for step in steps]).tolist() for side in (0, 1))
    ranks = rank_contributions(treatment, control, (lists, control_lists), 3)
    assert sum(ranks, Fraction(0)) == Fraction(treatment[-1], lists << 3) - Fraction(control[-1], control_lists << 3)


def test_an_arm_without_lists_has_no_ranks() -> None:
    assert rank_contributions([1], [1], (0, 5)) == ()


def test_bonferroni_widens_the_interval() -> None:
    assert corrected_z(0.05, 1) == pytest.approx(1.96, abs=0.001)
    assert corrected_z(0.05, 20) > corrected_z(0.05, 5) > corrected_z(0.05, 0)


@pytest.mark.parametrize("by_user", [True, False])
def test_intervals_of_segment_values_hold_without_an_effect(by_user: bool) -> None:
    """The variance is taken from the whole arm. Users have tastes and up to dozens of lists; values are of users or lists."""
    random = np.random.default_rng(6)
    wrong, experiments, values = 0, 300, 4
    quality = np.array([0.6, 0.9, 1.0, 1.2])
    for _ in range(experiments):
        spreads, sums_of = [], []
        for _ in range(2):
            lists = random.geometric(1 / 6, 500)
            user = np.repeat(np.arange(500), lists)
            value = random.integers(0, values, 500)[user] if by_user else random.integers(0, values, user.size)
            worth = (random.random(user.size) < random.beta(1.2, 2.5, 500)[user] * quality[value].clip(0, 1)).astype(float)
            whole = worth.mean()
            residuals = np.bincount(user, worth - whole, 500)
            spreads.append(ListSpread(500 / 499 * (residuals**2).sum() / user.size, whole))
            sums_of.append([(np.count_nonzero(value == index), worth[value == index].mean()) for index in range(values)])
        z = corrected_z(0.05, values)
        for (lists_t, mean_t), (lists_c, mean_c) in zip(*sums_of, strict=True):
            variance = spreads[0].variance(lists_t, mean_t) + spreads[1].variance(lists_c, mean_c)
            if abs(mean_t - mean_c) > z * math.sqrt(variance):
                wrong += 1
                break
    assert wrong / experiments <= 0.08
