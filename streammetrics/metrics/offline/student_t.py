"""Student's t distribution: tail probabilities and quantiles, so that scipy is not needed.

The tail probability is the regularised incomplete beta function I_x(df/2, 1/2) at x = df / (df + t**2) (DLMF 8.17). It is computed
with the continued fraction of Didonato and Morris (1992, ACM TOMS 18, 360-373), on the side of the mean where it converges
quickly. Its factor has a ratio of two gamma functions. For many degrees of freedom the ratio comes from a series, because the
difference of two large logarithms would lose digits.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Final

from streammetrics.metrics.names import MetricError

_TINY: Final = 1e-300
_PRECISION: Final = 1e-16
_TURNS_MAX: Final = 100_000
_SERIES_FROM: Final = 50.0


def two_sided_p_value(t: float, df: float) -> float:
    """P(|T| >= |t|) for Student's t with `df` degrees of freedom. NaN stays NaN.

    The relative error is at most 1e-12, also far out in the tail. Raises MetricError for df <= 0.

    >>> round(two_sided_p_value(2.0, 10), 12)
    0.073388034771
    >>> two_sided_p_value(0.0, 3), two_sided_p_value(float("inf"), 3)
    (1.0, 0.0)
    """
    if not df > 0:
        raise MetricError("degrees of freedom", f"got {df!r}; allowed are numbers > 0")
    if math.isnan(t):
        return math.nan
    square = t * t
    if square == 0 or math.isinf(square):
        return float(square == 0)
    a, x, rest = df / 2, df / (df + square), square / (df + square)
    front = math.exp(-a * math.log1p(square / df)) * math.sqrt(rest) * _gamma_ratio(a) / math.sqrt(math.pi)
    if a * rest >= 0.5 * x:
        return min(1.0, front / _fraction(a, 0.5, x, rest))
    return max(0.0, 1.0 - front / _fraction(0.5, a, rest, x))


def critical_value(level: float, df: float) -> float:
    """The t with P(|T| >= t) = 1 - level. Raises MetricError unless 0 < level < 1 and df > 0.

    Newton's method from below: the tail is convex there, so the steps never overshoot. It starts at the normal quantile, which is
    never above Student's.

    >>> round(critical_value(0.95, 10), 9)
    2.228138852
    """
    if not 0 < level < 1:
        raise MetricError("confidence level", f"got {level!r}; allowed are 0 < level < 1")
    alpha = 1 - level
    t = -NormalDist().inv_cdf(alpha / 2) * (1 - 1e-9)
    for _ in range(200):
        step = (two_sided_p_value(t, df) - alpha) / (2 * _density(t, df))
        t += step
        if abs(step) <= 1e-15 * t:
            break
    return t


def _density(t: float, df: float) -> float:
    return math.exp(-(df + 1) / 2 * math.log1p(t * t / df)) * _gamma_ratio(df / 2) / math.sqrt(math.pi * df)


def _gamma_ratio(a: float) -> float:
    """gamma(a + 1/2) / gamma(a); for large `a` by the series in 1/a (DLMF 5.11.13)."""
    if a < _SERIES_FROM:
        return math.exp(math.lgamma(a + 0.5) - math.lgamma(a))
    z = 1 / a
    return math.sqrt(a) * (1 + z * (-1 / 8 + z * (1 / 128 + z * (5 / 1024 + z * (-21 / 32768 + z * (-399 / 262144))))))


def _fraction(a: float, b: float, x: float, rest: float) -> float:
    """The continued fraction f in I_x(a, b) = x**a * rest**b / (B(a, b) * f), by Lentz's method. Needs a * rest >= b * x.

    rest = 1 - x is an argument, because computing it here would lose digits.
    """
    total = c = _turn(a, b, x, rest, 0)[1]
    d = 0.0
    for m in range(1, _TURNS_MAX):
        numerator, denominator = _turn(a, b, x, rest, m)
        d = 1 / _not_zero(denominator + numerator * d)
        c = _not_zero(denominator + numerator / c)
        change = c * d
        total *= change
        if abs(change - 1) <= _PRECISION:
            break
    return total


def _turn(a: float, b: float, x: float, rest: float, m: int) -> tuple[float, float]:
    """The m-th partial numerator and denominator."""
    middle = a + 2 * m
    numerator = (a + m - 1) * (a + b + m - 1) * m * (b - m) * (x / (middle - 1)) ** 2 if m else 0.0
    denominator = (a + m) * (a * rest - b * x + 1 + m * (1 + rest)) / (middle + 1)
    return numerator, denominator + (m + m * (b - m) * x / (middle - 1) if m else 0.0)


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
