"""Reports of experiments made of simulated integers: arms whose lists are hits with a chance, through the product's own statistics."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from streammetrics.experiments import ExperimentReport, Policy, Stored, build_report, choose_scales, of_users
from tests.experiments.columns import MEASURES, ONE

USERS = 2_000


def arm(users: int, chance: float, seed: int) -> list[int]:
    """Moments of users whose lists are hits with a chance; every metric follows the hits."""
    random = np.random.default_rng(seed)
    lists = random.integers(1, 8, users)
    hits = random.binomial(lists, np.clip(random.normal(chance, 0.1, users), 0, 1))
    rows = [[int(n), int(y) * ONE, int(y) * ONE, int(y), 5 * int(n), int(y) << 33] for n, y in zip(lists, hits, strict=True)]
    return of_users(MEASURES, rows)


def stored(
    chances: Mapping[str, float], *, name: str = "ranker", scope: str = "start", users: int | Mapping[str, int] = USERS, multi: int = 3
) -> Stored:
    """What is kept of an experiment whose arms have these chances, and so many users."""
    counts = {variant: users if isinstance(users, int) else users[variant] for variant in chances}
    moments = {variant: arm(counts[variant], chance, seed) for seed, (variant, chance) in enumerate(chances.items())}
    return Stored(experiment=name, scope=scope, moments=moments, first_exposures=counts, multi_exposed_users=multi, unmatched_share=0.1)


def experiment(
    chances: Mapping[str, float],
    *,
    name: str = "ranker",
    scope: str = "start",
    users: int | Mapping[str, int] = USERS,
    paging: tuple[str, ...] = ("ndcg@10",),
    control: str | None = None,
) -> ExperimentReport:
    """The report of it, at its first look."""
    kept, policy = stored(chances, name=name, scope=scope, users=users), Policy(paging=paging, control=control)
    return build_report(MEASURES, policy, kept, choose_scales(MEASURES, policy, kept.moments, {}))
