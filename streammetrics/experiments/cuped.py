"""Variance reduction with users' lists before the experiment (CUPED: Deng, Xu, Kohavi, Walker 2013). Moments in, estimates out.

A user's covariate x is their mean before the experiment, which no variant can have changed. A user without earlier lists gets the
mean of the others. Let z = x - mean of x, zbar the average of z over a variant's users, and theta the slope with the smallest
variance over all variants together. Then

    adjusted mean = mean - theta zbar
    V = V(mean) - 2 theta Cov(mean, zbar) + theta**2 V(zbar)

The expected value of zbar is 0 in every variant, so the adjusted mean estimates the same number with less noise. Covariances are
clustered by user. All sums are exact integers until the last division.
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
    """A variant's estimate without (`plain`) and with (`adjusted`) the earlier lists. `share` is the share of variance removed."""

    plain: Estimate
    adjusted: Estimate
    users_with_earlier: int

    @property
    def share(self) -> float:
        return 1 - self.adjusted.variance / self.plain.variance if 0 < self.plain.variance < math.inf else 0.0


@dataclass(frozen=True, slots=True)
class _Spread:
    """One variant's average of z, its variance, and its covariance with the mean."""

    average: float
    variance: float
    covariance: float


def reduce_variances(measures: Measures, measure: Measure, variants: Mapping[str, Sequence[int]]) -> dict[str, Reduced]:
    """Return each variant's estimate, adjusted by one common slope. Variants without a denominator are left out.

    variants: moments by variant, in a layout with covariates (otherwise ExperimentError). A variant with fewer than two users is
    not adjusted and does not count for the slope. If no user has earlier lists, adjusted equals plain.
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
    # Sums over all users of z, z**2 and (y - m d) z. z is x - centre for users that have x, and 0 for the others.
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
