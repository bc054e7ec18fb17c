"""Changed totals of users -> changed moments of their variants: all scopes and experiments of a batch in one computation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from streammetrics.enrolment.packed_sums import unpack_sums
from streammetrics.enrolment.records import ScopeKey, ScopeSet, StoredEarlier
from streammetrics.enrolment.rows import UserTotalsLayout
from streammetrics.enrolment.targets import ExposureTargets, VariantTarget
from streammetrics.experiments.incremental_moments import moment_changes
from streammetrics.experiments.moments import add, zero
from streammetrics.metrics.arrays import Ints


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
