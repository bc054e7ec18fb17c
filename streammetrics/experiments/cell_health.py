"""Health of an experiment with cells: each stage's split and users in several variants, and what was counted under other settings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from streammetrics.experiments.cells import Cells, StageCounts
from streammetrics.experiments.health import Health, check_split, join_trouble, multi_exposure_trouble
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.share_words import Changed


class StageHealth(NamedTuple):
    """One stage's p-value of its split (None: not checked), and its sentences."""

    sample_ratio_p: float | None
    multi_exposed_share: float
    troubles: tuple[str, ...]
    notes: tuple[str, ...]


def check_stage(cells: Cells, stage: StageCounts, changed: Changed | None = None) -> StageHealth:
    """Check one stage against its own shares. With several stages, each has its part of `sample_ratio_alpha`.

    changed: a share that changed within the stage.
    """
    policy, stages = cells.policy, max(1, len(cells.policy.stages))
    counts = first_counts(cells, stage)
    shares = stage.stage.shares or None
    p, troubles, notes = check_split(
        policy,
        cells.stored.experiment,
        stage.stored.exposed if stage.stored.exposed and policy.unit == "user" else counts,
        shares,
        alpha=policy.sample_ratio_alpha / stages,
        stage=stage.stage.name if policy.stages else None,
        changed=changed,
    )
    users = sum(counts.values())
    share = stage.stored.multi_exposed_users / users if users and policy.unit == "user" else 0.0
    trouble = multi_exposure_trouble(policy, cells.stored.experiment, share, users, changed)
    where = f"in stage {stage.stage.name}: " if policy.stages else ""
    return StageHealth(p, share, tuple(where + each for each in (*troubles, *trouble)), tuple(where + each for each in notes))


def first_counts(cells: Cells, stage: StageCounts) -> dict[str, int]:
    """Return what the split of a stage counts: users by their first variant, or lists."""
    if cells.policy.unit == "list":
        return {variant: moments[1] for variant, moments in stage.stored.moments.items()}
    return dict(stage.stored.first_exposures)


def cell_health(cells: Cells, changes: Mapping[str, Changed]) -> Health:
    """Return the health of an experiment with cells. `sample_ratio_p` is that of all stages together (Bonferroni).

    changes: shares that changed within a stage, by the stage's key.
    """
    stored, found = cells.stored, [check_stage(cells, stage, changes.get(stage.key)) for stage in cells.stages]
    values = [each.sample_ratio_p for each in found if each.sample_ratio_p is not None]
    users = sum(sum(first_counts(cells, stage).values()) for stage in cells.stages)
    multi = stored.multi_exposed_users if cells.policy.unit == "user" else 0
    troubles = [trouble for each in found for trouble in each.troubles]
    troubles += _foreign(cells)
    troubles += join_trouble(cells.policy, stored.joined)
    notes = [*(note for each in found for note in each.notes), *_late_starts(cells)]
    if INTERLEAVED in stored.moments:
        notes.append(f'lists of the variant {INTERLEAVED} are not compared by team in an experiment with stages or unit = "list"')
    return Health(
        min(1.0, len(cells.stages) * min(values)) if values else None,
        multi / users if users else 0.0,
        stored.joined.unmatched_share,
        tuple(troubles),
        tuple(notes),
    )


def _late_starts(cells: Cells) -> list[str]:
    """Say that lists count in a stage although the next one has the time of their own: it was added or moved too late."""
    return [
        f"some lists from the time of stage {later.stage.name} count in stage {earlier.stage.name}: stage {later.stage.name} was added or"
        " moved after its start"
        for earlier, later in pairwise(cells.stages)
        if later.stage.start_ms is not None and earlier.stored.last_ms is not None and earlier.stored.last_ms >= later.stage.start_ms
    ]


def _foreign(cells: Cells) -> list[str]:
    """Say that lists were counted under other stages or another unit."""
    if not any(any(each.moments.values()) for each in cells.foreign):
        return []
    return [
        "lists were counted under other stages or another unit than those configured now: restore the former stages (a started stage keeps"
        " its start or label) and unit, or start the experiment again under another name"
    ]
