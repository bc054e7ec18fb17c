"""Changed totals of users -> changed moments of their variants: all scopes and experiments of a batch in one computation.

Pure. Two variants have cross moments, too, if a user has lists in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from streammetrics.enrolment.records import ArmSet, Cohort, ScopeKey, StoredEarlier
from streammetrics.enrolment.rows import UserTotalsLayout, unpack_sums
from streammetrics.enrolment.targets import ListTargets, VariantTarget
from streammetrics.experiments import CovarianceLayout
from streammetrics.experiments.hours import Entry, entry_of
from streammetrics.metrics.arrays import Ints
from streammetrics.statistics.incremental_moments import cross_changes, moment_changes
from streammetrics.statistics.moments import add


def update_moments(
    targets: ListTargets,
    layout: UserTotalsLayout,
    cohorts: Sequence[Cohort],
    cohort_of: Ints,
    before: Ints,
    after: Ints,
    covariates: Ints | None,
) -> set[ScopeKey]:
    """Add to the moments of each variant and day of entry the change of its users' totals. Returns the scopes that changed.

    cohort_of: the number of each row's cohort, -1 for other rows. before, after: totals by row, shape (rows, totals_width). covariates: the
    columns by row; None: no row has any.
    """
    sets: dict[tuple[ArmSet, tuple[Entry, ...]], int] = {}
    members: list[list[int]] = []
    numbers: dict[tuple[VariantTarget, Entry], int] = {}
    set_of, has_covariates = [0] * len(cohorts), [False] * len(cohorts)
    day_at = {arrival: entry_of(arrival).in_blocks(24) for arrival in {arrival for cohort in cohorts for arrival in cohort.arrivals}}
    for number, cohort in enumerate(cohorts):
        of_set, days = targets.targets_of(cohort.arms), tuple([day_at[arrival] for arrival in cohort.arrivals])
        has_covariates[number] = of_set[0].run.earlier is not None
        set_of[number] = sets.setdefault((cohort.arms, days), len(sets))
        if set_of[number] == len(members):
            day_of = dict(zip(cohort.arms.runs, days, strict=True))
            members.append([numbers.setdefault((target, day_of[target.key[0]]), len(numbers)) for target in of_set])
    for with_covariates in (False, True):
        wanted = np.array([*(of_cohort is with_covariates for of_cohort in has_covariates), False])  # the last one is for other rows
        part = np.flatnonzero(wanted[cohort_of])
        if len(part):
            measures, of_rows = layout.measures_of(with_covariates), np.array(set_of, dtype=np.int64)[cohort_of[part]]
            extra = covariates[part] if with_covariates and covariates is not None else None
            changes = moment_changes(measures, before[part], after[part], of_rows, members, len(numbers), extra)
            for (target, day), number in numbers.items():
                if (target.run.earlier is not None) == with_covariates and any(changes[number]):
                    target.scope.add_moments(target.variant, day, changes[number])
    return {target.key for target, _ in numbers}


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


class VariantPairs:
    """What two variants have in common: the changes of cross moments for the users of one batch with lists in both.

    When a user's totals in a variant change, so do the products with their totals in each other variant of the same scope. The change is
    the difference between the products after the batch and before it, so the order of users and commits cannot matter.

    A user who is in many experiments has the same totals in most of them. So the products are those of two sets of arms. They are
    computed once, and then added for every scope that both sets have.

    before, after: the totals of all rows of the batch, shape (rows, totals_width).
    """

    def __init__(self, targets: ListTargets, layout: CovarianceLayout, before: Ints, after: Ints) -> None:
        self._targets, self._layout, self._before, self._after = targets, layout, before, after
        self._numbers: dict[tuple[VariantTarget, VariantTarget], int] = {}
        """Pairs of variants. Two may be a pair in both orders."""
        self._members: list[list[int]] = []
        """Sets of pairs, by their numbers."""
        self._of_sets: dict[tuple[ArmSet, ArmSet], int | None] = {}
        """For two sets of arms, their set of pairs. None: they have no scope in common."""
        self._stored: list[tuple[int, bytes]] = []
        """Totals that do not change, as stored: the number of lists, and packed sums. Their rows follow those of the batch."""
        self._users: tuple[list[int], list[int], list[int]] = [], [], []
        """For each user and two of their sets: the row of one, the row of the other, and the set of pairs."""

    def add_user(self, changed: Sequence[tuple[ArmSet, int]], unchanged: Sequence[tuple[ArmSet, int, bytes]]) -> None:
        """Add a user: the sets whose totals change, with their rows, and all others, with their totals as stored."""
        for (one, row), (other, other_row) in combinations(changed, 2):
            self._add(one, row, other, other_row)
        for other, lists, packed in unchanged:
            still = len(self._before) + len(self._stored)
            paired = [self._add(one, row, other, still) for one, row in changed]
            if any(paired):
                self._stored.append((lists, packed))

    def _add(self, one: ArmSet, row: int, other: ArmSet, other_row: int) -> bool:
        """Add the products of two sets of a user. Returns whether they have scopes in common."""
        key = one, other
        if key not in self._of_sets:
            self._of_sets[key] = self._pairs_of(one, other)
        number = self._of_sets[key]
        if number is None:
            return False
        for numbers, value in zip(self._users, (row, other_row, number), strict=True):
            numbers.append(value)
        return True

    def _pairs_of(self, one: ArmSet, other: ArmSet) -> int | None:
        shared, numbers = one.scopes & other.scopes, self._numbers
        if not shared:
            return None
        ours, theirs = ({target.key: target for target in self._targets.targets_of(arms)} for arms in (one, other))
        self._members.append([numbers.setdefault((ours[scope], theirs[scope]), len(numbers)) for scope in sorted(shared)])
        return len(self._members) - 1

    def sum(self) -> set[ScopeKey]:
        """Update the pairs of scopes, and return the keys of those that changed."""
        ones, others, sets = (np.array(column, dtype=np.int64) for column in self._users)
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
            counted = np.flatnonzero(still[:, 0])
            if len(counted):
                still[counted, 1:] = unpack_sums([self._stored[at][1] for at in counted.tolist()], width - 1)
        return np.concatenate([self._before, still]), np.concatenate([self._after, still])


def _add_to_scope(layout: CovarianceLayout, one: VariantTarget, other: VariantTarget, change: list[int]) -> ScopeKey:
    """Add the change of the cross moments of two variants, in order, and return the key of their scope."""
    names = one.variant, other.variant
    if one.variant > other.variant:
        names, change = (other.variant, one.variant), layout.swapped(change)
    pairs = one.scope.pairs
    pairs[names] = add(pairs[names], change) if names in pairs else change
    return one.key
