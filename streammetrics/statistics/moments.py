"""Exact moments of a variant: sums over its users of products of their totals, as integers.

Adding and subtracting integers is exact. So changes, merges and withdrawals may come in any order, and the moments always equal a
batch computation over the users' current totals. A user without lists contributes nothing.

Two cells of an experiment may have users in common. Their cross moments are sums over the users in both of products of their totals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from streammetrics.errors import ExperimentError
from streammetrics.statistics.measures import USERS, Measure, Measures, Product

WORD_BITS: Final = 24
"""Bits of each of the three words that a total is split into. Totals of a few thousand lists, in units of 2**-40, fill two."""
SUMMED_USERS: Final = 1 << 13
"""Users added up in one int64: three products of words of the same weight for each of them fit."""
BLOCK_USERS: Final = 1 << 8
"""Users multiplied at once. Their words fit in the processor's caches."""
TOTAL_MAX: Final = 1 << 62
"""Bound of totals that are split into words: 2**22 lists of the largest value, 1 in units of 2**-40."""
FEW_USERS: Final = 8
"""Up to this many users are summed one by one, because numpy's calls would cost more."""


def zero(measures: Measures) -> list[int]:
    """Return the moments of no users: the identity of `add`."""
    return [0] * measures.moments_width


def add(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Merge the moments of two sets of users: associative, commutative, exact at any size."""
    return [left + right for left, right in zip(one, other, strict=True)]


def subtract(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Remove users: the inverse of `add`."""
    return [left - right for left, right in zip(one, other, strict=True)]


def of_users(
    measures: Measures,
    totals: Iterable[Sequence[int]] | npt.NDArray[np.int64],
    covariates: Sequence[Sequence[int | None] | None] | npt.NDArray[np.int64] = (),
) -> list[int]:
    """Return the moments of users: the products of each user's row, summed over users. A user without lists adds nothing.

    totals: integers, shape (users, totals_width); an int64 array is fastest.
    covariates: one entry per user, or empty. For an array of totals, pass the array of `Measures.covariate_columns`.

    The result is exact. Users with a total of 2**62 or more are summed one by one. Raises ExperimentError when a width is wrong or a
    number of lists is negative.

    >>> from streammetrics.metrics import Scorer
    >>> measures = Measures(Scorer(["mrr@10"]).columns)
    >>> of_users(measures, [[2, 3], [1, 4]])  # users, lists, lists squared, sum, sum squared, lists x sum
    [2, 3, 5, 7, 25, 10]
    """
    rows: list[list[int]] | npt.NDArray[np.int64]
    if isinstance(totals, np.ndarray) and isinstance(covariates, np.ndarray) == measures.covariates:
        rows = _rows(measures, totals, covariates if isinstance(covariates, np.ndarray) else None)
        large = bool(rows.max(initial=0) >= TOTAL_MAX or rows.min(initial=0) <= -TOTAL_MAX)
    else:
        listed = [[int(value) for value in row] for row in totals]
        if any(row and row[0] < 0 for row in listed):
            raise ExperimentError("totals", f"got {min(row[0] for row in listed)} lists; must be 0 or more")
        with_covariates = list(covariates) if len(covariates) else [None] * len(listed)
        rows = [measures.row(row, extra) for row, extra in zip(listed, with_covariates, strict=True) if any(row[:1])]
        large = any(abs(value) >= TOTAL_MAX for row in rows for value in row)
    if large or len(rows) <= FEW_USERS:
        return _one_by_one(measures, rows.tolist() if isinstance(rows, np.ndarray) else rows)
    columns = np.asarray(rows, dtype=np.int64)
    return sum_products(measures.pair_sides, columns, columns)


def _rows(measures: Measures, totals: npt.NDArray[np.int64], covariates: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    if totals.ndim != 2 or totals.shape[1] != measures.totals_width:
        raise ExperimentError("totals", f"got shape {totals.shape}; must be (users, {measures.totals_width})")
    if (totals[:, 0] < 0).any():
        raise ExperimentError("totals", f"got {totals[:, 0].min()} lists; must be 0 or more")
    listed = plain_rows(measures, totals[totals[:, 0] != 0])
    if covariates is None:
        return listed
    return np.concatenate([listed, measures.covariate_factors(listed, covariates[totals[:, 0] != 0])], axis=1)


def plain_rows(measures: Measures, totals: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return users' rows without covariates, from their totals: shape (users, row width)."""
    hits = totals[:, [place - 1 for place in measures.hits]] != 0
    return np.concatenate([np.ones((len(totals), 1), dtype=np.int64), totals, hits.astype(np.int64)], axis=1)


def _one_by_one(measures: Measures, rows: Iterable[Sequence[int]]) -> list[int]:
    result = zero(measures)
    for row in rows:
        result = add(result, [row[one] * row[other] for one, other in measures.pairs])
    return result


def sum_products(sides: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> list[int]:
    """Return the sums of `rows[:, left] * others[:, right]` for each pair of `sides`, exactly.

    sides: indexes, shape (2, pairs). rows, others: shape (users, width), all smaller than TOTAL_MAX in size.
    """
    result = [0] * sides.shape[1]
    for start in range(0, len(rows), SUMMED_USERS):
        block = slice(start, start + SUMMED_USERS)
        ours = rows[block]
        for weight, sums in enumerate(_by_weight(sides, ours, ours if others is rows else others[block])):
            result = [total + (more << (WORD_BITS * weight)) for total, more in zip(result, sums.tolist(), strict=True)]
    return result


def _by_weight(sides: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sum the products of words by the weight of the two words together: shape (5, pairs)."""
    left, right = sides
    sums = np.zeros((5, len(left)), dtype=np.int64)
    for start in range(0, len(rows), BLOCK_USERS):
        block = slice(start, start + BLOCK_USERS)
        ours, our_use = _words(rows[block])
        theirs, their_use = (ours, our_use) if others is rows else _words(others[block])
        for one, other in product(range(3), repeat=2):
            pairs = np.flatnonzero(our_use[one][left] & their_use[other][right])  # most totals leave their high words empty
            if len(pairs):
                sums[one + other, pairs] += np.einsum("pu,pu->p", ours[one][left[pairs]], theirs[other][right[pairs]])
    return sums


def _words(rows: npt.NDArray[np.int64]) -> tuple[tuple[npt.NDArray[np.int64], ...], list[npt.NDArray[np.bool_]]]:
    """Split each entry into three words, low to high. Returns them by column, and which columns of each word are not empty."""
    columns = np.ascontiguousarray(rows.T)
    mask = (1 << WORD_BITS) - 1
    words = (columns & mask, (columns >> WORD_BITS) & mask, columns >> (2 * WORD_BITS))
    return words, [np.asarray(word.any(axis=1)) for word in words]


class CovarianceColumns(NamedTuple):
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

    def places(self, measure: Measure) -> CovarianceColumns:
        """Return the indexes of a measure's cross moments."""
        return CovarianceColumns(*(self._at[pair] for pair in _pairs_of(measure)))

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
