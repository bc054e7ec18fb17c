"""The A/A harness in small: our rules keep their error, the usual rules do not, and a true drop is found.

Experiments through the whole product give the same decisions, at every look, as the numpy computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from streammetrics.experiments import Stored, of_users
from streammetrics.wiring.engine import build_engine
from tests.bench.aa import BY_ENGINE, false_alarms, users_to_find
from tests.bench.aa_engine import ARMS, SETTINGS, TOPIC, arms_of, run
from tests.bench.aa_hard import BITS, HARD, HARD_LOOKS, MEASURES, draw_hard, ever_wrong, moments_at_looks
from tests.bench.aa_rules import ALPHA, OURS, judge
from tests.bench.aa_traffic import REGIMES, UNIT, Ints, Regime, Traffic, draw
from tests.bench.power import CASES, planned_users
from tests.experiments.samples import at_most

EXPERIMENTS = 50
LOOKS = 200


def test_without_an_effect_our_rules_keep_their_error_and_the_usual_rules_do_not() -> None:
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


def test_the_engine_and_the_harness_decide_at_the_same_looks() -> None:
    looks = 60
    traffic = draw(Regime("small", 450, 8, staggered=True, taste=0.7), (14,), drop=0.5)
    arms = {"dropped": traffic.arms, "hashed": arms_of("hashed", len(traffic.arms))}
    found = run(traffic, arms, looks, tasks=2)
    for name, each in found.items():
        seen = judge(replace(traffic, arms=arms[name]), looks)
        assert each.certain == {rule: set(np.flatnonzero(seen.certain[rule]).tolist()) for rule in BY_ENGINE}, name
        assert not each.invalid
    assert all(found["dropped"].certain.values())


def test_the_moments_of_the_engine_equal_plain_counting_at_every_look() -> None:
    looks, names = 20, ("one", "other")
    traffic = draw(Regime("tiny", 120, 6, staggered=True, taste=0.7), (15,))
    arms = {name: arms_of(name, len(traffic.arms)) for name in names}
    stored: list[Mapping[str, Stored]] = []
    run(traffic, arms, looks, tasks=2, on_look=lambda look, each: stored.append(each))
    for look in range(looks):
        for name in names:
            assert moments(stored[look][name]) == counted(traffic, arms[name], look, looks), (look, name)


def moments(stored: Stored) -> dict[str, list[int]]:
    """Stored users, sums and products of mrr@10 by arm."""
    users = build_engine(SETTINGS, (TOPIC,)).user_totals
    assert users is not None
    at = users.measures.places(users.measures.named("mrr@10"))
    return {arm: [each[place] for place in (at.users, at.d, at.y, at.dd, at.yy, at.yd)] for arm, each in stored.moments.items()}


def counted(traffic: Traffic, arms: Ints, look: int, looks: int) -> dict[str, list[int]]:
    """The same from all lists up to a look, user by user. A click at rank r is worth 1 / r, in units of 2**-40."""
    totals: dict[int, list[int]] = {}
    for time, user, worth in zip(traffic.times.tolist(), traffic.users.tolist(), traffic.worth.tolist(), strict=True):
        if int(time * looks) <= look:
            total = totals.setdefault(user, [0, 0])
            total[0] += 1
            total[1] += round((1 << 40) * int(worth) / UNIT) if worth else 0
    sums: dict[str, list[int]] = {}
    for user, (lists, values) in totals.items():
        row = (1, lists, values, lists * lists, values * values, values * lists)
        of_arm = sums.setdefault(ARMS[arms[user]], [0] * len(row))
        of_arm[:] = [total + each for total, each in zip(of_arm, row, strict=True)]
    return sums


def test_the_moments_of_hard_traffic_equal_those_of_its_users() -> None:
    regime = HARD[4]
    users, arms, times, clicks = draw_hard(replace(regime, users=200), np.random.default_rng(16))
    names = ["control", *(f"treatment-{number}" for number in range(1, 5))]
    found = moments_at_looks(names, users, arms, times, clicks)
    ideal = np.concatenate([[1.0], np.cumsum(1 / np.log2(np.arange(2, 12)))])
    look = 40
    totals = {user: [0] * (1 + len(MEASURES.columns)) for user in range(200)}
    for user, time, clicked in zip(users.tolist(), times.tolist(), clicks, strict=True):
        if int(time * HARD_LOOKS) <= look:
            hits = int(clicked.sum())
            value = round(float(clicked @ (1 / np.log2(np.arange(2, 12))) / ideal[hits]) * (1 << BITS)) << (40 - BITS)
            changes = (1, value, int(hits > 0) << 40, hits, 10)
            totals[user] = [total + change for total, change in zip(totals[user], changes, strict=True)]
    for number, name in enumerate(names):
        expected = of_users(MEASURES, [totals[user] for user in range(200) if arms[user] == number and totals[user][0]])
        assert found[look][name] == expected


def test_dominant_users_and_late_arms_get_no_wrong_verdict() -> None:
    for regime in HARD[:4]:
        found = ever_wrong(regime, 3, 17, lambda count: None)
        assert found.wrong <= 1, regime.name


def test_measures_near_their_ceiling_get_no_wrong_verdict() -> None:
    for regime in HARD[7:]:
        found = ever_wrong(regime, 3, 17, lambda count: None)
        assert found.wrong <= 1, regime.name


def test_a_verdict_takes_as_many_users_as_documented() -> None:
    rows = {
        row[:4]: (float(row[4].replace(",", "")), float(row[5].replace(",", "")))
        for row in planned_users(150, 18, [CASES[1], *CASES[3:5], CASES[8]])
    }
    half, most = rows["regressed", "10%", "0%", "-10%"]
    assert 1_200 < half < 2_000
    assert 2_200 < most < 3_800
    assert rows["regressed", "5%", "0%", "-5%"][1] < rows["regressed", "10%", "0%", "-5%"][1]
    assert 8_000 < rows["safe", "10%", "5%", "0%"][1] < 16_000
