"""One measure in the cells of an experiment: estimates, and covariances of means. Moments in, estimates out. Pure.

With the residuals r = y - m d of the users in both of two cells, and K users and the sum D of d in each, the covariance of the means is

    S_cc' = sqrt(K / (K - 1)) sqrt(K' / (K' - 1)) * sum of r r' / (D D')

A report asks for the same cells many times: alone, compared, and for floors. So each number is computed once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from streammetrics.experiments.covariance_sums import CovarianceLayout
from streammetrics.experiments.estimates import Estimate, estimate
from streammetrics.experiments.floors import effective_users
from streammetrics.experiments.measures import Measure, Measures
from streammetrics.experiments.stored import Cell


class StratifiedEstimates:
    """A measure in cells. moments: of each cell. shared: cross moments of each two cells with common users, in both orders."""

    def __init__(
        self,
        measures: Measures,
        cross: CovarianceLayout,
        measure: Measure,
        moments: Mapping[Cell, Sequence[int]],
        shared: Mapping[tuple[Cell, Cell], Sequence[int]],
    ) -> None:
        self.measure = measure
        self._measures, self._moments, self._shared = measures, moments, shared
        self._at, self._of = cross.places(measure), measures.places(measure)
        self._estimates: dict[Cell, Estimate | None] = {}
        self._covariances: dict[tuple[Cell, Cell], float] = {}
        self._weights: dict[tuple[Cell, Cell], tuple[int, int]] = {}

    def estimate(self, cell: Cell) -> Estimate | None:
        """Return the estimate of a cell; None without users, or if the denominator is 0."""
        if cell not in self._estimates:
            moments = self._moments.get(cell)
            self._estimates[cell] = None if moments is None else estimate(self._measures, self.measure, moments)
        return self._estimates[cell]

    def arm(self, weights: Mapping[Cell, float]) -> Estimate:
        """Return the estimate of an arm over its cells."""
        found = {cell: self.estimate(cell) for cell in weights}
        mean = math.fsum(weights[cell] * each.mean for cell, each in found.items() if each)
        users = sum(each.users for each in found.values() if each)
        return Estimate(mean, max(self.covariance_of(weights, weights), 0.0), users)

    def covariance_of(self, one: Mapping[Cell, float], other: Mapping[Cell, float]) -> float:
        """Return the covariance of two weighted means of cells."""
        return math.fsum(weight * self.covariance(left, right) for left, right, weight in _pairs(one, other))

    def effective_users(self, weights: Mapping[Cell, float]) -> float:
        """Return the number of users of equal weight with the same spread as one arm over its cells (Kish 1965).

        It is 1 / sum of w_s w_s' DD_ss' / (D_s D_s'), with DD_ss' the sum of d d' over users.
        """
        if len(weights) == 1:
            return effective_users(self._measures, self.measure, *(self._moments[cell] for cell in weights))
        total = 0.0
        for one, other, weight in _pairs(weights, weights):
            shared, product = self._shared_weight(one, other)
            total += weight * shared / product
        return 1 / total if total else 0.0

    def covariance(self, one: Cell, other: Cell) -> float:
        """Return the covariance of two cells' means, clustered by user."""
        found = self._covariances.get((one, other))
        if found is None:
            found = self._covariances[one, other] = self._covariances[other, one] = self._covariance(one, other)
        return found

    def _covariance(self, one: Cell, other: Cell) -> float:
        if one == other:
            found = self.estimate(one)
            return math.inf if found is None else found.variance
        shared = self._shared.get((one, other))
        if shared is None:
            return 0.0
        at, of = self._at, self._of
        ours, theirs = self._moments[one], self._moments[other]
        y, d, x, e = ours[of.y], ours[of.d], theirs[of.y], theirs[of.d]
        residuals = shared[at.yy] * d * e - x * d * shared[at.yd] - y * e * shared[at.dy] + y * x * shared[at.dd]
        users, others = ours[of.users], theirs[of.users]
        if users < 2 or others < 2 or not residuals:
            return 0.0
        exact = Fraction(residuals, (d * e) ** 2 << 2 * self.measure.scale_bits)
        return math.sqrt(users / (users - 1)) * math.sqrt(others / (others - 1)) * float(exact)

    def _shared_weight(self, one: Cell, other: Cell) -> tuple[int, int]:
        """Return the sum of d d' over users, and the product of the sums of d and of d'."""
        found = self._weights.get((one, other))
        if found is None:
            product = self._moments[one][self._of.d] * self._moments[other][self._of.d]
            if one == other:
                shared = self._moments[one][self._of.dd]
            else:
                cross = self._shared.get((one, other))
                shared = 0 if cross is None else cross[self._at.dd]
            found = self._weights[one, other] = self._weights[other, one] = shared, product
        return found


def _pairs(one: Mapping[Cell, float], other: Mapping[Cell, float]) -> Iterator[tuple[Cell, Cell, float]]:
    for left, weight in one.items():
        for right, times in other.items():
            yield left, right, weight * times
