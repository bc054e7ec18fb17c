"""Variance reduction: against a computation list by list, and its effect."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments.cell_estimates import Pair, ReducedEstimate, reduce_variance
from streammetrics.experiments.hours import EntrySums, Hours, entry_of
from streammetrics.experiments.stored import StoredSums
from streammetrics.metrics import Scorer
from streammetrics.statistics.measures import COVARIATE_BITS, Measures
from streammetrics.statistics.moments import of_users
from tests.oracle.cells import PairResult, RawList, came, compare

MEASURES = Measures(Scorer(["mrr@10"]).columns, covariates=True)
MRR = MEASURES.named("mrr@10")
Earlier = Mapping[str, int | None]
"""The mean of each user before, in sixteenths; None: no earlier lists."""


def stored_of(lists: Sequence[RawList], earlier: Earlier) -> StoredSums:
    """What is kept of lists whose values y are in sixteenths."""
    hours, by_day, first = Hours(), EntrySums(24), came(lists)
    totals: dict[tuple[str, str], list[int]] = {}
    for impression in lists:
        x = earlier[impression.user]
        h, product = (0, 0) if x is None else (1, x << (COVARIATE_BITS - 4))
        row = [1, impression.y << 36, h, product]
        hours.row(impression.hour).add_totals(impression.variant, hours.entry_of(first[impression.user], impression.hour), row)
        sums_before = totals.get((impression.user, impression.variant), [0, 0])
        totals[impression.user, impression.variant] = [sums_before[0] + 1, sums_before[1] + (impression.y << 36)]
    for (user, variant), total in totals.items():
        x = earlier[user]
        by_day.add(variant, entry_of(first[user]), of_users(MEASURES, [total], [[None if x is None else x << (COVARIATE_BITS - 4)]]))
    return StoredSums(
        experiment="ranker",
        scope="start",
        moments=by_day.by_variant(),
        first_list_users={},
        hours=hours,
        run_hours=hours,
        entry_moments=by_day,
    )


def reduced(lists: Sequence[RawList], earlier: Earlier) -> ReducedEstimate | None:
    pair = Pair(MEASURES, stored_of(lists, earlier), "new", "old")
    plain = pair.combined(MRR)
    return None if plain is None else reduce_variance(MEASURES, MRR, pair, plain)


def adjusted_lists(lists: Sequence[RawList], earlier: Earlier, slope: Fraction, centre: Fraction) -> list[RawList]:
    """Lists with the values y - theta (x - c)."""
    raw_lists = []
    for impression in lists:
        x = earlier[impression.user]
        z = Fraction(0) if x is None else Fraction(x, 16) - centre
        raw_lists.append(impression._replace(y=Fraction(impression.y, 16) - slope * z))  # type: ignore[arg-type]
    return raw_lists


def mean_of(lists: Sequence[RawList], values: Mapping[str, Fraction]) -> tuple[Fraction, Fraction]:
    """Return the means of both arms of a value of each user, over the cells of the lists."""
    comparison = compare([impression._replace(y=values[impression.user]) for impression in lists], "new", "old")  # type: ignore[arg-type]
    assert comparison is not None
    return comparison.treatment.mean, comparison.control.mean


@st.composite
def experiments(draw: st.DrawFn) -> tuple[list[RawList], dict[str, int | None]]:
    random = draw(st.randoms(use_true_random=False))
    lists, earlier = list[RawList](), dict[str, int | None]()
    for number in range(draw(st.integers(4, 40))):
        user, first = f"u{number}", 480_000 + random.randrange(60)
        earlier[user] = random.choice((None, random.randint(0, 16)))
        for _ in range(random.choice((1, 2, 5))):
            lists.append(
                RawList(
                    user,
                    first + random.choice((0, 3, 30)),
                    random.choice(("new", "old")) if number % 7 == 0 else ("new", "old")[number % 2],
                    random.randint(0, 16),
                )
            )
    return lists, earlier


@given(experiments())
def test_adjusted_estimates_equal_a_computation_list_by_list(made: tuple[list[RawList], dict[str, int | None]]) -> None:
    lists, earlier = made
    comparison = reduced(lists, earlier)
    if comparison is None:
        return
    x = [mean_of(lists, {user: Fraction(value_before or 0, 16) for user, value_before in earlier.items()})]
    h = [mean_of(lists, {user: Fraction(value_before is not None) for user, value_before in earlier.items()})]
    centre = sum(x[0]) / sum(h[0])
    plain = compare([impression._replace(y=Fraction(impression.y, 16)) for impression in lists], "new", "old")  # type: ignore[arg-type]
    assert plain is not None
    z = [one - centre * other for one, other in zip(x[0], h[0], strict=True)]
    assert z[0] + z[1] == 0
    if z[0] == 0:
        return
    slope = (plain.treatment.mean - Fraction(comparison.adjusted.treatment.mean)) / z[0]
    wanted = compare(adjusted_lists(lists, earlier, slope, centre), "new", "old")
    assert wanted is not None
    assert_equal(comparison, wanted)


def assert_equal(reduced_estimate: ReducedEstimate, wanted: PairResult) -> None:
    for arm_estimate, other in zip(reduced_estimate.adjusted[:2], wanted[:2], strict=True):
        assert arm_estimate.mean == pytest.approx(float(other.mean), rel=1e-9, abs=1e-9)
        assert arm_estimate.variance == pytest.approx(float(other.variance), rel=1e-5, abs=1e-9)
    assert reduced_estimate.adjusted.covariance == 0.0


def tasteful(seed: int, users: int = 2_000) -> tuple[list[RawList], dict[str, int | None]]:
    """Users with tastes of their own, the same number in each arm."""
    random = np.random.default_rng(seed)
    lists, earlier = list[RawList](), dict[str, int | None]()
    for number in range(users):
        taste = random.uniform(0.1, 0.9)
        earlier[f"u{number}"] = int(16 * random.binomial(8, taste) / 8)
        for _ in range(random.integers(1, 9)):
            lists.append(RawList(f"u{number}", 480_000, ("new", "old")[number % 2], 16 * int(random.random() < taste)))
    return lists, earlier


def test_a_good_covariate_removes_variance_and_keeps_the_mean() -> None:
    lists, earlier = tasteful(8)
    comparison = reduced(lists, earlier)
    assert comparison is not None
    assert 0.2 < comparison.share < 0.8
    assert comparison.users_with_earlier == 2_000
    for arm_estimate in comparison.adjusted[:2]:
        assert abs(arm_estimate.mean - 0.5) < 4 * math.sqrt(arm_estimate.variance)


def test_no_other_slope_has_a_smaller_variance() -> None:
    lists, earlier = tasteful(9, users=60)
    comparison = reduced(lists, earlier)
    assert comparison is not None
    least = comparison.adjusted.treatment.variance + comparison.adjusted.control.variance
    for slope in np.linspace(-0.5, 1.5, 41):
        other = compare(adjusted_lists(lists, earlier, Fraction(float(slope)), Fraction(1, 2)), "new", "old")
        assert other is not None
        assert float(other.treatment.variance + other.control.variance) >= least * (1 - 1e-6)


def test_without_earlier_lists_nothing_is_adjusted() -> None:
    lists, earlier = tasteful(10, users=40)
    assert reduced(lists, dict.fromkeys(earlier, None)) is None
    assert reduced(lists, dict.fromkeys(earlier, 8)) is None
