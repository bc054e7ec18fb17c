"""Variance reduction with users' lists before the experiment (CUPED: Deng, Xu, Kohavi, Walker 2013). Cells and moments in, estimates out.

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
from typing import NamedTuple

from streammetrics.experiments.cell_estimates import Combined, Pair, UserSums
from streammetrics.experiments.hours import Entry
from streammetrics.statistics.measures import CovariatePlaces, Measure, Measures


@dataclass(frozen=True, slots=True)
class Reduced:
    """A treatment and the control with the earlier lists. `share` is the share of the difference's variance that is removed.

    users_with_earlier: of both arms.
    """

    adjusted: Combined
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


def reduce_variance(measures: Measures, measure: Measure, pair: Pair, plain: Combined) -> Reduced | None:
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
    return Reduced(adjusted, 1 - after / before if 0 < before < math.inf else 0.0, users)


def _covariates(at: CovariatePlaces, moments: Sequence[int], centre: Fraction) -> _Covariates:
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
