"""What one batch adds to the rows of hours, and to the users of entries: lists and their sums, new users, and users with a hit. Pure.

All lists of a user in one hour are a stretch. Its sums are a difference of two running sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from streammetrics.enrolment.records import ArmSet, Cohort, RunArm, ScopeKey
from streammetrics.enrolment.scopes import WHOLE
from streammetrics.enrolment.targets import ListTargets, VariantTarget
from streammetrics.events.model import Labels
from streammetrics.experiments.hours import Arrival, entry_of, hour_of
from streammetrics.metrics.arrays import Ints
from streammetrics.statistics.moments import TOTAL_MAX
from streammetrics.words.times import HOUR_MS

_HOURS_OF_DAY: Final = 24


class HourCounts:
    """The lists and new users of one batch. `times` are those of its lists."""

    def __init__(self, targets: ListTargets, times: Sequence[int]) -> None:
        self._targets, self._times = targets, times
        self._numbers: dict[tuple[int, int], int] = {}
        """Stretches that are added to the same rows: the cohort, and the hour."""
        self._stretches: list[tuple[int, int, int, int]] = []
        """The number above, the first list, the last one + 1, and the row of the user."""
        self._newcomers: Counter[tuple[ArmSet, int, Labels]] = Counter()
        """New users by arms whose scopes have no other list of them, hour and segments."""
        self._arrivals: Counter[tuple[RunArm, int, Labels]] = Counter()
        """New users of scopes, if they were not new in all scopes of a set."""
        self._moves: Counter[tuple[str, RunArm, int]] = Counter()
        """Users by the variant that they had alone until then, another arm of the scope, and hour."""

    def add_lists(self, cohort: int, first: int, end: int, row: int) -> None:
        """Add lists of a user to the rows of their hours."""
        times = self._times
        while first < end:
            hour = times[first] // HOUR_MS
            stop = first + 1
            while stop < end and times[stop] // HOUR_MS == hour:
                stop += 1
            number = self._numbers.setdefault((cohort, hour), len(self._numbers))
            self._stretches.append((number, first, stop, row))
            first = stop

    def add_newcomer(self, arms: ArmSet, others: Iterable[ArmSet], ts: int, segments: Labels) -> None:
        """Count a user who has the first list in some arms. `others`: the sets of the user until then."""
        variants: dict[ScopeKey, list[str]] = {}
        for other in others:
            if not other.scopes.isdisjoint(arms.scopes):
                for run, day, variant in other.arms:
                    variants.setdefault((run, day), []).append(variant)
        if not variants:
            self._newcomers[arms, ts // HOUR_MS, segments] += 1
            return
        for arm in arms.arms:
            had = variants.get(arm[:2], [])
            if not had:
                self._arrivals[arm, ts // HOUR_MS, segments] += 1
            elif len(had) == 1 and arm[1] == WHOLE:
                self._moves[had[0], arm, ts // HOUR_MS] += 1

    def add(self, cohorts: Sequence[Cohort], sums: Ints, covariates: Ints | None, covariate_bottoms: Sequence[int] | None) -> None:
        """Add everything to the scopes.

        cohorts: those of the batch, by number. sums: running sums of the columns over all lists, shape (lists + 1, columns). covariates:
        (h, x) for each measure, by row; None: no row has any. covariate_bottoms: by measure, the index of its denominator in
        (lists, *columns); None: no run has covariates.
        """
        if self._stretches:
            numbers, firsts, ends, rows = (np.array(column, dtype=np.int64) for column in zip(*self._stretches, strict=True))
            values = np.concatenate([(ends - firsts)[:, None], sums.take(ends, axis=0) - sums.take(firsts, axis=0)], axis=1)
            plain = _grouped(values, numbers, len(self._numbers))
            self._add_totals(cohorts, plain, has_covariates=False)
            if covariate_bottoms is not None:
                if covariates is None:
                    wide = np.pad(plain, ((0, 0), (0, 2 * len(covariate_bottoms))))
                else:
                    wide = _grouped(_with_covariates(values, covariates[rows], covariate_bottoms), numbers, len(self._numbers))
                self._add_totals(cohorts, wide, has_covariates=True)
        self._add_users()

    def _add_totals(self, cohorts: Sequence[Cohort], sums: Ints, *, has_covariates: bool) -> None:
        """Add the sums of stretches to the variants of runs with covariates, or of those without."""
        numbers: dict[tuple[VariantTarget, Arrival, int], int] = {}
        members = []
        for number, hour in self._numbers:
            came = cohorts[number].came
            members.append(
                [
                    numbers.setdefault((target, came[target.key[0]], hour), len(numbers))
                    for target in self._targets.targets_of(cohorts[number].arms)
                    if (target.run.earlier is not None) is has_covariates
                ]
            )
        for (target, arrival, hour), more in zip(numbers, spread(sums, members, len(numbers)), strict=True):
            hours = target.scope.hours
            target.scope.row_of(hour).add_totals(target.variant, hours.entry_of(arrival, hour), more)

    def _add_users(self) -> None:
        for (arms, hour, segments), users in self._newcomers.items():
            for target in self._targets.targets_of(arms):
                self._add_new(target, hour, segments, users)
        for (arm, hour, segments), users in self._arrivals.items():
            self._add_new(self._target(arm), hour, segments, users)
        for (before, arm, hour), users in self._moves.items():
            target = self._target(arm)
            moves = target.scope.row_of(hour).moves
            moves[before, target.variant] = moves.get((before, target.variant), 0) + users

    def _add_new(self, target: VariantTarget, hour: int, segments: Labels, users: int) -> None:
        row = target.scope.row_of(hour)
        row.new_users[target.variant] = row.new_users.get(target.variant, 0) + users
        if target.key[1] == WHOLE:
            stratum = self._targets.rules.stratum(target.run.experiment, segments)
            for segment, value in (("", ""), *segments) if stratum else segments:
                row.add_value((segment, value, stratum), target.variant, users)

    def _target(self, arm: RunArm) -> VariantTarget:
        number, day, variant = arm
        return self._targets.variant(self._targets.runs.of_number[number], day, variant)


def add_entry_users(targets: ListTargets, changes: Iterable[tuple[Cohort, Sequence[int]]]) -> None:
    """Add users to their entries: new ones, and those with a first hit, by cohort."""
    for cohort, more in changes:
        came = cohort.came
        for target in targets.targets_of(cohort.arms):
            day, arrival = target.key[1], came[target.key[0]]
            hour = None if day == WHOLE else max(hour_of(arrival), day * _HOURS_OF_DAY)
            target.scope.users.add(target.variant, entry_of(arrival, hour), more)


def _with_covariates(values: Ints, covariates: Ints, bottoms: Sequence[int]) -> Ints:
    """Return the columns of stretches with those of covariates: h d and x d of each measure."""
    products = [covariates[:, 2 * at + part] * values[:, bottom] for at, bottom in enumerate(bottoms) for part in (0, 1)]
    return np.concatenate([values, np.stack(products, axis=1)], axis=1)


def spread(rows: Ints, members: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Return the sum of each member: each row is added to all of its members, numbers from 0 to `count` - 1. The sums are exact.

    >>> spread(np.array([[1, 10], [2, 20]]), [[0, 2], [2]], 3)
    [[1, 10], [0, 0], [3, 30]]
    """
    of_rows = np.repeat(rows, [len(of_row) for of_row in members], axis=0)
    sums: list[list[int]] = _grouped(of_rows, np.array([*chain.from_iterable(members)], dtype=np.int64), count).tolist()
    return sums


def _grouped(values: Ints, numbers: Ints, count: int) -> Ints:
    """Return the sums of rows with the same number. They are exact: Python integers, if they might not fit int64."""
    if len(values) and int(np.abs(values).max()) * int(np.bincount(numbers).max()) >= TOTAL_MAX:
        values = values.astype(object)
    sums = np.zeros((count, values.shape[1]), dtype=values.dtype)
    np.add.at(sums, numbers, values)
    return sums
