"""When a Brownian motion with drift first crosses a boundary: the distribution of the time of a verdict. Numbers in, numbers out.

The score W = D/V of a difference D with variance V is a Brownian motion in the information I = 1/V, with the true difference as its drift
(see `sequence`). A verdict comes when W first reaches b(I). With F the distribution of that time, every I satisfies the master equation
(Fortet 1943; Peskir 2002, "On integral equations arising in the first-passage problem for Brownian motion")

    P(W(I) >= b(I)) = integral over s <= I of P(W(I) >= b(I) | W(s) = b(s)) dF(s)

Both probabilities are normal. On a grid this is a triangular system of linear equations for the parts of F.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

POINTS = 160
"""Points of the grid of information."""
BOUNDARY_POINTS = 48
"""Points at which the boundary is solved. It is smooth in ln I, and is interpolated between them."""
START_NODES = 24
"""Nodes for the unknown score at the first look."""
RATIO = 2e-4
"""The first step of the grid, as a share of its length. Steps then grow by a constant factor."""


class PathStart(NamedTuple):
    """Where a path begins: its information, and its score; None if the first look is still to come."""

    information: float
    score: float | None = None


def crossing_times(boundary: Callable[[float], float], drift: float, start: PathStart, end: float) -> tuple[Floats, Floats]:
    """Return a grid of information from the start to `end`, and the probability of a crossing up to each point.

    boundary: b(I), in units of the score. With a known score below the boundary, the first probability is 0. With an unknown one, it is
    the probability that the first look is beyond the boundary. Looks are continuous after it.

    >>> times, crossed = crossing_times(lambda information: 2.0, 1.0, PathStart(1e-12, 0.0), 16.0)
    >>> exact = 0.5 * math.erfc((2 - 4) / math.sqrt(8)) + math.exp(4) * 0.5 * math.erfc((2 + 4) / math.sqrt(8))  # by I = 4, with a line
    >>> abs(float(np.interp(4.0, times, crossed)) - exact) < 0.003
    True
    """
    length = end - start.information
    times = start.information + np.concatenate([[0.0], length * np.geomspace(RATIO, 1.0, POINTS)])
    bounds = _interpolated(boundary, times)
    scores, weights, at_first = _starts(start, drift, float(bounds[0]))
    middles = (times[1:] + times[:-1]) / 2
    middle_bounds = (bounds[1:] + bounds[:-1]) / 2
    elapsed = (times[1:] - start.information)[:, None]
    reached = _tail((bounds[1:, None] - scores[None, :] - drift * elapsed) / np.sqrt(elapsed)) @ weights
    gaps = times[1:, None] - middles[None, :]
    rises = bounds[1:, None] - middle_bounds[None, :] - drift * gaps
    lower = gaps > 0
    kernel = np.zeros_like(gaps)
    kernel[lower] = _tail(rises[lower] / np.sqrt(gaps[lower]))
    parts = np.zeros(POINTS)
    for row in range(POINTS):
        parts[row] = max(0.0, (reached[row] - kernel[row, :row] @ parts[:row]) / kernel[row, row])
    return times, np.minimum(1.0, np.concatenate([[at_first], at_first + np.cumsum(parts)]))


def _interpolated(boundary: Callable[[float], float], times: Floats) -> Floats:
    known = np.geomspace(times[0], times[-1], BOUNDARY_POINTS)
    roots = [boundary(float(each)) / math.sqrt(each) for each in known]
    return np.asarray(np.interp(np.log(times), np.log(known), roots) * np.sqrt(times), dtype=np.float64)


def _starts(start: PathStart, drift: float, bound: float) -> tuple[Floats, Floats, float]:
    """Return possible scores below the boundary with their probabilities, and the probability of the boundary or more."""
    if start.score is not None:
        return np.array([start.score]), np.ones(1), 0.0
    middle, spread = drift * start.information, math.sqrt(start.information)
    low, high = middle - 8 * spread, min(bound, middle + 8 * spread)
    if high <= low:
        return np.zeros(1), np.zeros(1), 1.0
    nodes, weights = np.polynomial.legendre.leggauss(START_NODES)
    scores = (high + low) / 2 + (high - low) / 2 * nodes
    density = np.exp(-0.5 * ((scores - middle) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
    return scores, weights * density * (high - low) / 2, float(_tail(np.array([(bound - middle) / spread]))[0])


def _tail(z: Floats) -> Floats:
    """Return the probability that a standard normal number is z or more."""
    flat = [0.5 * math.erfc(each) for each in (np.asarray(z, dtype=np.float64).ravel() / math.sqrt(2)).tolist()]
    return np.array(flat).reshape(np.shape(z))


def quantile(times: Floats, crossed: Floats, share: float) -> float:
    """Return the time at which `crossed` reaches a share; infinite if it does not.

    >>> quantile(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.4, 0.8]), 0.6), quantile(np.array([0.0, 1.0]), np.array([0.0, 0.4]), 0.6)
    (1.5, inf)
    """
    if crossed[-1] < share:
        return math.inf
    at = int(np.argmax(crossed >= share))
    if at == 0:
        return float(times[0])
    below, above = float(crossed[at - 1]), float(crossed[at])
    part = (share - below) / (above - below)
    return float(times[at - 1] + part * (times[at] - times[at - 1]))


def quantiles(
    boundary: Callable[[float], float], drift: float, start: PathStart, shares: Sequence[float], information_max: float
) -> tuple[float, ...]:
    """Return the information at which each share of the paths has crossed; infinite beyond `information_max`, or without a drift.

    The grid grows until it holds the largest share.
    """
    if drift <= 0 or start.information >= information_max:
        return (math.inf,) * len(shares)
    end = min(information_max, max(1.5 * start.information, start.information + (6 / drift) ** 2))
    while True:
        times, crossed = crossing_times(boundary, drift, start, end)
        if crossed[-1] >= max(shares) or end >= information_max:
            return tuple(quantile(times, crossed, share) for share in shares)
        end = min(information_max, start.information + 3 * (end - start.information))
