"""The estimate of two arms over their cells: means, variances by user, effective users. PairCells and moments in, estimates out. Pure.

With the parts a and the weight W of `cells`, the means are M = sum of a Y / W. For each arm g and each day k on which its users came,

    U_gk = K / (K - 1) * sum over these users of (y - m d)**2      with m = sum y / sum d of these users
    A_gk = sum of a**2 D over their lists
    V_g  = sum over days of (U_gk / D_gk) A_gk / W**2              with D_gk = all their lists

It is the usual clustered variance, times the mean squared part of a list. If lists of a user are independent, or if the share of the arm
is constant, it is exact. If a user's lists agree more than chance, it is too large, never too small: with the cross products S_ij >= 0 of
a user's residuals in cells i and j, the sum of a_i a_j S_ij is at most the sum of a_i**2 S_ij. With fewer than `FEW_USERS` users of a day,
m is that of the whole arm, without K / (K - 1).

**Small arms.** An arm with few users that is low by chance has a small variance, too, so a drop would seem certain too early. So V of the
arm with fewer users is at least what it is with U / D of both arms together on each day.

**Users in both arms**, with m of the whole arms: C = sum of (y_t - m_t d_t)(y_c - m_c d_c) / (D_t D_c).

A user who has been there for more than 8 days is in cells of a block of 8 days. A of such a cell is shared out by the lists of its days.

**CUPED** reduces the variance with users' lists before the experiment (Deng, Xu, Kohavi, Walker 2013).
A user's covariate x is their mean before the experiment, which no variant can have changed. It is one more value of each of their lists:
x d. A user without earlier lists gets the mean c of the others. So let z be x d - c d of a user with earlier lists, and 0 of the others. In
each cell the arms are exchangeable in z as they are in y, so its difference has the mean 0, and

    adjusted difference = difference of y - theta * difference of z

estimates the same number with less noise. Its variance is that of y - theta z, in the same cells. theta is the slope with the smallest
variance over both arms. c is chosen so that the means of z in both arms add up to 0, which leaves the level of the means.

The covariance of users with lists in both arms is left out. It is above 0 if a user's lists agree, so the variance is too large then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.cells import HourSpan, PairCells, list_cells, user_cells
from streammetrics.experiments.hours import Entry, EntrySums
from streammetrics.experiments.policy import Policy
from streammetrics.experiments.stored import StoredSums
from streammetrics.statistics.estimates import Estimate, largest_user_share_max
from streammetrics.statistics.measures import LISTS, CovariateColumns, Measure, Measures
from streammetrics.statistics.moments import CovarianceLayout
from streammetrics.words.sentences import named, say

FEW_USERS: Final = 10
"""Users of one day with a mean of their own."""


class PairEstimate(NamedTuple):
    """A treatment and the control over their cells, with all users of each arm.

    covariance: of the two means. effective_users: of the treatment and of the control.
    """

    treatment: Estimate
    control: Estimate
    covariance: float
    effective_users: tuple[float, float]

    @property
    def users(self) -> tuple[int, int]:
        return self.treatment.users, self.control.users

    def unmet_floor(self, policy: Policy, measure: Measure, variant: str, control: str) -> str | None:
        """Say which of a variant and the control has too few effective users; None if neither has."""
        for name, effective, users in zip((variant, control), self.effective_users, self.users, strict=True):
            if effective < policy.effective_users_min:
                share = largest_user_share_max(users, effective)
                return few_effective_users(measure, name, users, effective, policy.effective_users_min, share)
        return None


class UserSums(NamedTuple):
    """Users, and their sums of y, d, yy, dd, yd. y is in units of 2**-scale_bits of the measure."""

    users: int
    y: int | Fraction
    d: int
    yy: int | Fraction
    dd: int
    yd: int | Fraction

    def squares(self, y: int | Fraction, d: int, bits: int) -> float:
        """Return the sum over users of (y - m d)**2 with the mean m = y / d."""
        return float((self.yy * d * d - 2 * y * d * self.yd + y * y * self.dd) / (d * d << 2 * bits))


class Pair:
    """A treatment and the control of one scope.

    by_entry: whether lists of users who came at different times are apart. left_out, since, until: see `cells.list_cells`.
    """

    def __init__(
        self,
        measures: Measures,
        stored: StoredSums,
        treatment: str,
        control: str,
        *,
        by_entry: bool = True,
        left_out: Sequence[HourSpan] = (),
        since: int | None = None,
        until: int | None = None,
    ) -> None:
        self._measures, self._stored, self.arms = measures, stored, (treatment, control)
        self.lists = list_cells(stored.hours, treatment, control, by_entry=by_entry, left_out=left_out, since=since, until=until)
        self._days: Sequence[Mapping[Entry, Sequence[int]]] | None = None

    @cached_property
    def users(self) -> PairCells:
        return user_cells(self._stored.entry_users, *self.arms)

    def combined(self, measure: Measure) -> PairEstimate | None:
        """Return both arms; None if they have no cell in common."""
        cells, top, bottom = self.columns(measure)
        wholes = self.wholes(measure)
        if not cells.parts(bottom).weight or wholes is None:
            return None
        return self.combine(measure, cells.totals(top, bottom), wholes, self.days(measure))

    def combine(
        self, measure: Measure, totals: tuple[float, float], wholes: Sequence[UserSums], days: Sequence[Mapping[Entry, UserSums]]
    ) -> PairEstimate:
        """Return both arms. totals: the sums of a y in units of the measure. wholes, days: the sums of all users, and those of each day."""
        cells, _, bottom = self.columns(measure)
        parts, squared, spreads = cells.parts(bottom), self.squared_parts(measure), spreads_of(measure, wholes, days)
        estimates, effective = [], []
        for at in (0, 1):
            pairs = [(spread, squared[at].get(day, 0.0)) for day, spread in spreads[at].items()]
            variance = max(math.fsum(spread.per_list * a for spread, a in pairs), math.fsum(spread.least * a for spread, a in pairs))
            weights = math.fsum(spread.squared_lists * a for spread, a in pairs)
            mean = totals[at] / parts.weight / 2.0**measure.scale_bits
            estimates.append(Estimate(mean, variance / parts.weight**2, wholes[at].users))
            effective.append(parts.weight**2 / weights if weights else 0.0)
        covariance = self._covariance(measure, wholes, estimates)
        return PairEstimate(estimates[0], estimates[1], covariance, (effective[0], effective[1]))

    def columns(self, measure: Measure) -> tuple[PairCells, int, int]:
        """Return the cells of a measure, and the columns of its numerator and denominator."""
        if measure.kind == "users":
            return self.users, 1 + self._measures.users_column(measure), 0
        return self.lists, measure.top - LISTS, measure.bottom - LISTS

    def squared_parts(self, measure: Measure) -> list[dict[Entry, float]]:
        """Return A by day, for both arms."""
        cells, _, bottom = self.columns(measure)
        parts, days = cells.parts(bottom), self.days(measure)
        return [
            _by_day_of(cells, part * part * sums, {day: users.d for day, users in of_arm.items()})
            for part, sums, of_arm in zip((parts.treatment, parts.control), cells.sums(bottom), days, strict=True)
        ]

    def wholes(self, measure: Measure) -> Sequence[UserSums] | None:
        """Return the sums of all users of both arms; None if one has no users."""
        moments = [self._stored.moments.get(arm) for arm in self.arms]
        return [self._sums(measure, sums) for sums in moments if sums is not None] if all(moments) else None

    def days(self, measure: Measure) -> Sequence[Mapping[Entry, UserSums]]:
        """Return the sums of the users of each day, for both arms."""
        return [{day: self._sums(measure, sums) for day, sums in of_arm.items()} for of_arm in self.day_moments()]

    def day_moments(self) -> Sequence[Mapping[Entry, Sequence[int]]]:
        """Return the moments of the users of each day, for both arms."""
        if self._days is None:
            self._days = [_days(self._stored.entry_moments, arm) for arm in self.arms]
        return self._days

    def _sums(self, measure: Measure, moments: Sequence[int]) -> UserSums:
        at = self._measures.places(measure)
        return UserSums(*(moments[place] for place in (at.users, at.y, at.d, at.yy, at.dd, at.yd)))

    def _covariance(self, measure: Measure, wholes: Sequence[UserSums], estimates: Sequence[Estimate]) -> float:
        one, other = sorted(self.arms)
        shared = self._stored.pairs.get((one, other))
        if shared is None:
            return 0.0
        at = CovarianceLayout(self._measures).places(measure)
        ours, theirs = wholes if self.arms == (one, other) else reversed(wholes)
        y, d, x, e = ours.y, ours.d, theirs.y, theirs.d
        residuals = shared[at.yy] * d * e - x * d * shared[at.yd] - y * e * shared[at.dy] + y * x * shared[at.dd]
        covariance = float(residuals / ((d * e) ** 2 << 2 * measure.scale_bits)) if d and e else 0.0
        bound = math.sqrt(estimates[0].variance * estimates[1].variance)
        return max(-bound, min(bound, covariance))


class Spread(NamedTuple):
    """The users of one day: their squares U per list; in the arm with fewer users, those of both arms; the squared lists per list."""

    per_list: float
    least: float
    squared_lists: float


def spreads_of(measure: Measure, wholes: Sequence[UserSums], days: Sequence[Mapping[Entry, UserSums]]) -> list[dict[Entry, Spread]]:
    """Return the spread of the users of each day, for both arms. wholes, days: as in `Pair.combine`."""
    squares = [_squares(measure, of_arm, whole) for of_arm, whole in zip(days, wholes, strict=True)]
    rows = []
    for at, other in ((0, 1), (1, 0)):
        others = squares[other] if wholes[at].users < wholes[other].users else {}
        spreads = {}
        for day, square in squares[at].items():
            lists = days[at][day].d
            least = (square + others[day]) / (lists + days[other][day].d) if day in others else square / lists
            spreads[day] = Spread(square / lists, least, days[at][day].dd / lists)
        rows.append(spreads)
    return rows


def _squares(measure: Measure, days: Mapping[Entry, UserSums], whole: UserSums) -> dict[Entry, float]:
    """Return U of each day with lists."""
    spreads = {}
    for day, sums in days.items():
        if sums.d > 0:
            few = sums.users < FEW_USERS
            y, d = (whole.y, whole.d) if few else (sums.y, sums.d)
            spreads[day] = sums.squares(y, d, measure.scale_bits) * (1 if few else sums.users / (sums.users - 1))
    return spreads


def _days(moments: EntrySums, arm: str) -> dict[Entry, Sequence[int]]:
    """Return an arm's moments by day."""
    return {day: sums for (variant, day), sums in moments.sums.items() if variant == arm}


