"""Reports of simulated experiments, made with the product's own statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from streammetrics.config.toml_text import settings_text
from streammetrics.experiments import ExperimentReport, Joined, Policy, Stored, add_credits, build_report, choose_scales, of_users
from tests.experiments.columns import MEASURES, ONE, WITH_COVARIATES

USERS = 2_000


def arm(users: int, chance: float, seed: int, with_covariates: bool = False) -> list[int]:
    """Moments of users with hits at random. Every metric follows the hits. With covariates, half of the users have earlier lists."""
    random = np.random.default_rng(seed)
    lists = random.integers(1, 8, users)
    hits = random.binomial(lists, np.clip(random.normal(chance, 0.1, users), 0, 1))
    rows = np.column_stack([lists, hits * ONE, hits * ONE, hits, 5 * lists, hits << 33])
    if not with_covariates:
        return of_users(MEASURES, rows)
    before = [WITH_COVARIATES.covariate_values(row) if user % 2 else None for user, row in enumerate(rows.tolist())]
    return of_users(WITH_COVARIATES, rows, before)


def credits(users: int, mean: float) -> dict[tuple[str, str], list[int]]:
    """Credit moments of users with two lists each. The second team has this mean credit."""
    total: dict[tuple[str, str], list[int]] = {}
    for user in range(users):
        add_credits(total, {("control", "treatment"): (1, 1, *([1 if user < (1 + mean) / 2 * users else -1] * 2))}, 1)
    return total


def stored(
    chances: Mapping[str, float],
    *,
    name: str = "ranker",
    scope: str = "start",
    users: int | Mapping[str, int] = USERS,
    multi: int = 3,
    whole: bool = False,
) -> Stored:
    """The stored state of an experiment, with the hit chance of each arm. `whole`: with covariates and interleaved lists."""
    counts = {variant: users if isinstance(users, int) else users[variant] for variant in chances}
    moments = {variant: arm(counts[variant], chance, seed, whole) for seed, (variant, chance) in enumerate(chances.items())}
    return Stored(
        experiment=name,
        scope=scope,
        moments=moments,
        first_exposures=counts,
        exposed=counts if whole else {},
        multi_exposed_users=multi,
        joined=Joined(900, 100),
        credits=credits(USERS, -0.2) if whole else {},
    )


def experiment(
    chances: Mapping[str, float],
    *,
    name: str = "ranker",
    scope: str = "start",
    users: int | Mapping[str, int] = USERS,
    paging: tuple[str, ...] = ("ndcg@10",),
    control: str | None = None,
    whole: bool = False,
) -> ExperimentReport:
    """The report of such an experiment at its first look."""
    kept = stored(chances, name=name, scope=scope, users=users, whole=whole)
    shares = dict.fromkeys(chances, 1.0) if len(chances) > 1 and (control is None or control in chances) else None
    policy = Policy(paging=paging, control=control, shares=shares, settings_text=settings_text)
    measures = WITH_COVARIATES if whole else MEASURES
    return build_report(measures, policy, kept, choose_scales(measures, policy, kept, {}))


def at_most(share: float, experiments: int) -> int:
    """Return the count that a binomial variable with this share exceeds with probability below 1 in 10,000."""
    tail, count = 1.0, -1
    while tail > 1e-4:
        count += 1
        tail -= math.comb(experiments, count) * share**count * (1 - share) ** (experiments - count)
    return count
