"""A boundary that is valid at all looks together: a normal mixture in information time. Numbers in, numbers out.

An estimate D of an effect d with variance V carries the information 1/V. By a central limit theorem for whole paths, (D - d)/V moves
like a Brownian motion in that time (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2024, "Time-uniform central limit theory and
asymptotic confidence sequences"). The likelihood ratio, mixed over effects from N(d, tau**2), is then a martingale that starts at 1.
By Ville's inequality the probability that it *ever* reaches 1/alpha is at most alpha (Robbins 1970, "Statistical methods related to
the law of the iterated logarithm"). Solved for D, with x = V / tau**2:

    |D - d| / sqrt(V) <= sqrt((1 + x) * (2 ln(1/alpha) + ln(1 + 1/x)))      at all times, with probability >= 1 - alpha

Alarms are one-sided: the mixture has positive effects only (half-normal; Howard, Ramdas, McAuliffe, Sekhon 2021, "Time-uniform,
nonparametric, nonasymptotic confidence sequences"). With Phi the normal distribution function and w = z / sqrt(1 + x), its boundary
z solves

    w**2 / 2 + ln Phi(w) = ln(1/alpha) - ln 2 + ln(1 + 1/x) / 2

Any tau is valid that does not depend on the difference. The boundary is tightest when V is about tau**2 / 8.
"""

from __future__ import annotations

import math

from streammetrics.experiments.measures import ExperimentError


def two_sided(ratio: float, alpha: float) -> float:
    """Return the two-sided boundary in standard errors: half the interval's width / sqrt(V), valid at all looks together.

    ratio: V / tau**2, above 0. alpha: the error, between 0 and 1. Raises ExperimentError otherwise.

    >>> round(two_sided(1 / 8, 0.05), 4), round(two_sided(1 / 1000, 0.05), 4)
    (3.0352, 3.5935)
    """
    _check(ratio, alpha)
    return math.sqrt((1 + ratio) * (-2 * math.log(alpha) + math.log1p(1 / ratio)))


def one_sided(ratio: float, alpha: float) -> float:
    """Return the one-sided boundary in standard errors, valid at all looks together. Arguments are those of `two_sided`.

    The equation is convex and increasing where the search starts, so Newton's method converges from above.

    >>> round(one_sided(1 / 8, 0.05), 4) < round(two_sided(1 / 8, 0.05), 4)
    True
    >>> round(one_sided(1 / 8, 0.05), 4)
    2.7682
    """
    _check(ratio, alpha)
    level = -math.log(alpha) - math.log(2) + math.log1p(1 / ratio) / 2
    w = math.sqrt(2 * (level + math.log(2)))
    for _ in range(100):
        below = math.erfc(w / math.sqrt(2)) / 2
        slope = w + math.exp(-w * w / 2) / math.sqrt(2 * math.pi) / (1 - below)
        step = (w * w / 2 + math.log1p(-below) - level) / slope
        w -= step
        if abs(step) <= 1e-15 * w:
            break
    return math.sqrt(1 + ratio) * w


def p_value(z: float, ratio: float) -> float:
    """Return the two-sided p-value of an estimate z standard errors from the hypothesis; valid at every look.

    It is below alpha exactly when the hypothesis is outside the interval of error alpha.

    >>> round(p_value(two_sided(0.2, 0.01), 0.2), 12)
    0.01
    """
    _check(ratio, 0.5)
    return math.exp(min(0.0, math.log1p(1 / ratio) / 2 - z * z / (2 * (1 + ratio))))


def _check(ratio: float, alpha: float) -> None:
    if not 0 < ratio < math.inf:
        raise ExperimentError("V / tau**2", f"got {ratio!r}; must be finite and above 0")
    if not 0 < alpha < 1:
        raise ExperimentError("alpha", f"got {alpha!r}; must be between 0 and 1")