def _by_day_of(cells: PairCells, values: npt.NDArray[np.float64], lists: Mapping[Entry, int]) -> dict[Entry, float]:
    """Return the sums of values by the day of their entries. `values` are those of the pieces, and `lists` those of each day.

    A piece of several days is shared out by the lists of these days.
    """
    sums = np.bincount(cells.numbers, weights=values, minlength=len(cells.entries)).tolist()
    shares: dict[Entry, float] = {}
    for entry, total in zip(cells.entries, sums, strict=True):
        for day, share in day_shares(entry, lists):
            shares[day] = shares.get(day, 0.0) + total * share
    return shares


def day_shares(entry: Entry, lists: Mapping[Entry, int]) -> list[tuple[Entry, float]]:
    """Return the days that an entry is of, with the share of its lists that each has. lists: those of the users of each day.

    >>> days = {Entry(24, 0): 5, Entry(24, 1): 15}
    >>> [[(day.block, share) for day, share in day_shares(entry, days)] for entry in (Entry(1, 30), Entry(192, 0))]
    [[(1, 1.0)], [(0, 0.25), (1, 0.75)]]
    """
    length = max((day.hours for day in lists), default=0)
    days = [entry.in_blocks(length)] if entry.hours <= length else [day for day in lists if day.in_blocks(entry.hours) == entry]
    whole = sum(lists.get(day, 0) for day in days)
    return [(day, lists[day] / whole) for day in days] if whole else []


