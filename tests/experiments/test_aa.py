"""The A/A harness in small: our rules stay below what they allow, the usual rules do not, and a true drop is found."""

from __future__ import annotations

import math

from tests.bench.aa import ALPHA, OURS, false_alarms, judge, users_to_find
from tests.bench.aa_traffic import REGIMES, draw

EXPERIMENTS = 50
LOOKS = 200


def at_most(share: float, experiments: int) -> int:
    """The count that a binomial number of this share exceeds with a chance below one in 10,000."""
    tail, count = 1.0, -1
    while tail > 1e-4:
        count += 1
        tail -= math.comb(experiments, count) * share**count * (1 - share) ** (experiments - count)
    return count


def test_without_an_effect_ours_keep_their_promise_and_the_usual_rules_do_not() -> None:
    regime = REGIMES[1]
    ever, reduction = false_alarms(regime, EXPERIMENTS, LOOKS, seed=11)
    for rule in OURS:
        assert ever[rule] <= at_most(ALPHA, EXPERIMENTS), rule
    assert ever["fixed"] > at_most(ALPHA, EXPERIMENTS) * 0.6
    assert ever["per list"] > EXPERIMENTS / 2
    assert 0.1 < reduction < 0.6


def test_a_true_drop_is_found_with_few_users() -> None:
    assert users_to_find(0.2, 2_500, 15, LOOKS, seed=12)["alarm"] <= 2_000


def test_the_same_seed_gives_the_same_experiment() -> None:
    one, other = (judge(draw(REGIMES[0], (5, 6)), LOOKS) for _ in range(2))
    assert all((one.certain[rule] == other.certain[rule]).all() for rule in one.certain)
    assert (draw(REGIMES[0], (5, 6)).worth.sum()) != draw(REGIMES[0], (5, 7)).worth.sum()
