"""Stages of a rollout, and assignment list by list: which cell a list belongs to, and what two cells have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

from tests.oracle.values import ShownList

Cell: TypeAlias = tuple[str, str, str]
"""Stage of the user's first list, stage of the list, variant. If users have no variant, both are the stage of the list."""
Shared: TypeAlias = tuple[int, int, int, int, int]
"""Users in both cells, and over them the sums of d d', y y', y d', d y'. The first letter is of the first cell."""


class Rollout(NamedTuple):
    """The stages of an experiment: starts by stage in order, or a segment and its values that count. `by_list`: users have no variant."""

    starts: tuple[tuple[str, float], ...] = (("", -math.inf),)
    label: str | None = None
    values: tuple[str, ...] = ()
    by_list: bool = False


def stage_of(shown: ShownList, rollout: Rollout) -> str | None:
    """Return the stage of a list; None if it is in no stage."""
    if rollout.label is not None:
        value = dict(shown.segments).get(rollout.label)
        return value if value in rollout.values else None
    begun = [stage for stage, start in rollout.starts if start <= shown.ts]
    return begun[-1] if begun else None


def entries_of(lists: Iterable[ShownList], rollout: Rollout) -> dict[str, str]:
    """Return the stage of each user's first list, of lists that are all in some stage."""
    entries: dict[str, str] = {}
    for shown in sorted(lists, key=lambda one: (one.ts, one.impression_id)):
        entries.setdefault(shown.user_id, stage_of(shown, rollout) or "")
    return entries


def cell_of(shown: ShownList, variant: str, rollout: Rollout, entries: Mapping[str, str]) -> Cell:
    """Return the cell of a list."""
    stage = stage_of(shown, rollout) or ""
    return stage if rollout.by_list else entries[shown.user_id], stage, variant


def pairs_of(
    users: Sequence[Mapping[Cell, Mapping[str, tuple[int, int]]]], measures: Sequence[str]
) -> dict[tuple[Cell, Cell], dict[str, Shared]]:
    """Return what each two cells have in common, by measure. A user has (y, d) of each measure in each of their cells."""
    found: dict[tuple[Cell, Cell], dict[str, Shared]] = {}
    for one, other in combinations(sorted({cell for user in users for cell in user}), 2):
        both = [user for user in users if one in user and other in user]
        if not both:
            continue
        found[one, other] = {}
        for measure in measures:
            values = [(*user[one][measure], *user[other][measure]) for user in both]
            found[one, other][measure] = (
                len(both),
                sum(d * e for _, d, _, e in values),
                sum(y * x for y, _, x, _ in values),
                sum(y * e for y, _, _, e in values),
                sum(d * x for _, d, x, _ in values),
            )
    return found
