"""Variance reduction by what users did before the experiment (CUPED: Deng, Xu, Kohavi, Walker 2013). Moments in, estimates out.

A user's covariate x is his mean before he first met the experiment, which no variant can have changed; a user without earlier
lists gets the mean of the others, so he neither helps nor harms. With z = x - mean of x, zbar a variant's average of z over its users, and
theta the slope that minimises the variance over all variants together,

    adjusted mean = mean - theta zbar
    V = V(mean) - 2 theta Cov(mean, zbar) + theta**2 V(zbar)

zbar is expected to be 0 in every variant, so the adjusted mean estimates the same number with less noise; how much less is
published. The covariances are clustered by user as everything here is. All sums are exact integers until the last division.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from streammetrics.experiments.estimates import Estimate, estimate
from streammetrics.experiments.measures import COVARIATE_BITS, Measure, Measures


@dataclass(frozen=True, slots=True)
class Reduced:
    """A variant's estimate with and without the earlier lists. `share` of the variance was removed; never below 0 by more than noise."""

    plain: Estimate
    adjusted: Estimate
    users_with_earlier: int

    @property
    def share(self) -> float:
        return 1 - self.adjusted.variance / self.plain.variance if 0 < self.plain.variance < math.inf else 0.0


@dataclass(frozen=True, slots=True)
class _Spread:
    """Of one variant: the average of z, its variance, and its covariance with the mean."""

    average: float
    variance: float
    covariance: float


def reduce_variances(measures: Measures, measure: Measure, variants: Mapping[str, Sequence[int]]) -> dict[str, Reduced]:
    """Each variant's estimate, adjusted by one slope for all of them. Variants without a denominator are left out.

    variants: moments by variant, of a layout with covariates (ExperimentError otherwise). Variants of fewer than two users are
    neither adjusted nor used for the slope; where nothing can be learnt (nobody has earlier lists), adjusted equals plain.
    """
    at = measures.covariate_places(measure)
    plain = {variant: found for variant, moments in variants.items() if (found := estimate(measures, measure, moments)) is not None}
    holders = sum(variants[variant][at.h] for variant in plain)
    centre = Fraction(sum(variants[variant][at.x] for variant in plain), holders) if holders else Fraction(0)
    spreads = {variant: _spread(measures, measure, variants[variant], centre) for variant, each in plain.items() if each.users > 1}
    variance = math.fsum(each.variance for each in spreads.values())
    slope = math.fsum(each.covariance for each in spreads.values()) / variance if variance else 0.0
    return {
        variant: Reduced(each, _adjusted(each, spreads.get(variant), slope), variants[variant][at.h]) for variant, each in plain.items()
    }


def _adjusted(plain: Estimate, spread: _Spread | None, slope: float) -> Estimate:
    if spread is None or slope == 0.0:
        return plain
    variance = plain.variance - 2 * slope * spread.covariance + slope * slope * spread.variance
    return Estimate(plain.mean - slope * spread.average, max(variance, 0.0), plain.users)


def _spread(measures: Measures, measure: Measure, moments: Sequence[int], centre: Fraction) -> _Spread:
    at, covariate = measures.places(measure), measures.covariate_places(measure)
    users, y, d = moments[at.users], moments[at.y], moments[at.d]
    h, x, xx = moments[covariate.h], moments[covariate.x], moments[covariate.xx]
    # SumsArray over all users of z, z**2 and (y - m d) z, where z is x - centre for users who have x and 0 for the others.
    z = x - centre * h
    zz = xx - 2 * centre * x + centre * centre * h
    mean = Fraction(y, d)
    residual_z = moments[covariate.xy] - mean * moments[covariate.xd] - centre * (moments[covariate.hy] - mean * moments[covariate.hd])
    one = 1 << COVARIATE_BITS
    return _Spread(
        average=float(z / (users * one)),
        variance=float((zz - z * z / users) / (users * (users - 1) * one * one)),
        covariance=float(residual_z / (d * (users - 1) * (one << measure.scale_bits))),
    )
