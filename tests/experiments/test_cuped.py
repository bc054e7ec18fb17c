"""Variance reduction: against a computation user by user, and its effect."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streammetrics.experiments.cuped import reduce_variances
from streammetrics.experiments.measures import COVARIATE_BITS, Measures
from streammetrics.experiments.moments import of_users
from streammetrics.metrics import Scorer
from tests.experiments.columns import ONE

MEASURES = Measures(Scorer(["mrr@10"]).columns, covariates=True)
MRR = MEASURES.named("mrr@10")

user = st.integers(1, 6).flatmap(lambda lists: st.tuples(st.just(lists), st.integers(0, lists * 16), st.none() | st.integers(0, 16)))
arm = st.lists(user, min_size=2, max_size=8)
Arm = list[tuple[int, int, int | None]]


def moments_of(users: Arm) -> list[int]:
    covariates = [[None if earlier is None else earlier << (COVARIATE_BITS - 4)] for _, _, earlier in users]
    return of_users(MEASURES, [[lists, total << (COVARIATE_BITS - 4)] for lists, total, _ in users], covariates)


@given(arm, arm)
@example([(1, 8, 4), (2, 20, 12), (3, 9, None)], [(1, 2, 16), (4, 30, 8)])
@example([(1, 8, None), (2, 20, None)], [(1, 2, None), (4, 30, None)])
def test_adjusted_estimates_equal_a_computation_user_by_user(control: Arm, treatment: Arm) -> None:
    found = reduce_variances(MEASURES, MRR, {"control": moments_of(control), "treatment": moments_of(treatment)})
    all_users = [*control, *treatment]
    known = [Fraction(x, 16) for _, _, x in all_users if x is not None]
    centre = sum(known) / len(known) if known else Fraction(0)
    spreads = {}
    for name, users in (("control", control), ("treatment", treatment)):
        count, lists = len(users), sum(n for n, _, _ in users)
        mean = Fraction(sum(y for _, y, _ in users), 16 * lists)
        z = [Fraction(0) if x is None else Fraction(x, 16) - centre for _, _, x in users]
        average = sum(z) / count
        influence = [(Fraction(y, 16) - mean * n) * count / lists for n, y, _ in users]
        scale = count * (count - 1)
        pieces = [
            sum(each * each for each in influence) / scale,
            sum(each * other for each, other in zip(influence, z, strict=True)) / scale,
            sum((each - average) ** 2 for each in z) / scale,
        ]
        spreads[name] = (mean, average, *pieces)
    spread = sum(each[4] for each in spreads.values())
    slope = sum(each[3] for each in spreads.values()) / spread if spread else Fraction(0)
    for name, (mean, average, variance, both, own) in spreads.items():
        assert found[name].plain.mean == float(mean)
        assert found[name].adjusted.mean == pytest.approx(float(mean - slope * average), rel=1e-9, abs=1e-12)
        expected = float(variance - 2 * slope * both + slope * slope * own)
        assert found[name].adjusted.variance == pytest.approx(expected, rel=1e-9, abs=1e-15 * (1 + float(variance)))


def test_a_good_covariate_removes_variance_and_keeps_the_mean() -> None:
    random = np.random.default_rng(8)
    taste = random.uniform(0.1, 0.9, 4_000)
    lists = random.integers(1, 9, 4_000)
    hits, earlier = random.binomial(lists, taste), random.binomial(8, taste)
    arms = random.integers(0, 2, 4_000)
    moments = {}
    for name in (0, 1):
        mine = arms == name
        rows = [[int(n), int(y) * ONE] for n, y in zip(lists[mine], hits[mine], strict=True)]
        moments[str(name)] = of_users(MEASURES, rows, [MEASURES.covariate_values([8, int(x) * ONE]) for x in earlier[mine]])
    found = reduce_variances(MEASURES, MRR, moments)
    for each in found.values():
        assert 0.2 < each.share < 0.8
        assert abs(each.adjusted.mean - 0.5) < 4 * math.sqrt(each.adjusted.variance)
        assert each.users_with_earlier == each.plain.users


def test_without_earlier_lists_nothing_is_adjusted() -> None:
    moments = moments_of([(2, 5, None), (3, 40, None), (1, 0, None)])
    found = reduce_variances(MEASURES, MRR, {"control": moments, "treatment": moments})
    for each in found.values():
        assert each.adjusted == each.plain
        assert (each.share, each.users_with_earlier) == (0.0, 0)


def test_variants_with_fewer_than_two_users_are_not_adjusted() -> None:
    found = reduce_variances(
        MEASURES, MRR, {"one": moments_of([(2, 5, 3)]), "none": moments_of([]), "two": moments_of([(1, 5, 3), (1, 9, 8)])}
    )
    assert sorted(found) == ["one", "two"]
    assert found["one"].adjusted == found["one"].plain
    assert found["one"].share == 0.0