def few_effective_users(measure: Measure, name: str, users: int, effective: float, least: float, share: float) -> str:
    """Say that a few users dominate an arm; `share` is the largest that one user can have."""
    unit = "items" if measure.kind == "ratio" else "lists"
    return say(
        "a few users dominate {name}: its {users:,} users count as {effective:.3g}, at least {least:g} are needed;"
        " one user may have up to {largest:.2g} % of its {unit}",
        name=named(name),
        users=users,
        effective=effective,
        least=least,
        largest=100 * share,
        unit=unit,
    )


@dataclass(frozen=True, slots=True)
class ReducedEstimate:
    """A treatment and the control with the earlier lists. `share` is the share of the difference's variance that is removed.

    users_with_earlier: of both arms.
    """

    adjusted: PairEstimate
    share: float
    users_with_earlier: int


class _Covariates(NamedTuple):
    """Sums over the users of one day: of z, z**2, y z and z d."""

    z: Fraction
    zz: Fraction
    yz: Fraction
    zd: Fraction

    def residuals(self, sums: UserSums) -> tuple[Fraction, Fraction]:
        """Return the sums over users of (y - m d)(z - n d) and of (z - n d)**2, with the means m of y and n of z."""
        m, n = Fraction(sums.y) / sums.d, self.z / sums.d
        return self.yz - m * self.zd - n * sums.yd + m * n * sums.dd, self.zz - 2 * n * self.zd + n * n * sums.dd


