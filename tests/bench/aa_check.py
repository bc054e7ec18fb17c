"""Compares the numpy sums of the harness with the exact sums of the package, for one experiment."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from streammetrics.experiments.cuped import reduce_variances
from streammetrics.experiments.estimates import Estimate, estimate
from streammetrics.experiments.measures import Measures
from streammetrics.experiments.moments import of_users
from tests.bench.aa_traffic import EARLIER_LISTS, Floats, Traffic

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Name:
    name: str
    k: int = 10
    lower_is_better: bool = False
    ceiling: int | None = None
    counts_hits: bool = True


@dataclass(frozen=True)
class Worth:
    """A column with any integer per list, under a name that the package knows."""

    metric: Name
    kind: str = "sum"
    scale_bits: int = 0


MEASURES = Measures([Worth(Name("mrr")), Worth(Name("hit_rate"))], covariates=True)


@dataclass(frozen=True, slots=True)
class Last:
    """The harness's (mean, variance) by arm at the last look: plain, by user, reduced."""

    plain: tuple[Floats, Floats]
    by_user: tuple[Floats, Floats]
    reduced: tuple[Floats, Floats]


def check_against_package(traffic: Traffic, last: Last) -> None:
    """Raise AssertionError where the harness and the package differ by more than one part in 10**9."""
    moments = {str(arm): _moments(traffic, arm) for arm in (0, 1)}
    mean, by_user = MEASURES.named("mrr@10"), MEASURES.named("user_hit_rate@10")
    reduced = reduce_variances(MEASURES, mean, moments)
    for arm, sums in moments.items():
        at = int(arm)
        for found, expected in (
            (estimate(MEASURES, mean, sums), last.plain),
            (estimate(MEASURES, by_user, sums), last.by_user),
            (reduced[arm].adjusted, last.reduced),
        ):
            assert found is not None
            _same(found, float(expected[0][at]), float(expected[1][at]))


def _moments(traffic: Traffic, arm: int) -> list[int]:
    count = len(traffic.arms)
    lists = np.bincount(traffic.users, minlength=count)
    worth = np.bincount(traffic.users, traffic.worth, count)
    hits = np.bincount(traffic.users, traffic.worth > 0, count)
    users = [user for user in range(count) if traffic.arms[user] == arm and lists[user]]
    totals = [[int(lists[user]), int(worth[user]), int(hits[user])] for user in users]
    earlier = [MEASURES.covariate_values([EARLIER_LISTS, int(traffic.earlier[user]), 0]) for user in users]
    return of_users(MEASURES, totals, earlier)


def _same(found: Estimate, mean: float, variance: float) -> None:
    assert math.isclose(found.mean, mean, rel_tol=TOLERANCE), (found.mean, mean)
    assert math.isclose(found.variance, variance, rel_tol=TOLERANCE), (found.variance, variance)
