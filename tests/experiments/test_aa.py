"""The bench of experiments without an effect: its sums against the oracle, and a few regimes as a sample."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streammetrics.experiments.cell_estimates import Pair
from streammetrics.statistics.moments import CovarianceLayout, cross_of_users, of_users
from tests.oracle.cells import RawList, compare
from tests.support.experiment_samples import at_most
from tests.support.tables import for_each
from tests.tools.bench.aa import REGIMES, judge, line_of, wrong_regimes
from tests.tools.bench.aa_feed import ARMS, BOTH, looks, measures_of
from tests.tools.bench.aa_lists import Lists, Regime, draw

SMALL = (
    Regime(name="small ramp", users=150, hours=60, rate=0.2, steps=(0.1, 0.5)),
    Regime(name="small, by list", users=60, hours=40, rate=0.3, unit="list"),
    Regime(name="small, items, 130 hours", users=120, hours=130, rate=0.1, items=True),
    Regime(name="small, three arms, CUPED", users=90, hours=40, rate=0.2, arms=3, earlier=4),
)
SAMPLE = ("ramp 2 → 50 %, season", "silent for 15 %, users came before, bad hours", "90:10, season", "by list, 5 → 50 %")


def small(regime: Regime) -> Lists:
    return draw(regime, np.random.default_rng(7))


@for_each(SMALL)
def test_the_estimate_from_the_sums_is_that_of_the_oracle(regime: Regime) -> None:
    lists = small(regime)
    measures = measures_of(regime)
    raw = [
        RawList(f"u{user}", hour, ARMS[arm], y, d) for user, hour, arm, d, y in zip(*(column.tolist() for column in lists[:5]), strict=True)
    ]
    *_, stored = looks(measures, lists, regime.hours)
    pair_estimate, wanted = Pair(measures, stored, "treatment", "control").combined(measures.all[0]), compare(raw, "treatment", "control")
    assert pair_estimate is not None
    assert wanted is not None
    for arm_estimate, other in zip((pair_estimate.treatment, pair_estimate.control), wanted[:2], strict=True):
        assert arm_estimate.users == other.users
        assert math.isclose(arm_estimate.mean, other.mean, rel_tol=1e-9)
        assert math.isclose(arm_estimate.variance, other.variance, rel_tol=1e-9)


@for_each(SMALL)
def test_the_moments_are_those_of_the_users(regime: Regime) -> None:
    lists = small(regime)
    measures = measures_of(regime)
    *_, stored = looks(measures, lists, regime.hours)
    count = int(lists.users.max()) + 1
    columns = [np.ones(len(lists.users), dtype=np.int64), lists.clicks] + ([lists.items] if regime.items else [])
    totals = [
        np.stack([np.bincount(lists.users, column * (lists.arms == arm), count).astype(np.int64) for column in columns], axis=1)
        for arm in range(regime.arms)
    ]
    earlier = np.zeros((count, 2), dtype=np.int64)
    earlier[lists.users] = np.stack([np.ones_like(lists.earlier), lists.earlier], axis=1)
    for arm, name in enumerate(ARMS[: regime.arms]):
        assert stored.moments[name] == of_users(measures, totals[arm], earlier if regime.earlier else ())
        assert stored.first_list_users[name] <= stored.moments[name][0]
    if regime.unit == "list":
        assert stored.pairs[BOTH] == cross_of_users(CovarianceLayout(measures), totals[0], totals[1])
    else:
        assert not stored.pairs
        assert [sums[0] for sums in stored.entry_users.by_variant().values()] == [sums[0] for sums in stored.moments.values()]


def test_a_line_has_the_rates_and_a_wrong_regime_is_named() -> None:
    regime = Regime(name="tiny", users=400, hours=24, rate=0.1)
    rates_of_seeds = [judge(regime, number, 6) for number in range(3)]
    assert line_of(regime, rates_of_seeds, 6).startswith("| tiny | 3 x 4 | 0.0 | 0.0 | ")
    assert not [*wrong_regimes({"tiny": rates_of_seeds})]
    wrong = [rates._replace(improved=6.0) for rates in rates_of_seeds]
    assert [*wrong_regimes({"tiny": wrong})] == ["tiny: improved in 100.0%, wanted at most 5 %"]


@pytest.mark.parametrize("name", SAMPLE)
def test_without_an_effect_a_verdict_is_rarely_wrong(name: str) -> None:
    """A sample of the bench: 15 experiments with looks 20 hours apart. Pooled lists are wrong in nearly all of the first two."""
    (regime,) = (member for group in REGIMES.values() for member in group if member.name == name)
    rates_of_seeds = [judge(regime, number, 20) for number in range(15)]
    for word in ("regressed", "improved"):
        assert sum(math.isfinite(getattr(rates, word)) for rates in rates_of_seeds) <= at_most(0.05, 15)


def test_a_drop_is_found() -> None:
    regime = Regime(name="drop", users=3_000, hours=60, rate=0.1, steps=(0.05, 0.5), effect=(-0.3,))
    rates_of_seeds = [judge(regime, number, 10) for number in range(4)]
    assert all(math.isfinite(rates.regressed) for rates in rates_of_seeds)
