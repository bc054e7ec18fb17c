"""Exact cross moments of two cells of an experiment: sums over the users in both of products of their totals, as integers.

If users have lists in both of two arms, the means of these arms depend on each other. For the
numerators y and denominators d of a measure in the two cells, the covariance of the means needs four sums over these users:

    d d'    y y'    y d'    d y'

As with moments, adding and subtracting is exact, so changes and merges may come in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.measures import USERS, ExperimentError, Measure, Measures, Product
from streammetrics.experiments.moments import FEW_USERS, TOTAL_MAX, plain_rows, sum_products


class CovariancePlaces(NamedTuple):
    """Indexes of one measure's cross moments. The first letter is of the first cell."""

    dd: int
    yy: int
    yd: int
    dy: int


class CovarianceLayout:
    """The layout of cross moments: which entries of the two rows of a user are multiplied. `pairs` has (first cell's, second cell's).

    The number of users in both cells comes first.

    >>> from streammetrics.metrics import Scorer
    >>> layout = CovarianceLayout(Measures(Scorer(["mrr@10"]).columns))
    >>> layout.pairs
    ((0, 0), (1, 1), (2, 2), (2, 1), (1, 2))
    """

    def __init__(self, measures: Measures) -> None:
        self.measures = measures.plain
        self.pairs: tuple[Product, ...] = tuple(
            dict.fromkeys(((USERS, USERS), *(pair for measure in self.measures for pair in _pairs_of(measure))))
        )
        self.width = len(self.pairs)
        self.sides = np.array(self.pairs, dtype=np.int64).T
        self._at = {pair: index for index, pair in enumerate(self.pairs)}

    def places(self, measure: Measure) -> CovariancePlaces:
        """Return the indexes of a measure's cross moments."""
        return CovariancePlaces(*(self._at[pair] for pair in _pairs_of(measure)))

    def swapped(self, moments: Sequence[int]) -> list[int]:
        """Return the cross moments with the two cells in the other order.

        >>> from streammetrics.metrics import Scorer
        >>> layout = CovarianceLayout(Measures(Scorer(["mrr@10"]).columns))
        >>> layout.swapped(cross_of_users(layout, [[2, 3]], [[5, 7]])) == cross_of_users(layout, [[5, 7]], [[2, 3]])
        True
        """
        return [moments[self._at[other, one]] for one, other in self.pairs]


def cross_of_users(
    layout: CovarianceLayout,
    one: Sequence[Sequence[int]] | npt.NDArray[np.int64],
    other: Sequence[Sequence[int]] | npt.NDArray[np.int64],
) -> list[int]:
    """Return the cross moments of users with these totals in two cells. A user without lists in one of them adds nothing.

    one, other: totals of the same users in the same order, shape (users, totals_width). The result is exact. Raises ExperimentError
    when the numbers of users differ.

    >>> from streammetrics.metrics import Scorer
    >>> layout = CovarianceLayout(Measures(Scorer(["mrr@10"]).columns))
    >>> cross_of_users(layout, [[2, 3], [1, 4]], [[5, 7], [0, 0]])  # users, lists x lists', sum x sum', sum x lists', lists x sum'
    [1, 10, 21, 15, 14]
    """
    if len(one) != len(other):
        raise ExperimentError("totals", f"got {len(one)} users in one cell and {len(other)} in the other")
    rows: list[list[list[int]]] | list[npt.NDArray[np.int64]]
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        both = (one[:, 0] != 0) & (other[:, 0] != 0)
        rows = [plain_rows(layout.measures, totals[both]) for totals in (one, other)]
        large = any(bool((abs(row) >= TOTAL_MAX).any()) for row in rows)
        if not large and len(rows[0]) > FEW_USERS:
            return sum_products(layout.sides, *rows)
        rows = [row.tolist() for row in rows]
    else:
        shared = [at for at in range(len(one)) if one[at][0] and other[at][0]]
        rows = [[layout.measures.row([int(value) for value in totals[at]]) for at in shared] for totals in (one, other)]
    sums = [0] * layout.width
    for ours, theirs in zip(*rows, strict=True):
        sums = [total + ours[at] * theirs[to] for total, (at, to) in zip(sums, layout.pairs, strict=True)]
    return sums


def _pairs_of(measure: Measure) -> tuple[Product, ...]:
    y, d = measure.top, measure.bottom
    return (d, d), (y, y), (y, d), (d, y)
