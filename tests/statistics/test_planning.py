"""Plans: laws, and simulated experiments of users with several lists."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from streammetrics.errors import ExperimentError
from streammetrics.statistics.planning import (
    Assumptions,
    ComparisonScore,
    PlannedWord,
    VerdictRules,
    detectable_lift,
    more_users,
    plan,
    verdict_chance,
)
from streammetrics.statistics.sequence import Mixture, one_sided

Floats = npt.NDArray[np.float64]
HALF = Assumptions(variation=0.85, rules=VerdictRules(margin=0.0))


def test_users_fall_as_the_drop_grows() -> None:
    users = [plan(HALF, "regressed", -lift).half for lift in (0.02, 0.05, 0.1, 0.2)]
    assert users == sorted(users, reverse=True)
    assert all(early < half < most < late for early, half, most, late in [plan(HALF, "regressed", -0.1)])


def test_a_share_costs_the_inverse_of_4_p_1_minus_p() -> None:
    rules, price = VerdictRules(margin=0.0), 1 / (4 * 0.05 * 0.95)
    few = Assumptions(variation=0.85, share=0.05, min_users=50, rules=rules)
    equal = Assumptions(variation=0.85, min_users=95, rules=rules)  # as much information at the first look
    assert plan(few, "regressed", -0.1) == pytest.approx([price * users for users in plan(equal, "regressed", -0.1)])


def test_a_drop_within_the_margin_is_never_found() -> None:
    rules = Assumptions(variation=0.85, rules=VerdictRules(margin=0.05))
    assert plan(rules, "regressed", -0.04).half == math.inf
    assert plan(rules, "safe", -0.05).half == math.inf
    assert plan(rules, "safe", 0.0).half < math.inf
    assert plan(HALF, "improved", -0.1).half == math.inf


def test_the_chance_agrees_with_the_plan() -> None:
    plan_of_lift = plan(HALF, "regressed", -0.1)
    chances = [verdict_chance(HALF, "regressed", -0.1, users) for users in plan_of_lift]
    assert chances == pytest.approx([0.1, 0.5, 0.8, 0.9], abs=1e-6)
    assert [verdict_chance(HALF, "regressed", -0.1, users) for users in (10.0, 199.0)] == [0.0, 0.0]


def test_no_plan_is_below_the_first_look() -> None:
    plan_of_lift = plan(HALF, "regressed", -0.5)
    assert plan_of_lift.early == plan_of_lift.half == HALF.first_users == 200


@pytest.mark.parametrize(
    ("verdict", "minimum_lift", "margin", "lift"),
    [("regressed", 0.1, 0.0, -0.1), ("regressed", 0.1, 0.01, -0.1), ("regressed", 0.05, 0.0, -0.05), ("safe", 0.1, 0.05, 0.0)],
)
def test_the_plan_equals_simulated_paths_at_our_boundary(verdict: PlannedWord, minimum_lift: float, margin: float, lift: float) -> None:
    """The simulated looks are 0.4 % of the users apart, so their verdicts come a little later."""
    assumed = Assumptions(variation=0.85, rules=VerdictRules(margin=margin, minimum_lift=minimum_lift))
    unit, mixture, drift = assumed.unit_variance, assumed.mixture(verdict), assumed.rules.distance(verdict, lift)
    users = np.unique(np.round(np.geomspace(assumed.first_users, 60_000, 1_400))).astype(np.float64)
    bounds = np.array([one_sided(unit / count, mixture, 0.05) * math.sqrt(count / unit) for count in users])
    random, information = np.random.default_rng(4), users / unit
    steps, crossings = np.diff(information, prepend=0.0), list[float]()
    for _ in range(15):
        scores = np.cumsum(drift * steps + np.sqrt(steps) * random.standard_normal((200, len(steps))), axis=1)
        beyond = scores >= bounds
        crossings += np.where(beyond.any(axis=1), users[beyond.argmax(axis=1)], np.inf).tolist()
    simulated = np.quantile(crossings, (0.1, 0.5, 0.8, 0.9), method="lower")
    assert list(plan(assumed, verdict, lift)) == pytest.approx(simulated.tolist(), rel=0.08)


def test_the_detectable_lift_is_found_by_then() -> None:
    lift = detectable_lift(HALF, "regressed", 5_000)
    assert lift is not None
    assert plan(HALF, "regressed", lift).most == pytest.approx(5_000, rel=0.02)
    rise = detectable_lift(HALF, "improved", 5_000)
    assert rise == pytest.approx(-lift)
    assert detectable_lift(HALF, "regressed", 150) is None


def test_more_users_from_the_first_look_is_the_rest_of_the_plan() -> None:
    """The mean over scores at the first look, of the probability of a verdict by then, is the plan's."""
    lift_plan, unit, first = plan(HALF, "regressed", -0.1), HALF.unit_variance, HALF.first_users
    random = np.random.default_rng(8)
    drift, variance = 0.1, unit / first
    scores = drift / math.sqrt(variance) + random.standard_normal(150)
    half = [more_users(ComparisonScore(int(first), float(z), variance, HALF.mixture("regressed"), drift), 0.05) for z in scores]
    later = sorted(first + step.half for step in half)
    assert later[len(later) // 2] == pytest.approx(lift_plan.half, rel=0.3)


def test_beyond_the_boundary_nothing_more_is_needed() -> None:
    mixture = Mixture(0.12, 0.1)
    bound = one_sided(0.0029, mixture, 0.05)
    assert more_users(ComparisonScore(1_000, bound, 0.0029, mixture, 0.1), 0.05) == (0.0, 0.0, 0.0, 0.0)
    assert more_users(ComparisonScore(1_000, bound - 0.01, 0.0029, mixture, 0.1), 0.05).half < 100


@pytest.mark.parametrize(
    ("field", "value"), [("variation", 0.0), ("variation", math.inf), ("share", 1.0), ("share", 0.0), ("min_users", 1)]
)
def test_bad_assumptions_are_named(field: str, value: float) -> None:
    with pytest.raises(ExperimentError, match=field):
        Assumptions(**{"variation": 0.85, field: value})
    with pytest.raises(ExperimentError, match="alpha"):
        VerdictRules(alpha=0.0)


class Users:
    """Users with one to many lists, and a taste of their own. A list's value is 0 or a gain by its rank."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def draw(self, count: int, lift: float) -> tuple[Floats, Floats]:
        """Return lists and the sum of values per user."""
        random = self._random
        lists = random.geometric(1 / 5, count)
        taste = random.beta(1.2, 2.0, count) * (1 + lift)
        hits = random.binomial(lists, taste)
        return lists.astype(np.float64), hits * random.choice([1.0, 0.63, 0.5], count)

    def variation(self, count: int) -> float:
        """Return the coefficient of variation as a report has it: the clustered standard error x sqrt(users) / mean."""
        lists, values = self.draw(count, 0.0)
        mean = values.sum() / lists.sum()
        return float(np.sqrt(np.mean((values - mean * lists) ** 2)) / lists.mean() / mean)


def verdict_users(users: Users, looks: Floats, lift: float, minimum_lift: float) -> float:
    """Return the users of both arms at the first verdict `regressed` (margin 0) of one simulated experiment."""
    half = (looks // 2).astype(np.int64)
    sums = []
    for true_lift in (lift, 0.0):
        lists, values = users.draw(int(half[-1]), true_lift)
        parts = [np.cumsum(column)[half - 1] for column in (lists, values, values * values, lists * lists, values * lists)]
        d, y, yy, dd, yd = parts
        mean = y / d
        sums.append((mean, half / (half - 1) * (yy - 2 * mean * yd + mean * mean * dd) / d**2))
    (treatment, of_treatment), (control, of_control) = sums
    variance = of_treatment + of_control
    mixture = Mixture(float(np.sqrt(variance[0])), minimum_lift * float(control[0]))
    z = (control - treatment) / np.sqrt(variance)
    for at in np.flatnonzero(z > 1.6):  # the boundary is never lower
        if z[at] >= one_sided(float(variance[at]), mixture, 0.05):
            return float(looks[at])
    return math.inf


def test_the_planned_number_is_near_the_simulated_median_and_the_range_holds_80_percent() -> None:
    """Planned from the variance of the first 100 users of each arm: within 25 % in 80 % of runs."""
    looks = np.unique(2 * np.round(np.geomspace(100, 6_000, 250)))
    simulated = sorted(verdict_users(Users(seed), looks, -0.1, 0.1) for seed in range(400))
    median = simulated[200]
    rules = VerdictRules(margin=0.0)
    planned = [plan(Assumptions(variation=Users(10_000 + seed).variation(200), rules=rules), "regressed", -0.1) for seed in range(60)]
    assert np.mean([abs(plan.half / median - 1) <= 0.25 for plan in planned]) >= 0.8
    exact = plan(Assumptions(variation=Users(5).variation(200_000), rules=rules), "regressed", -0.1)
    assert abs(exact.half / median - 1) < 0.12
    assert np.mean([exact.early <= days <= exact.late for days in simulated]) == pytest.approx(0.8, abs=0.05)
