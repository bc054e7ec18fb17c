"""Reports of simulated experiments, made with the product's own statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streammetrics.config.experiments import settings_text
from streammetrics.experiments import (
    Entry,
    EntrySums,
    ExperimentReport,
    FeedbackCounts,
    Hours,
    Policy,
    StoredSums,
    add_credits,
    build_report,
    choose_scales,
    of_users,
)
from streammetrics.statistics.measures import LISTS, LISTS_AT, USERS_AT, Measures
from streammetrics.words.times import HOUR_MS
from tests.support.columns import MEASURES, ONE, WITH_COVARIATES

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


ONE_DAY = Entry(24, 20_000)
LAST_MS = 480_001 * 3_600_000 - 1
"""The end of the hour that has all lists of `in_one_hour`."""


def in_one_hour(measures: Measures, moments: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """What is stored of users who all came on one day and have all their lists in one hour of it."""
    hours, users, by_day = Hours(), EntrySums(), EntrySums(24)
    for variant, sums in moments.items():
        if not any(sums):
            continue
        totals = [0] * (measures.totals_width + (2 * len(measures.of_lists) if measures.covariates else 0))
        totals[0] = sums[LISTS_AT]
        for measure in measures.of_lists:
            at = measures.places(measure)
            totals[measure.top - LISTS], totals[measure.bottom - LISTS] = sums[at.y], sums[at.d]
            if measures.covariates:
                of = measures.covariate_places(measure)
                for column, place in zip(measures.covariate_columns_of(measure), (of.h, of.x), strict=True):
                    totals[column] = sums[place]
        hours.row(480_000).add_totals(variant, ONE_DAY, totals)
        hours.row(480_000).new_users[variant] = sums[USERS_AT]
        hits = [sums[measures.places(measure).y] for measure in measures if measure.kind == "users"]
        users.add(variant, ONE_DAY, [sums[USERS_AT], *hits])
        by_day.add(variant, ONE_DAY, sums)
    return {"moments": moments, "hours": hours, "run_hours": hours, "entry_users": users, "entry_moments": by_day}


def stored(
    chances: Mapping[str, float],
    *,
    name: str = "ranker",
    scope: str = "start",
    users: int | Mapping[str, int] = USERS,
    whole: bool = False,
) -> StoredSums:
    """The stored state of an experiment, with the hit chance of each arm. `whole`: with covariates and interleaved lists."""
    counts = {variant: users if isinstance(users, int) else users[variant] for variant in chances}
    moments = {variant: arm(counts[variant], chance, seed, whole) for seed, (variant, chance) in enumerate(chances.items())}
    return StoredSums(
        experiment=name,
        scope=scope,
        first_list_users=counts,
        exposed=counts if whole else {},
        joined=FeedbackCounts(900, 100),
        credits=credits(USERS, -0.2) if whole else {},
        from_ms=480_000 * HOUR_MS,
        last_ms=dict.fromkeys(chances, LAST_MS) if whole else {},
        newest_ms=LAST_MS,
        **in_one_hour(WITH_COVARIATES if whole else MEASURES, moments),
    )


def experiment(
    chances: Mapping[str, float],
    *,
    name: str = "ranker",
    scope: str = "start",
    users: int | Mapping[str, int] = USERS,
    paging: tuple[str, ...] = ("ndcg@10",),
    control: str | None = None,
    shares: Mapping[str, float] | None = None,
    whole: bool = False,
) -> ExperimentReport:
    """The report of such an experiment at its first look. Its arms have equal shares, if no others are given."""
    kept = stored(chances, name=name, scope=scope, users=users, whole=whole)
    equal = dict.fromkeys(chances, 1.0) if len(chances) > 1 and (control is None or control in chances) else None
    policy = Policy(paging=paging, control=control, shares=shares or equal, settings_text=settings_text)
    measures = WITH_COVARIATES if whole else MEASURES
    return build_report(measures, policy, kept, choose_scales(measures, policy, kept, {}))


def at_most(share: float, experiments: int) -> int:
    """Return the count that a binomial variable with this share exceeds with probability below 1 in 10,000."""
    tail, count = 1.0, -1
    while tail > 1e-4:
        count += 1
        tail -= math.comb(experiments, count) * share**count * (1 - share) ** (experiments - count)
    return count