def reduce_variance(measures: Measures, measure: Measure, pair: Pair, plain: PairEstimate) -> ReducedEstimate | None:
    """Return a treatment and the control, adjusted by one common slope. None if no user has earlier lists, or z has no variance.

    plain: the same without the earlier lists.
    """
    cells, top, bottom = pair.columns(measure)
    wholes, at = pair.wholes(measure), measures.covariate_places(measure)
    h, x = (cells.totals(column, bottom) for column in measures.covariate_columns_of(measure))
    users = sum(sums[at.users] for days in pair.day_moments() for sums in days.values())
    if wholes is None or not users or not sum(h):
        return None
    centre = Fraction(sum(x) / sum(h))
    days = pair.days(measure)
    covariates = [
        {day: _covariates(at, sums, centre) for day, sums in of_arm.items() if of_day[day].d}
        for of_arm, of_day in zip(pair.day_moments(), days, strict=True)
    ]
    slope = _slope(pair, measure, days, covariates)
    if not slope:
        return None
    adjusted_days = [
        {day: _adjusted(sums, covariates[arm].get(day), slope) for day, sums in of_arm.items()} for arm, of_arm in enumerate(days)
    ]
    totals = tuple(
        total - float(slope) * (of_x - float(centre) * of_h) for total, of_x, of_h in zip(cells.totals(top, bottom), x, h, strict=True)
    )
    of_arms = [_whole(sums, of_arm) for sums, of_arm in zip(wholes, adjusted_days, strict=True)]
    adjusted = pair.combine(measure, (totals[0], totals[1]), of_arms, adjusted_days)._replace(covariance=0.0)
    before, after = (combined.treatment.variance + combined.control.variance - 2 * combined.covariance for combined in (plain, adjusted))
    return ReducedEstimate(adjusted, 1 - after / before if 0 < before < math.inf else 0.0, users)


def _covariates(at: CovariateColumns, moments: Sequence[int], centre: Fraction) -> _Covariates:
    return _Covariates(
        z=moments[at.x] - centre * moments[at.h],
        zz=moments[at.xx] - 2 * centre * moments[at.hx] + centre * centre * moments[at.hh],
        yz=moments[at.xy] - centre * moments[at.hy],
        zd=moments[at.xd] - centre * moments[at.hd],
    )


def _slope(
    pair: Pair, measure: Measure, days: Sequence[Mapping[Entry, UserSums]], covariates: Sequence[Mapping[Entry, _Covariates]]
) -> Fraction:
    """Return theta in units of y per unit of z; 0 if z has no variance."""
    shared = squares = Fraction(0)
    for of_arm, of_covariates, parts in zip(days, covariates, pair.squared_parts(measure), strict=True):
        for day, of_day in of_covariates.items():
            yz, zz = of_day.residuals(of_arm[day])
            weight = Fraction(parts.get(day, 0.0)) / of_arm[day].d
            shared, squares = shared + weight * yz, squares + weight * zz
    return Fraction(float(shared / squares)) if squares else Fraction(0)


def _adjusted(sums: UserSums, covariates: _Covariates | None, slope: Fraction) -> UserSums:
    """Return the sums of y - theta z in place of y."""
    if covariates is None:
        return sums
    return sums._replace(
        y=sums.y - slope * covariates.z,
        yy=sums.yy - 2 * slope * covariates.yz + slope * slope * covariates.zz,
        yd=sums.yd - slope * covariates.zd,
    )


def _whole(sums: UserSums, days: Mapping[Entry, UserSums]) -> UserSums:
    return sums._replace(y=sum((day.y for day in days.values()), Fraction(0)))


class RunPart(NamedTuple):
    """The lists of some days in the run: from the first hour on (since the epoch), and before the end.

    weight: that of the cells. sizes: the lists (or items) of the treatment and the control. effective_users: of both. The estimates do not
    count users.
    """

    first: int
    end: int
    weight: float
    sizes: tuple[float, float]
    treatment: Estimate
    control: Estimate
    effective_users: tuple[float, float]

    @property
    def ratio(self) -> float | None:
        """The mean of the treatment over that of the control; None if that is 0."""
        return self.treatment.mean / self.control.mean if self.control.mean > 0 else None


class ChangedEffect(NamedTuple):
    """A certain change: the lists before a midnight, those since, and both lifts."""

    before: RunPart
    since: RunPart
    lift_before: float
    lift_since: float
