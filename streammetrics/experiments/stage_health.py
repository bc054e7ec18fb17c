"""Health of an experiment: each stage's split and users in several variants, and what was counted under other settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from streammetrics.experiments.health import Health, check_split, join_trouble, multi_exposure_trouble
from streammetrics.experiments.interleaving import INTERLEAVED
from streammetrics.experiments.measures import LISTS_AT
from streammetrics.experiments.name_order import in_order
from streammetrics.experiments.proposals import Changed
from streammetrics.experiments.sample_ratio import sample_ratio_p_value
from streammetrics.experiments.stages import Stage
from streammetrics.experiments.strata import Cells, StageCounts, Stratum
from streammetrics.experiments.words import join, named, say


class StageHealth(NamedTuple):
    """One stage's p-value of the split of the users who came in it (None: not checked), the least one of all its strata, and sentences."""

    sample_ratio_p: float | None
    least_p: float | None
    troubles: tuple[str, ...]
    notes: tuple[str, ...]
    split_holds: bool


def check_stage(cells: Cells, stage: StageCounts, changed: Changed | None = None) -> StageHealth:
    """Check one stage against its own shares. With several strata, each has its part of `sample_ratio_alpha`.

    Users who came in an earlier stage may have kept their variant, or may have been assigned again. So they must be split as one of both
    stages says. changed: a share that changed within the stage.
    """
    policy, experiment = cells.policy, cells.stored.experiment
    alpha = policy.sample_ratio_alpha / strata_max(cells)
    own = next(each for each in stage.strata if each.key == (stage.key, stage.key))
    name, shares = stage.stage.name if policy.stages else None, stage.stage.shares or None
    p, troubles, notes = check_split(policy, experiment, _split(cells, own), shares, alpha=alpha, stage=name, changed=changed)
    values = [] if p is None else [p]
    for each in stage.strata:
        if each is not own and each.entry is not None:
            both = each.entry.shares, stage.stage.shares
            values.append(max(sample_ratio_p_value(_in_shares(_split(cells, each), some), some) for some in both))
            troubles += check_split(policy, experiment, _split(cells, each), shares, alpha=0.0, stage=name)[1]  # of strays alone
            if values[-1] < alpha:
                troubles.append(_split_as_neither(_split(cells, each), each.entry))
    users = sum(sum(first_counts(cells, each).values()) for each in stage.strata)
    share = stage.multi_exposed_users / users if users and policy.unit == "user" else 0.0
    trouble = multi_exposure_trouble(policy, experiment, share, users, changed)
    where = say("in stage {stage}: ", stage=named(stage.stage.name)) if policy.stages else ""
    return StageHealth(
        p,
        min(values, default=None),
        tuple(join((where, each), "") for each in (*troubles, *trouble)),
        tuple(join((where, each), "") for each in notes),
        not troubles,
    )


def strata_max(cells: Cells) -> int:
    """Return how many strata there can be: users return in the same stage or a later one, and with labels in any stage."""
    stages = max(1, len(cells.policy.stages))
    if cells.policy.unit == "list":
        return stages
    return stages * (stages + 1) // 2 if cells.policy.stage_label is None else stages * stages


def _split(cells: Cells, stratum: Stratum) -> Mapping[str, int]:
    """Return the users, or lists, whose split is checked."""
    exposed = stratum.stored.exposed
    return exposed if exposed and cells.policy.unit == "user" else first_counts(cells, stratum)


def _in_shares(counts: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name in shares}


def _split_as_neither(counts: Mapping[str, int], entry: Stage) -> str:
    seen = join((say("{name} {count:,}", name=named(name), count=counts.get(name, 0)) for name in in_order(entry.shares)), ", ")
    return say(
        "users who came in stage {entry} are split as neither of both stages says ({seen}): fix the assignment",
        entry=named(entry.name),
        seen=seen,
    )


def first_counts(cells: Cells, stratum: Stratum) -> dict[str, int]:
    """Return what the split of a stratum counts: users by their first variant, or lists."""
    if cells.policy.unit == "list":
        return {variant: moments[LISTS_AT] for variant, moments in stratum.stored.moments.items()}
    return dict(stratum.stored.first_exposures)


def health_of(cells: Cells, changes: Mapping[str, Changed]) -> Health:
    """Check the split, the users that saw several variants, and the join of feedback.

    changes: shares that changed within a stage, by the stage's key. `sample_ratio_p` is that of all strata together (Bonferroni).

    The split is checked only if shares are configured, and covers only variants with a share. Users of other variants make the
    experiment invalid if they are more than `multi_exposed_share_max` of all. Shares of users are checked once there are `min_users`
    users, and the share of feedback once there are as many feedback events.
    """
    stored, found = cells.stored, [check_stage(cells, stage, changes.get(stage.key)) for stage in cells.stages]
    values = [each.least_p for each in found if each.least_p is not None]
    users = sum(sum(first_counts(cells, each).values()) for stage in cells.stages for each in stage.strata)
    multi = stored.multi_exposed_users if cells.policy.unit == "user" else 0
    troubles = [trouble for each in found for trouble in each.troubles]
    troubles += _foreign(cells)
    troubles += join_trouble(cells.policy, stored.joined)
    notes = [*(note for each in found for note in each.notes), *_late_starts(cells)]
    if INTERLEAVED in stored.moments and cells.policy.in_cells:
        notes.append(f'lists of the variant {INTERLEAVED} are not compared by team in an experiment with stages or unit = "list"')
    return Health(
        min(1.0, strata_max(cells) * min(values)) if values else None,
        multi / users if users else 0.0,
        stored.joined.unmatched_share,
        tuple(troubles),
        tuple(notes),
        split_holds=all(each.split_holds for each in found),
    )


def _late_starts(cells: Cells) -> list[str]:
    """Say that lists count in a stage although the next one has the time of their own: it was added or moved too late."""
    return [
        say(
            "some lists from the time of stage {stage} count in stage {earlier}: stage {stage} was added or moved after its start",
            stage=named(later.stage.name),
            earlier=named(earlier.stage.name),
        )
        for earlier, later in pairwise(cells.stages)
        if later.stage.start_ms is not None and (last := earlier.last_ms) is not None and last >= later.stage.start_ms
    ]


def _foreign(cells: Cells) -> list[str]:
    """Say that lists were counted under other stages or another unit."""
    if not any(any(each.moments.values()) for each in cells.foreign):
        return []
    return [
        "lists were counted under other stages or another unit than those configured now: restore the former stages (a started stage keeps"
        " its start or label) and unit, or start the experiment again under another name"
    ]
