"""Judged lists: the input of `evaluate`. Built by the readers of this folder. Reads no files."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.names import MetricError
from streammetrics.offline.evaluation.numbers import is_missing
from streammetrics.offline.evaluation.overlap import require_matching_items
from streammetrics.offline.evaluation.ranking import GradedItems, ItemLists, NegativeGrades, TieRule, find, rank

Users: TypeAlias = Mapping[Any, Hashable] | Sequence[Hashable]

NO_INTS: Ints = np.zeros(0, dtype=np.int64)
NO_GRADES: Floats = np.zeros(0, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedLists:
    """Ranked lists with the grades of their items. Built by the `from_...` functions, read by `evaluate`.

    lists: L distinct list ids.
    lengths: int64, shape (L,): the number of items that each list shows.
    rows, positions, grades: shape (H,): list (index into `lists`), position (from 0) and grade of each shown item with a grade
        above 0. All other shown items have grade 0.
    unseen_rows, unseen_grades: shape (U,): relevant items that a list did not show.
    users: the user of each list, L of them, or None.
    only_ranked, only_judged: ids of the lists that were left out because they had no judgments, or no ranking.
    """

    lists: tuple[Hashable, ...]
    lengths: Ints
    rows: Ints
    positions: Ints
    grades: Floats
    unseen_rows: Ints = field(default_factory=lambda: NO_INTS)
    unseen_grades: Floats = field(default_factory=lambda: NO_GRADES)
    users: tuple[Hashable, ...] | None = None
    only_ranked: tuple[Hashable, ...] = ()
    only_judged: tuple[Hashable, ...] = ()

    def __len__(self) -> int:
        return len(self.lists)


def judge(
    item_lists: ItemLists,
    judgments: Sequence[Mapping[Any, float]],
    *,
    ties: TieRule = "order",
    negative: NegativeGrades = "error",
    users: Users | None = None,
    left_out: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ()),
) -> JudgedLists:
    """Match lists of item ids with one mapping of item -> grade per list. Shared by all readers with item ids."""
    if negative not in ("error", "zero"):
        raise MetricError("negative", f"got {negative!r}; allowed are error, zero")
    graded = find(item_lists, rank(item_lists, ties), judgments, negative)
    if not graded.rows.size:
        require_matching_items(item_lists, judgments)
    return build_judged(item_lists, graded, users, left_out)


def build_judged(
    item_lists: ItemLists,
    graded: GradedItems,
    users: Users | None,
    left_out: tuple[tuple[Hashable, ...], tuple[Hashable, ...]] = ((), ()),
) -> JudgedLists:
    """Put ranked lists and their judged items together. `left_out` is (only ranked, only judged)."""
    return JudgedLists(
        tuple(item_lists.lists),
        np.diff(item_lists.offsets),
        *graded,
        _users_of(item_lists.lists, users),
        only_ranked=left_out[0],
        only_judged=left_out[1],
    )


def _users_of(lists: Sequence[Hashable], users: Users | None) -> tuple[Hashable, ...] | None:
    if users is None:
        return None
    if isinstance(users, Mapping):
        given = tuple(users.get(name) for name in lists)
    else:
        given = tuple(users.tolist() if isinstance(users, np.ndarray) else users)
    if len(given) != len(lists):
        raise MetricError("users", f"got {len(given)}; allowed are {len(lists)}, one per list")
    for user, name in zip(given, lists, strict=True):
        # Without this check all lists with an unknown user would form one cluster.
        if is_missing(user) or not isinstance(user, Hashable):
            raise MetricError(
                "users", f"got {'none' if is_missing(user) else repr(user)} for list {name!r}; allowed is a hashable id for every list"
            )
    return given
