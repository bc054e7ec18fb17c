"""Values of segments are named for a cause that is planted in them, and hardly ever for one that is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from streammetrics.statistics.contributions import LISTS_MIN, SHIFT_MIN, Arm, ListSpread, NamedValue, ValueLists, named_values

SURFACES, COUNTRIES = ("home", "search", "feed", "cart"), ("BR", "DE", "FR")
Worth = Callable[[bool, np.ndarray, np.ndarray], np.ndarray]
"""The factor of the chance of a hit, from whether it is the treatment, the surface and the country of each list."""


def arms(seed: int, worth: Worth, moves: float = 0.0, users: int = 1_500) -> tuple[Arm, Arm, float]:
    """Both arms of users with tastes, a country, and some surfaces more than others; and the difference of the means."""
    random = np.random.default_rng(seed)
    arms_of_pair, means = [], []
    for is_treatment in (True, False):
        lists = random.geometric(1 / 4, users)
        user = np.repeat(np.arange(users), lists)
        country = random.choice(3, users, p=[0.2, 0.3, 0.5])[user]
        taste = random.dirichlet(np.array([0.35, 0.35, 0.2, 0.1]) * 6, users)
        surface = (random.random(user.size)[:, None] > taste.cumsum(1)[user]).sum(1).clip(0, 3)
        if is_treatment:
            surface = np.where((surface == 1) & (random.random(user.size) < moves), 3, surface)
        chance = random.beta(2, 2.5, users)[user] * np.array([1.0, 1.25, 0.8, 0.5])[surface] * 0.6 * worth(is_treatment, surface, country)
        hits = (random.random(user.size) < chance).astype(float)
        mean = hits.mean()
        residuals = np.bincount(user, hits - mean, users)
        spread = ListSpread(users / (users - 1) * float((residuals**2).sum()) / user.size, float(mean))
        segments = {
            name: {values[at]: ValueLists(int((of == at).sum()), float(hits[of == at].sum()), int((of == at).sum())) for at in set(of)}
            for name, values, of in (("surface", SURFACES, surface), ("country", COUNTRIES, country))
        }
        arms_of_pair.append(Arm(user.size**2 / float((lists**2).sum()), spread, segments))
        means.append(mean)
    return arms_of_pair[0], arms_of_pair[1], float(means[0] - means[1])


def named(seed: int, worth: Worth, moves: float = 0.0) -> dict[tuple[str, str], NamedValue]:
    return named_values(*arms(seed, worth, moves), alpha=0.05)


def evenly(size: float) -> Worth:
    return lambda is_treatment, surface, country: np.full(surface.shape, size if is_treatment else 1.0)


@pytest.mark.parametrize("size", [1.0, 0.8])
def test_without_a_cause_in_a_segment_a_value_is_named_in_at_most_5_percent(size: float) -> None:
    assert sum(bool(named(seed, evenly(size))) for seed in range(200)) <= 10


def test_a_worse_value_is_named_with_its_lift_and_that_of_the_others() -> None:
    def worth(is_treatment: bool, surface: np.ndarray, country: np.ndarray) -> np.ndarray:
        return np.where((surface == 0) & is_treatment, 0.5, 1.0)

    named_of_seeds = [named(seed, worth) for seed in range(20)]
    assert all([*named] == [("surface", "home")] for named in named_of_seeds)
    lifts = [named["surface", "home"] for named in named_of_seeds]
    assert np.mean([named_value.lift for named_value in lifts]) == pytest.approx(-0.5, abs=0.03)
    assert np.mean([named_value.others_lift for named_value in lifts]) == pytest.approx(0.0, abs=0.03)


def test_lists_that_moved_are_no_effect() -> None:
    named_of_seeds = [named(seed, evenly(1.0), moves=0.35) for seed in range(20)]
    assert all(
        {pair for pair, named_value in one.items() if named_value.moved} == {("surface", "search"), ("surface", "cart")}
        for one in named_of_seeds
    )
    assert sum(named_value.lift is not None for one in named_of_seeds for named_value in one.values()) <= 2


SPREAD = ListSpread(0.24, 0.4)


def even(lists: int) -> ValueLists:
    return ValueLists(lists, 0.4 * lists, lists)


def test_a_shift_needs_a_least_size_and_enough_effective_users() -> None:
    def moved(share: float, effective: float) -> bool:
        lists = 100_000
        sides = [{"a": even(round(lists * side_share)), "b": even(lists - round(lists * side_share))} for side_share in (share, 0.3)]
        return bool(named_values(*(Arm(effective, SPREAD, {"segment": side}) for side in sides), 0.01, 0.05))

    assert moved(0.3 + 1.5 * SHIFT_MIN, 1e5)
    assert not moved(0.3 + 0.9 * SHIFT_MIN, 1e9)
    assert not moved(0.3 + 1.5 * SHIFT_MIN, 1e3)
    assert not moved(0.5, 0.0)


@pytest.mark.parametrize(("lists", "is_named"), [(LISTS_MIN - 1, False), (LISTS_MIN, True)])
def test_an_effect_needs_a_least_number_of_lists(lists: int, is_named: bool) -> None:
    control = {"rare": ValueLists(lists, 0.9 * lists, lists), "b": even(9_000)}
    treatment = {"rare": ValueLists(lists, 0.0, lists), "b": even(9_000)}
    spread = ListSpread(0.01, 0.4)
    values = named_values(Arm(9_000, spread, {"s": treatment}), Arm(9_000, spread, {"s": control}), -0.01, 0.05)
    assert [*values] == ([("s", "rare")] if is_named else [])


def test_arms_without_values_or_hits_name_nothing() -> None:
    nothing = Arm(10.0, SPREAD, {})
    assert named_values(nothing, nothing, 0.0, 0.05) == {}
    zero = Arm(100.0, ListSpread(0.0, 0.0), {"s": {"a": ValueLists(100, 0.0, 100), "b": ValueLists(100, 0.0, 100)}})
    assert named_values(zero, zero, 0.0, 0.05) == {}
