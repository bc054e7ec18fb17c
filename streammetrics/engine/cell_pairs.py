"""What the cells of a rollout have in common: the changes of cross moments when lists are added to users' totals in one batch.

Pure. A cell is a variant in one stage. When a user's totals in a cell change, so do the products with their totals in each other cell
of the same run and scope. The change is the difference between the products after the batch and before it, so the order of users and
commits cannot matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple, TypeAlias

import numpy as np

from streammetrics.engine.experiment_runs import ScopeHolder
from streammetrics.engine.packed_sums import unpack_sums
from streammetrics.experiments import CrossLayout, add, cross_of_users, subtract
from streammetrics.metrics.arrays import Ints


class UserCell(NamedTuple):
    """A user's totals in one cell: the part of the run, the day, the variant, and the row of the batch, or the totals as stored."""

    part: ScopeHolder
    day: int
    variant: str
    row: int | None
    lists: int = 0
    packed: bytes = b""

    @property
    def name(self) -> tuple[str, str]:
        """The stage and the variant. The cells of a pair are in this order."""
        return self.part.stage, self.variant


PairPlace: TypeAlias = tuple[int, int, str, int, str]
"""The day, and the number and variant of both cells."""


class CellPairs:
    """The users of one batch whose totals in cells change."""

    def __init__(self, layout: CrossLayout) -> None:
        self._layout = layout
        self._users: list[tuple[UserCell, UserCell]] = []

    def add_user(self, changed: Sequence[UserCell], unchanged: Sequence[UserCell]) -> None:
        """Add a user. Cells of one run and day are paired, unless none of the two changes."""
        for one, other in (*combinations(changed, 2), *((cell, still) for cell in changed for still in unchanged)):
            if one.part.run is other.part.run and one.day == other.day:
                self._users.append((one, other) if one.name <= other.name else (other, one))

    def sum(self, before: Ints, after: Ints) -> set[tuple[int, int]]:
        """Update the pairs of scopes, and return the keys of those that changed: part and day.

        before, after: the totals of all rows, 0 after the withdrawal of a user.
        """
        if not self._users:
            return set()
        rows = _Rows(before, after)
        pairs: dict[PairPlace, tuple[UserCell, UserCell, list[int], list[int]]] = {}
        for one, other in self._users:
            place = one.day, one.part.number, one.variant, other.part.number, other.variant
            _, _, ours, theirs = pairs.setdefault(place, (one, other, [], []))
            ours.append(rows.number(one))
            theirs.append(rows.number(other))
        before, after = rows.totals()
        scopes = set()
        for one, other, ours, theirs in pairs.values():
            new, old = (cross_of_users(self._layout, totals[ours], totals[theirs]) for totals in (after, before))
            if new != old:
                holder, lower = (one, other) if one.part.number > other.part.number else (other, one)
                known, key = holder.part.scope(holder.day).pairs, (lower.part.number, lower.variant, holder.variant)
                known[key] = add(known.get(key, [0] * self._layout.width), subtract(new, old))
                if not any(known[key]):
                    del known[key]
                scopes.add((holder.part.number, holder.day))
        return scopes


class _Rows:
    """The rows of a batch, followed by those of cells that do not change."""

    def __init__(self, before: Ints, after: Ints) -> None:
        self._before, self._after = before, after
        self._stored: list[UserCell] = []

    def number(self, cell: UserCell) -> int:
        if cell.row is not None:
            return cell.row
        self._stored.append(cell)
        return len(self._before) + len(self._stored) - 1

    def totals(self) -> tuple[Ints, Ints]:
        """Return the totals before and after the batch: shape (rows, totals_width)."""
        width = self._before.shape[1]
        still = np.zeros((len(self._stored), width), dtype=np.int64)
        if self._stored:
            still[:, 0] = [cell.lists for cell in self._stored]
            known = np.flatnonzero(still[:, 0])
            if len(known):
                still[known, 1:] = unpack_sums([self._stored[at].packed for at in known.tolist()], width - 1)
        return np.concatenate([self._before, still]), np.concatenate([self._after, still])
