"""Losses by arm: known values of the evidence, the cases it must find, and how often it is wrong."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import betaln  # type: ignore[import-untyped]  # scipy has no stubs

from streammetrics.experiments.losses import (
    LOSS_EVIDENCE_MIN,
    ArmCounts,
    LossCount,
    differ,
    log_evidence_of_moves,
    log_evidence_of_shares,
    moves_differ,
    unequal_losses,
)
from tests.support.experiment_samples import at_most

NAMES = "new", "old"
GRID = np.linspace(1e-6, 1 - 1e-6, 100_001)


@pytest.mark.parametrize("counts", [(3, 10, 1, 50), (0, 40, 12, 40), (1_000, 3_000, 0, 3_000)])
def test_the_evidence_is_the_mean_likelihood_over_the_greatest_of_one_chance(counts: tuple[int, int, int, int]) -> None:
    one, other = LossCount(*counts[:2]), LossCount(*counts[2:])
    mean = sum(betaln(loss_count.lost + 0.5, loss_count.users - loss_count.lost + 0.5) - betaln(0.5, 0.5) for loss_count in (one, other))
    lost, users = one.lost + other.lost, one.users + other.users
    greatest = (lost * np.log(GRID) + (users - lost) * np.log1p(-GRID)).max()
    assert log_evidence_of_shares(one, other) == pytest.approx(mean - greatest, rel=1e-6, abs=1e-4)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.4])
def test_shares_in_a_ratio_have_the_greatest_likelihood_of_that_ratio(ratio: float) -> None:
    one, other = LossCount(20, 200), LossCount(90, 210)
    grid = GRID[GRID * ratio < 1]
    likelihoods = 20 * np.log(ratio * grid) + 180 * np.log1p(-ratio * grid) + 90 * np.log(grid) + 120 * np.log1p(-grid)
    unequal = sum(betaln(arm.lost + 0.5, arm.users - arm.lost + 0.5) - betaln(0.5, 0.5) for arm in (one, other))
    assert log_evidence_of_shares(one, other, ratio) == pytest.approx(unequal - likelihoods.max(), rel=1e-6, abs=1e-4)


def reacting_arm(random: np.random.Generator, mean: float, users: int = 20_000, lost_lists: float = 0.0) -> ArmCounts:
    """Return an arm whose users react to lists, some often, and lose each reaction with a chance of 15 %, or with its whole list."""
    reactions = random.poisson(random.gamma(1.0, mean, users))
    of_lost = random.binomial(reactions, lost_lists)
    unmatched = of_lost + random.binomial(reactions - of_lost, 0.15)
    reacting = int((reactions > 0).sum())
    return ArmCounts(without_match=LossCount(int((unmatched > 0).sum()), reacting), reactions=int((reactions - unmatched).sum()))


@pytest.mark.parametrize("mean", [2.0, 1.4, 6.0])
def test_users_who_react_less_often_lose_less_by_that_alone(mean: float) -> None:
    random = np.random.default_rng(20_261_128)
    one, other = reacting_arm(random, mean), reacting_arm(random, 3.0)
    assert differ(one.without_match, other.without_match), "the shares alone differ"
    assert unequal_losses(one, other, NAMES) is None
    assert unequal_losses(other, one, NAMES) is None


def looks_at_reactions(random: np.random.Generator, mean: float, users: int, lost: float) -> list[ArmCounts]:
    """Return 50 looks at an arm whose users come one after the other, react over ten looks and lose reactions by a chance of their own."""
    looks = np.arange(50)
    came = random.integers(0, len(looks), (users, 1))
    rates = random.gamma(0.5, 2 * mean, (users, 1)) * ((looks >= came) & (looks < came + 10)) / 10
    reactions = random.poisson(rates)
    unmatched = random.binomial(reactions, random.beta(3 * lost, 3 * (1 - lost), (users, 1)))
    reacting, losers = ((np.cumsum(counts, axis=1) > 0).sum(axis=0).tolist() for counts in (reactions, unmatched))
    matched = np.cumsum((reactions - unmatched).sum(axis=0)).tolist()
    counts = zip(losers, reacting, matched, strict=True)
    return [ArmCounts(without_match=LossCount(lost_users, users), reactions=total) for lost_users, users, total in counts]


def test_reactions_that_differ_in_number_are_rarely_ever_a_loss_at_any_look() -> None:
    random, wrong = np.random.default_rng(20_261_128), 0
    regimes = list(product((0.3, 0.9, 1.4, 3.0), (0.02, 0.15, 0.4), ((1_000, 1_000), (400, 3_600))))
    for ratio, lost, (treated, others) in regimes:
        for _ in range(8):
            arms = looks_at_reactions(random, 3 * ratio, treated, lost), looks_at_reactions(random, 3, others, lost)
            wrong += any(unequal_losses(one, other, NAMES) is not None for one, other in zip(*arms, strict=True))
    assert wrong <= at_most(0.01, 8 * len(regimes))


@pytest.mark.parametrize("mean", [2.0, 3.0, 3.5])
def test_lists_that_one_arm_loses_are_found_at_any_number_of_reactions(mean: float) -> None:
    random = np.random.default_rng(20_261_128)
    one, other = reacting_arm(random, mean, lost_lists=0.3), reacting_arm(random, 3.0)
    assert unequal_losses(one, other, NAMES) is not None
    assert unequal_losses(other, one, NAMES) is not None


def test_moves_are_compared_with_a_coin() -> None:
    mean = betaln(10.5, 3.5) - betaln(0.5, 0.5)
    assert log_evidence_of_moves(10, 3) == pytest.approx(mean + 13 * math.log(2))
    assert log_evidence_of_moves(3, 10) == log_evidence_of_moves(10, 3)


def test_exposed_users_without_a_list_in_one_arm_are_found() -> None:
    losses = ArmCounts(without_list=LossCount(1_000, 3_000)), ArmCounts(without_list=LossCount(0, 3_000))
    assert unequal_losses(*losses, NAMES) is not None
    assert unequal_losses(losses[0], losses[0], NAMES) is None


def test_reactions_without_a_list_in_one_arm_are_found() -> None:
    losses = ArmCounts(without_match=LossCount(60, 120)), ArmCounts(without_match=LossCount(0, 1_080))
    words = unequal_losses(*losses, NAMES)
    assert words == ("new and old lose users unequally: 60 of 120 users who react in new do so without a list, and 0 of 1,080 in old")


def test_moves_in_one_direction_are_found_and_two_devices_are_not() -> None:
    assert unequal_losses(ArmCounts(moved=270, with_lists=3_000), ArmCounts(with_lists=27_000), NAMES) is not None
    assert unequal_losses(ArmCounts(moved=90, with_lists=900), ArmCounts(moved=90, with_lists=100), NAMES) is None


def test_users_who_go_to_the_treatment_are_those_of_a_rollout() -> None:
    assert unequal_losses(ArmCounts(with_lists=3_000), ArmCounts(moved=270, with_lists=27_000), NAMES) is None


def test_a_certain_difference_below_two_points_is_no_loss() -> None:
    one, other = LossCount(13_000, 1_000_000), LossCount(5_000, 1_000_000)
    assert log_evidence_of_shares(one, other) > LOSS_EVIDENCE_MIN
    assert not differ(one, other)
    assert not moves_differ(ArmCounts(moved=150, with_lists=10_000), ArmCounts(with_lists=10_000))
    assert moves_differ(ArmCounts(moved=200, with_lists=10_000), ArmCounts(with_lists=10_000))


def test_unknown_counts_say_nothing() -> None:
    assert unequal_losses(ArmCounts(), ArmCounts(), NAMES) is None
    assert unequal_losses(ArmCounts(without_list=LossCount(5, 9)), ArmCounts(), NAMES) is None


def test_without_a_difference_shares_are_rarely_ever_found_apart() -> None:
    """E reaches 100 at any of 100 looks in at most 1 % of 500 experiments a regime; here without the two points."""
    random, wrong = np.random.default_rng(20_261_128), 0
    regimes = list(product((0.002, 0.08, 0.3), (0.5, 0.1, 0.01)))
    for chance, share in regimes:
        for _ in range(500):
            treated, lost = random.random(10_000) < share, random.random(10_000) < chance
            counts = [np.cumsum(mask)[99::100].tolist() for mask in (treated & lost, treated, ~treated & lost, ~treated)]
            wrong += any(
                log_evidence_of_shares(LossCount(a, b), LossCount(c, d)) >= LOSS_EVIDENCE_MIN for a, b, c, d in zip(*counts, strict=True)
            )
    assert wrong <= at_most(0.01, 500 * len(regimes))


def test_users_with_two_devices_are_rarely_ever_found_moving() -> None:
    """Each move is a coin, at each of 2,000 moves."""
    random, wrong = np.random.default_rng(20_261_128), 0
    for _ in range(300):
        there = np.cumsum(random.random(2_000) < 0.5).tolist()
        wrong += any(
            log_evidence_of_moves(moves_there, moves + 1 - moves_there) >= LOSS_EVIDENCE_MIN for moves, moves_there in enumerate(there)
        )
    assert wrong <= at_most(0.01, 300)
