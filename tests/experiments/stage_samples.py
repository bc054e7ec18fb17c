"""Stored state of experiments with cells, from the totals of each user in each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TypeAlias

import numpy as np

from streammetrics.experiments import (
    Cell,
    CovarianceLayout,
    ExperimentReport,
    ExperimentUnit,
    Measures,
    Policy,
    Stage,
    Stored,
    StoredStage,
    add,
    build_report,
    choose_scales,
    cross_of_users,
    of_users,
)
from tests.experiments.columns import MEASURES, ONE

Totals = Sequence[int]
StageArm: TypeAlias = tuple[str, str]
"""The stage of a user's lists, and the variant."""
LAYOUT = CovarianceLayout(MEASURES)
ARMS = ("control", "treatment")


def cells_of(user: Mapping[StageArm, Totals], unit: ExperimentUnit = "user") -> dict[Cell, Totals]:
    """The cells of a user who came in the first of these stages."""
    entry = next(iter(user), ("", ""))[0]
    return {Cell(key if unit == "list" else entry, key, arm): own for (key, arm), own in user.items()}


def stored_cells(
    in_stages: Sequence[Mapping[StageArm, Totals]],
    *,
    unit: ExperimentUnit = "user",
    measures: Measures = MEASURES,
    layout: CovarianceLayout = LAYOUT,
) -> Stored:
    """The stored state of these users."""
    users = [cells_of(user, unit) for user in in_stages]
    cells = sorted({cell for user in users for cell, own in user.items() if own[0]})
    nobody = [0] * measures.totals_width
    moments = {cell: of_users(measures, [user[cell] for user in users if cell in user]) for cell in cells}
    pairs = {}
    for one, other in combinations(cells, 2):
        sums = cross_of_users(layout, [user.get(one, nobody) for user in users], [user.get(other, nobody) for user in users])
        if any(sums):
            pairs[one, other] = sums
    whole: dict[str, list[int]] = {}
    for (*_, variant), sums in moments.items():
        whole[variant] = add(whole[variant], sums) if variant in whole else sums
    stages = [
        StoredStage(
            entry=entry,
            key=key,
            unit=unit,
            moments={cell.variant: sums for cell, sums in moments.items() if cell[:2] == (entry, key)},
            first_exposures={cell.variant: sums[0] for cell, sums in moments.items() if cell[:2] == (entry, key)},
        )
        for entry, key in sorted({cell[:2] for cell in cells})
    ]
    first = {variant: sums[0] for variant, sums in whole.items()}
    return Stored(
        experiment="ranker",
        scope="start",
        moments=whole,
        first_exposures=first,
        multi_exposed_users=0,
        stages=tuple(stages),
        pairs=pairs,
        to_ms=1_000_000,
    )


def totals_of(random: np.random.Generator, lists: int, chance: float) -> list[int]:
    """A user's totals in some lists. Every metric follows the hits."""
    hits = int(random.binomial(lists, chance))
    return [lists, hits * ONE, hits * ONE, hits, 5 * lists, hits << 33]


def ramp(
    shares: Mapping[str, float], means: Mapping[str, float], lift: float = 0.0, *, users: int = 4_000, seed: int = 0, nested: bool = True
) -> list[dict[StageArm, Totals]]:
    """Users who may come in every stage. `shares`: the treatment's share by stage; `means`: the chance of a hit by stage.

    nested: a user who has the treatment keeps it when its share grows.
    """
    random = np.random.default_rng(seed)
    found: list[dict[StageArm, Totals]] = []
    for _ in range(users):
        place, taste, own = random.random(), random.normal(0, 0.05), dict[StageArm, Totals]()
        for key, share in shares.items():
            if random.random() < 0.6:
                arm = ARMS[(place if nested else random.random()) < share]
                chance = float(np.clip((means[key] + taste) * (1 + lift * (arm == "treatment")), 0, 1))
                own[key, arm] = totals_of(random, int(random.integers(1, 6)), chance)
        found.append(own)
    return found


STAGES = Policy(
    paging=("ndcg@10",),
    stages=(
        Stage(name="5 %", shares={"control": 19, "treatment": 1}),
        Stage(name="half", shares={"control": 1, "treatment": 1}, start_ms=500_000),
    ),
)


def rollout(lift: float = -0.2, name: str = "ramp") -> ExperimentReport:
    """The report of a ramp from 5 % to half of the users."""
    kept = replace(stored_cells(ramp({"": 0.05, "500000": 0.5}, {"": 0.6, "500000": 0.6}, lift)), experiment=name)
    return build_report(MEASURES, STAGES, kept, choose_scales(MEASURES, STAGES, kept, {}))
