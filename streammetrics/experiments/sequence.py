"""The boundary that stays valid however often one looks: a normal mixture in information time. Numbers in, numbers out.

An estimate D of an effect d with variance V carries the information 1/V. If (D - d)/V moves like a Brownian motion in that time,
which is what a central limit theorem for the whole path says (Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas 2024, "Time-uniform
central limit theory and asymptotic confidence sequences"), then mixing the likelihood ratios of all effects over N(d, tau**2) gives a
martingale that starts at 1, and Ville's inequality bounds the chance that it *ever* reaches 1/alpha by alpha (Robbins 1970,
"Statistical methods related to the law of the iterated logarithm"). Solved for D, with x = V / tau**2:

    |D - d| / sqrt(V) <= sqrt((1 + x) * (2 ln(1/alpha) + ln(1 + 1/x)))      at all times, with probability >= 1 - alpha

For alarms only one direction counts, so the mixture runs over positive effects only (a half-normal law; Howard, Ramdas,
McAuliffe, Sekhon 2021, "Time-uniform, nonparametric, nonasymptotic confidence sequences"). With Phi the normal distribution
function and w = z / sqrt(1 + x), its boundary z solves

    w**2 / 2 + ln Phi(w) = ln(1/alpha) - ln 2 + ln(1 + 1/x) / 2

Any tau is valid that does not look at the difference it judges; the boundary is tightest when V is about tau**2 / 8.
"""

from __future__ import annotations

import math

from streammetrics.experiments.measures import ExperimentError


def two_sided(ratio: float, alpha: float) -> float:
    """Standard errors that an estimate may stray to either side, at all times together: the half width / sqrt(V).

    ratio: V / tau**2, above 0. alpha: the error that is allowed, between 0 and 1. ExperimentError otherwise.

    >>> round(two_sided(1 / 8, 0.05), 4), round(two_sided(1 / 1000, 0.05), 4)
    (3.0352, 3.5935)
    """
    _check(ratio, alpha)
    return math.sqrt((1 + ratio) * (-2 * math.log(alpha) + math.log1p(1 / ratio)))


def one_sided(ratio: float, alpha: float) -> float:
    """Standard errors that an estimate may stray to one side, at all times together. Arguments as in `two_sided`.

    The equation is convex and rises where the search starts, so Newton's steps come down to the root and stop there.

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
    """The two-sided p-value at one look of an estimate z standard errors from the hypothesis; valid at every look.

    The hypothesis is outside the interval at level alpha exactly when this is below alpha.

    >>> round(p_value(two_sided(0.2, 0.01), 0.2), 12)
    0.01
    """
    _check(ratio, 0.5)
    return math.exp(min(0.0, math.log1p(1 / ratio) / 2 - z * z / (2 * (1 + ratio))))


def _check(ratio: float, alpha: float) -> None:
    if not 0 < ratio < math.inf:
        raise ExperimentError("V / tau**2", f"got {ratio!r}; allowed are finite numbers above 0")
    if not 0 < alpha < 1:
        raise ExperimentError("alpha", f"got {alpha!r}; allowed are numbers between 0 and 1")
