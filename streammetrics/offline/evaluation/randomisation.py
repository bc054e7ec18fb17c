"""Paired randomisation tests: how extreme is the observed difference if the two sides of each pair are swapped at random?"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from streammetrics.metrics.arrays import Bools, Floats, Ints
from streammetrics.metrics.names import MetricError

EXACT_PAIRS_MAX: Final = 14
"""With at most this many pairs that differ, all 2**14 outcomes are tried. The seed then has no effect."""

SAMPLES_MAX: Final = 10_000_000


_BITS: Final = (np.arange(256)[:, None] >> np.arange(8)) & 1


class PValue(NamedTuple):
    """A two-sided p-value; `exact` if all outcomes were tried."""

    p_value: float
    exact: bool


def sign_flip_test(differences: Ints, samples: int, seed: int, slack: int = 0) -> PValue:
    """Two-sided sign-flip test of paired differences (Fisher 1935): under the null hypothesis each sign is equally likely.

    differences: int64, shape (G,), one total per cluster. Zeros have no effect. samples, seed: for random outcomes.
    slack: sums that differ by at most this much count as equal. It covers the rounding of the differences to integers.

    The p-value is the share of outcomes with a sum at least as far from 0 as the observed one. Random outcomes give
    (1 + extreme) / (1 + samples), which is never 0 (Phipson and Smyth 2010).

    Raises MetricError if the absolute differences sum to 2**61 or more, and for invalid samples or seed.

    >>> sign_flip_test(np.array([3, 1, 2]), samples=1000, seed=1)
    PValue(p_value=0.25, exact=True)
    """
    _require_small(differences)
    total = int(differences.sum())

    def extreme(flipped: Ints) -> Bools:
        return np.abs(total - 2 * flipped[:, 0]) >= abs(total) - slack

    return _share(differences[:, None], samples, seed, extreme)


def swap_test(one: tuple[Ints, Ints], other: tuple[Ints, Ints], samples: int, seed: int) -> PValue:
    """The same test for the difference of two ratios of sums: each cluster's numerators and denominators are swapped together.

    one, other: (numerators, denominators) per cluster, int64, shape (G,) each. Outcomes within a factor of 1e-12 of the observed
    difference count as equal. The p-value is NaN if a ratio has denominator 0.
    """
    steps = np.stack([one[0] - other[0], one[1] - other[1]], axis=1)
    above, below = (np.array([side[0].sum(), side[1].sum()]) for side in (other, one))

    def gap(flipped: Ints) -> Floats:
        first, second = above + flipped, below - flipped
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(first[:, 0] / first[:, 1] - second[:, 0] / second[:, 1])

    observed = float(gap(np.zeros((1, 2), dtype=np.int64))[0]) * (1 - 1e-12)
    if math.isnan(observed):
        check_sampling(samples, seed)
        return PValue(math.nan, True)
    return _share(steps, samples, seed, lambda flipped: gap(flipped) >= observed)


def check_sampling(samples: object, seed: object) -> None:
    """Raise MetricError if samples is not in 1..SAMPLES_MAX or the seed is negative."""
    if type(samples) is not int or not 1 <= samples <= SAMPLES_MAX:
        raise MetricError("samples", f"got {samples!r}; allowed are whole numbers 1..{SAMPLES_MAX}")
    if type(seed) is not int or seed < 0:
        raise MetricError("seed", f"got {seed!r}; allowed are whole numbers >= 0")


def _require_small(differences: Ints) -> None:
    if float(np.abs(differences.astype(np.float64)).sum()) >= 2.0**61:
        raise MetricError("differences", "got absolute values that sum beyond 2**61; allowed are smaller ones")


def _share(steps: Ints, samples: int, seed: int, extreme: Callable[[Ints], Bools]) -> PValue:
    """The share of extreme outcomes. An outcome is the sum of the steps (shape (G, W)) of the flipped pairs."""
    check_sampling(samples, seed)
    moving = steps[steps.any(axis=1)]
    if len(moving) <= EXACT_PAIRS_MAX:
        outcomes = extreme(_all_sums(moving))
        return PValue(int(outcomes.sum()) / outcomes.size, True)
    return PValue((1 + int(extreme(_random_sums(moving, samples, seed)).sum())) / (1 + samples), False)


def _all_sums(steps: Ints) -> Ints:
    """The sum over every subset of the steps, shape (2**G, W)."""
    sums = np.zeros((1, steps.shape[1]), dtype=np.int64)
    for step in steps:
        sums = np.concatenate([sums, sums + step])
    return sums


def _random_sums(steps: Ints, samples: int, seed: int) -> Ints:
    """The sum over random subsets, shape (samples, W). For every eight pairs a random byte picks one of their 256 sums."""
    chance = np.random.Generator(np.random.PCG64(seed))
    sums = np.zeros((steps.shape[1], samples), dtype=np.int64)
    for start in range(0, len(steps), 8):
        eight = steps[start : start + 8]
        choices = (_BITS[:, : len(eight)] @ eight).T
        picks = np.frombuffer(chance.bytes(samples), dtype=np.uint8)
        for column, choice in zip(sums, choices, strict=True):
            np.add(column, choice[picks], out=column)
    return sums.T
