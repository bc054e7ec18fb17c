"""Cluster-robust standard errors: the lists of one user may be correlated, so the user is the unit. No metric formulas here."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from streammetrics.metrics.arrays import Floats, Ints
from streammetrics.metrics.names import MetricError


@dataclass(frozen=True, slots=True)
class Clusters:
    """The cluster of each list: codes 0..count - 1, shape (L,). Without users each list is its own cluster."""

    codes: Ints
    count: int

    @classmethod
    def of(cls, users: Sequence[Hashable] | None, lists: int) -> Clusters:
        """One cluster per user, or one per list if users are unknown."""
        if users is None:
            return cls(np.arange(lists, dtype=np.int64), lists)
        numbers: dict[Hashable, int] = {}
        codes = np.array([numbers.setdefault(user, len(numbers)) for user in users], dtype=np.int64)
        return cls(codes, len(numbers))

    def of_lists(self, counted: np.ndarray) -> Clusters:
        """The clusters of a subset of the lists, renumbered from 0. counted: booleans, shape (L,)."""
        kept, codes = np.unique(self.codes[counted], return_inverse=True)
        return Clusters(codes.astype(np.int64, copy=False), int(kept.size))

    def sums(self, values: Floats) -> Floats:
        """Sums per cluster, float64, shape (count,)."""
        totals: Floats = np.bincount(self.codes, weights=values, minlength=self.count).astype(np.float64, copy=False)
        return totals

    def whole_sums(self, values: Ints) -> Ints:
        """Exact integer sums per cluster, shape (count,). Raises MetricError if a sum may exceed int64."""
        if self.count and float(np.bincount(self.codes, np.abs(values.astype(np.float64)), self.count).max()) >= 2.0**62:
            raise MetricError("values", "got a cluster with absolute values that sum beyond 2**62; allowed are smaller ones")
        totals = np.zeros(self.count, dtype=np.int64)
        np.add.at(totals, self.codes, values)
        return totals


def influence(numerators: Floats, denominators: Floats) -> Floats:
    """The influence of each list on the ratio sum(numerators) / sum(denominators): (y - ratio * n) / sum(n). Shape (L,), sum 0.

    For a plain mean all denominators are 1.
    """
    below = denominators.sum()
    moves: Floats = (numerators - numerators.sum() / below * denominators) / below
    return moves


def standard_error(influences: Floats, clusters: Clusters) -> float:
    """The cluster-robust standard error of a ratio of sums, from the influences of its lists.

    sqrt(G / (G - 1) * sum over clusters of (sum of its influences)**2), with G clusters. This is the delta-method variance of a
    ratio under cluster sampling (Cochran 1977, Sampling Techniques, chapters 6 and 9A; Liang and Zeger 1986), with the usual
    small-sample factor. If each list is its own cluster, it equals the standard deviation (ddof 1) / sqrt(L). NaN with fewer than
    two clusters.

    >>> values = np.array([1.0, 2.0, 3.0, 4.0])
    >>> bool(standard_error(influence(values, np.ones(4)), Clusters.of(None, 4)) == values.std(ddof=1) / 2)
    True
    """
    if clusters.count < 2:
        return math.nan
    totals = clusters.sums(influences)
    return math.sqrt(clusters.count / (clusters.count - 1) * float(totals @ totals))
