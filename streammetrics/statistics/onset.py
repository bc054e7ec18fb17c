"""Since when do two variants differ? One change of the difference over time, with its uncertainty. Numbers in, numbers out. Pure.

The differences of consecutive spans of time are normal with known variances. They have one mean throughout, or one before and another
after a change. For a change after span j, with the information I_j = P Q / (P + Q) from the precisions P before and Q after it, and the
jump J_j between the two weighted means, the likelihood ratio against no change is, with jumps drawn from a normal of scale s,

    B_j = (1 + s**2 I_j)**(-1/2) exp(J_j**2 I_j / 2 * s**2 I_j / (1 + s**2 I_j))

All times are equally likely beforehand (Smith 1975, "A Bayesian approach to inference about a change-point in a sequence of random
variables", Biometrika 62). The mean of all B_j is the evidence for a change. Without a change it reaches 1/alpha with a probability of at
most alpha (Markov's inequality), so below 1/alpha the time cannot be told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

MASS = 0.9
"""The probability that the true time is in the span of a change."""


class ChangePoint(NamedTuple):
    """A change after span `place` (from 0): its most likely place, the first and last likely ones, and the means before and after."""

    place: int
    first: int
    last: int
    before: float
    after: float


def change_point(differences: Sequence[float], variances: Sequence[float], scale: float, alpha: float = 0.05) -> ChangePoint | None:
    """Return the change of the difference; None if it cannot be told.

    differences, variances: of consecutive spans, variances above 0. scale: the size of jumps to look for.

    >>> change_point([0.0, 0.01, -0.01, 0.0, -0.1, -0.11, -0.09, -0.1], [4e-4] * 8, 0.1)[:3]
    (3, 3, 3)
    >>> change_point([-0.1, -0.11, -0.1, -0.09, -0.1, -0.11, -0.09, -0.1], [4e-4] * 8, 0.1) is None
    True
    """
    if len(differences) < 2:
        return None
    precisions = [1 / variance for variance in variances]
    sums = [precision * value for precision, value in zip(precisions, differences, strict=True)]
    total, whole = math.fsum(precisions), math.fsum(sums)
    before, before_sum = 0.0, 0.0
    logs, means = [], []
    for precision, part in zip(precisions[:-1], sums[:-1], strict=True):
        before, before_sum = before + precision, before_sum + part
        after = max(total - before, total * 1e-12)
        early, late = before_sum / before, (whole - before_sum) / after
        information = before * after / total
        share = scale * scale * information
        logs.append(-0.5 * math.log1p(share) + 0.5 * (late - early) ** 2 * information * share / (1 + share))
        means.append((early, late))
    high = max(logs)
    weights = [math.exp(log_likelihood - high) for log_likelihood in logs]
    if high + math.log(math.fsum(weights) / len(weights)) < -math.log(alpha):
        return None
    best = logs.index(high)
    return ChangePoint(best, *_likely(weights), *means[best])


def _likely(weights: Sequence[float]) -> tuple[int, int]:
    """Return the first and last index of the smallest set of places that has MASS of the probability."""
    wanted, have, chosen = MASS * math.fsum(weights), 0.0, []
    for index in sorted(range(len(weights)), key=lambda index_of: -weights[index_of]):
        chosen.append(index)
        have += weights[index]
        if have >= wanted:
            break
    return min(chosen), max(chosen)
