"""Two arms in which all users have the same value: all 1 in one, all 0 in the other. Counts in, evidence out. Pure.

The clustered variance is 0 then, so no standard error compares them. But a user is a coin: with K_1 users of the one arm and K_0 of the
other, and p_1 and p_0 their chances of a 1, the likelihood is p_1**K_1 (1 - p_0)**K_0. Against "p_1 <= r p_0" or "p_1 <= p_0 + b"

    E = KT(K_1) KT(K_0) / max of the likelihood,    KT(K) = Gamma(K + 1/2) / (sqrt(pi) Gamma(K + 1))

is an e-value at all looks: KT is the mean likelihood over all chances, with the prior Beta(1/2, 1/2) (Krichevsky, Trofimov 1981), and the
true chances are within the maximum (universal inference; Wasserman, Ramdas, Balakrishnan 2020).
"""

from __future__ import annotations

import math
from typing import Final

from streammetrics.experiments.estimates import Estimate, variance_of
from streammetrics.experiments.measures import Measure

_STEPS: Final = 60
"""Halvings of the interval in which a bound is sought."""


def is_all_or_nothing(measure: Measure, treatment: Estimate, control: Estimate, covariance: float = 0.0) -> bool:
    """Whether all users of one arm have the value 1 of a share or a normalised measure, and all of the other have 0."""
    spread = variance_of(treatment, control, covariance) is not None or math.isinf(treatment.variance + control.variance)
    return measure.ceiling == 1 and not spread and {treatment.mean, control.mean} == {0.0, 1.0}


def log_evidence_apart(ones: int, zeros: int, ratio: float) -> float:
    """Return ln E that the chance of a 1 is above `ratio` times that of the other arm. ones, zeros: the users of the two arms.

    >>> [round(log_evidence_apart(users, users, 1.0), 1) for users in (10, 100, 2_000)]
    [10.4, 132.9, 2763.8]
    """
    other = min(ones / (ones + zeros), 1 / ratio)
    return _log_mean_likelihood(ones, zeros) - ones * math.log(ratio * other) - zeros * math.log1p(-other)


def least_difference(ones: int, zeros: int, alpha: float) -> float | None:
    """Return the largest difference of the two chances that is certain at this error; None if none is.

    >>> least_difference(2, 2, 0.05), round(least_difference(2_000, 2_000, 0.05), 4)
    (None, 0.9941)
    """
    mean, level = _log_mean_likelihood(ones, zeros), -math.log(alpha)

    def is_certain(bound: float) -> bool:
        other = min(max((ones - zeros * bound) / (ones + zeros), 0.0), 1 - bound)
        return mean - ones * math.log(other + bound) - zeros * math.log1p(-other) >= level

    if not is_certain(0.0):
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_certain(middle) else (low, middle)
    return low


def _log_mean_likelihood(ones: int, zeros: int) -> float:
    return math.fsum(math.lgamma(users + 0.5) - math.lgamma(users + 1) - math.lgamma(0.5) for users in (ones, zeros))
