"""Changed totals of users -> changed moments of their variants: all scopes and experiments of a batch in one computation.

Pure. The cells of a rollout have cross moments, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from streammetrics.enrolment.records import ScopeKey, ScopeSet, StoredEarlier
from streammetrics.enrolment.rows import UserTotalsLayout, unpack_sums
from streammetrics.enrolment.targets import ExposureTargets, VariantTarget
from streammetrics.experiments import CovarianceLayout
from streammetrics.experiments.incremental_moments import cross_changes, moment_changes
from streammetrics.experiments.moments import add, zero
from streammetrics.metrics.arrays import Ints

CellsOfSet: TypeAlias = Mapping[tuple[int, int], VariantTarget]
"""The cells of a set by the number of the run, and the day. A set has at most one of each, because each list is in one stage."""


def update_moments(
    targets: ExposureTargets,
    layout: UserTotalsLayout,
    rows: Iterable[tuple[int, ScopeSet]],
    before: Ints,
    after: Ints,
    covariates: Ints | None,
) -> set[ScopeKey]:
    """Add to the moments of each variant the change of its users' totals. Returns the scopes that changed.

    rows: numbers of rows with their scopes. before, after: totals by row, shape (rows, totals_width). covariates: the columns by row; None:
    no row has any.
    """
    sets: dict[ScopeSet, tuple[int, bool]] = {}
    members: list[list[int]] = []
    numbers: dict[VariantTarget, int] = {}
    chosen: tuple[list[int], list[int]] = [], []
    sets_of: tuple[list[int], list[int]] = [], []
    for row, scopes in rows:
        known = sets.get(scopes)
        if known is None:
            of_set = targets.targets_of(scopes)
            members.append([numbers.setdefault(target, len(numbers)) for target in of_set])
            known = sets[scopes] = len(members) - 1, of_set[0].run.earlier is not None
        number, with_covariates = known
        chosen[with_covariates].append(row)
        sets_of[with_covariates].append(number)
    for with_covariates, part, of_part in zip((False, True), chosen, sets_of, strict=True):
        if part:
            measures, of_rows = layout.measures_of(with_covariates), np.array(of_part, dtype=np.int64)
            extra = covariates[part] if with_covariates and covariates is not None else None
            changes = moment_changes(measures, before[part], after[part], of_rows, members, len(numbers), extra)
            for target, number in numbers.items():
                if (target.run.earlier is not None) == with_covariates:
                    total = target.scope.moments.get(target.variant) or zero(measures)
                    target.scope.moments[target.variant] = add(total, changes[number])
    return {target.key for target in numbers}


def covariate_columns(layout: UserTotalsLayout, covariates_of: Mapping[int, int | StoredEarlier], after: Ints) -> Ints | None:
    """Return the covariates by row, 0 for users without. None if no row has any.

    `covariates_of`: a user's totals before the experiment by row, as another row of `after` or as stored. They do not change once a list
    of the run is enrolled.
    """
    if not covariates_of:
        return None
    measures = layout.measures.with_covariates
    earlier = np.zeros((len(after), measures.totals_width), dtype=np.int64)
    changed = [(row, other) for row, other in covariates_of.items() if isinstance(other, int)]
    if changed:
        earlier[[row for row, _ in changed]] = after[[other for _, other in changed]]
    unchanged = [(row, stored) for row, stored in covariates_of.items() if not isinstance(stored, int)]
    if unchanged:
        rows = [row for row, _ in unchanged]
        earlier[rows, 0] = [lists for _, (_, lists, _) in unchanged]
        earlier[rows, 1:] = unpack_sums([packed for _, (_, _, packed) in unchanged], measures.totals_width - 1)
    return measures.covariate_columns(earlier)


class CellPairs:
    """What the cells of a rollout have in common: the changes of cross moments for the users of one batch whose totals in cells change.

    A cell is a variant in one stage, with the users who came in one stage. When a user's totals in a cell change, so do the products with
    their totals in each other cell of the same run and scope. The change is the difference between the products after the batch and
    before it, so the order of users and commits cannot matter.

    A user who is in many rollouts has the same totals in most of them. So the products are those of two sets of scopes. They are computed
    once, and then added for every rollout of which both sets have a cell.

    before, after: the totals of all rows of the batch, 0 after the withdrawal of a user: shape (rows, totals_width).
    """

    def __init__(self, targets: ExposureTargets, layout: CovarianceLayout, before: Ints, after: Ints) -> None:
        self._targets, self._layout, self._before, self._after = targets, layout, before, after
        self._cells: dict[ScopeSet, CellsOfSet] = {}
        self._numbers: dict[tuple[VariantTarget, VariantTarget], int] = {}
        """Pairs of cells. Two cells may be a pair in both orders."""
        self._members: list[list[int]] = []
        """Sets of pairs of cells, by their numbers."""
        self._of_sets: dict[tuple[ScopeSet, ScopeSet], int | None] = {}
        """For two sets of scopes, their set of pairs. None: they have no run and day in common."""
        self._stored: list[tuple[int, bytes]] = []
        """Totals that do not change, as stored: the number of lists, and packed sums. Their rows follow those of the batch."""
        self._users: tuple[list[int], list[int], list[int]] = [], [], []
        """For each user and two of their sets: the row of one, the row of the other, and the set of pairs."""

    def cells_of(self, scopes: ScopeSet) -> CellsOfSet:
        """Return the cells of a set of scopes; empty if none of its experiments has stages or units other than users."""
        found = self._cells.get(scopes)
        if found is None:
            targets = [] if scopes.is_multi_exposed else self._targets.targets_of(scopes)
            found = self._cells[scopes] = {(each.run.number, each.key[1]): each for each in targets if each.in_cells}
        return found

    def add_user(self, changed: Sequence[tuple[ScopeSet, int]], unchanged: Sequence[tuple[ScopeSet, int, bytes]]) -> None:
        """Add a user: the sets whose totals change, with their rows, and all others, with their totals as stored."""
        for (one, row), (other, other_row) in combinations(changed, 2):
            self._add(one, row, other, other_row)
        for other, lists, packed in unchanged:
            still = len(self._before) + len(self._stored)
            paired = [self._add(one, row, other, still) for one, row in changed]
            if any(paired):
                self._stored.append((lists, packed))

    def _add(self, one: ScopeSet, row: int, other: ScopeSet, other_row: int) -> bool:
        """Add the products of two sets of a user. Returns whether they have pairs of cells."""
        key = one, other
        if key not in self._of_sets:
            self._of_sets[key] = self._pairs_of(self.cells_of(one), self.cells_of(other))
        number = self._of_sets[key]
        if number is None:
            return False
        for known, value in zip(self._users, (row, other_row, number), strict=True):
            known.append(value)
        return True

    def _pairs_of(self, ours: CellsOfSet, theirs: CellsOfSet) -> int | None:
        shared, numbers = ours.keys() & theirs.keys(), self._numbers
        if not shared:
            return None
        self._members.append([numbers.setdefault((ours[scope], theirs[scope]), len(numbers)) for scope in shared])
        return len(self._members) - 1

    def sum(self) -> set[ScopeKey]:
        """Update the pairs of scopes, and return the keys of those that changed."""
        ones, others, sets = (np.array(each, dtype=np.int64) for each in self._users)
        if not len(sets):
            return set()
        before, after = self._totals()
        changes = cross_changes(self._layout, before, after, (ones, others), sets, self._members, len(self._numbers))
        return {
            _add_to_scope(self._layout, one, other, change)
            for (one, other), change in zip(self._numbers, changes, strict=True)
            if any(change)
        }

    def _totals(self) -> tuple[Ints, Ints]:
        """Return the totals before and after the batch, of the rows of the batch and those that do not change."""
        width = self._before.shape[1]
        still = np.zeros((len(self._stored), width), dtype=np.int64)
        if self._stored:
            still[:, 0] = [lists for lists, _ in self._stored]
            known = np.flatnonzero(still[:, 0])
            if len(known):
                still[known, 1:] = unpack_sums([self._stored[at][1] for at in known.tolist()], width - 1)
        return np.concatenate([self._before, still]), np.concatenate([self._after, still])


def _add_to_scope(layout: CovarianceLayout, one: VariantTarget, other: VariantTarget, change: list[int]) -> ScopeKey:
    """Add the change of the cross moments of two cells, and return the scope that keeps them: that of the greater part number."""
    if _place(one) > _place(other):
        change = layout.swapped(change)
    holder, lower = (one, other) if one.part.number > other.part.number else (other, one)
    known, key = holder.scope.pairs, (lower.part.number, lower.variant, holder.variant)
    known[key] = add(known.get(key, [0] * layout.width), change)
    if not any(known[key]):
        del known[key]
    return holder.key


def _place(cell: VariantTarget) -> tuple[str, str, str, int]:
    """The entry, the stage, the variant, and the number of the part. The cells of a pair are in this order."""
    name = cell.part.name
    return name.entry, name.stage, cell.variant, cell.part.number
