"""How the moments of many variants change together when users' totals do.

A user who is in many experiments has the same totals in most of them. The products of the user's totals are computed once, and then
added to every variant by one multiplication of matrices. Everything is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, product
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from streammetrics.statistics.measures import Measures
from streammetrics.statistics.moments import TOTAL_MAX, CovarianceLayout, add, plain_rows

WORD_BITS: Final = 23
"""Bits of the words that a total is split into. Products of two words, summed over a block, are whole numbers below 2**53, so float64
holds them exactly in any order of addition. Two words hold the totals of a user with up to 64 lists."""
BLOCK_USERS: Final = 1 << 7
"""Users multiplied at once. Their words fit in the processor's caches."""
MULTIPLIED_MAX: Final = 1 << 18
"""Products of two numbers in one matrix product."""
_Words: TypeAlias = list[tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]]
"""The words of rows, low to high: their values by column, and which columns are not empty."""


def moment_changes(
    measures: Measures,
    before: npt.NDArray[np.int64],
    after: npt.NDArray[np.int64],
    sets: npt.NDArray[np.int64],
    members: Sequence[Sequence[int]],
    arms: int,
    covariates: npt.NDArray[np.int64] | None = None,
) -> list[list[int]]:
    """Return how the moments of each arm change when users' totals do: those after less those before.

    before, after: totals, shape (users, totals_width). covariates: the array of `Measures.covariate_columns`; None: no user has any.
    sets: for each user, a set of arms. members: the arms of each set, as numbers from 0 to `arms` - 1. A user counts in every arm of
    the set, and the products of the user are computed once.

    The result is exact. Users with a total of 2**62 or more are summed one by one.

    >>> from streammetrics.metrics import Scorer
    >>> measures = Measures(Scorer(["mrr@10"]).columns)
    >>> before, after = np.array([[0, 0], [1, 4]]), np.array([[2, 3], [0, 0]])
    >>> moment_changes(measures, before, after, np.array([0, 1]), [[0, 1], [1]], 2)
    [[1, 2, 4, 3, 9, 6], [0, 1, 3, -1, -7, 2]]
    """
    rows, after_rows = _rows(measures, before, covariates), _rows(measures, after, covariates)
    users = np.arange(len(rows), dtype=np.int64)
    return _changes(measures.pair_sides, (rows, after_rows), (users, users), sets, members, arms)


def cross_changes(
    layout: CovarianceLayout,
    before: npt.NDArray[np.int64],
    after: npt.NDArray[np.int64],
    users: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    sets: npt.NDArray[np.int64],
    members: Sequence[Sequence[int]],
    pairs: int,
) -> list[list[int]]:
    """Return how the cross moments of each pair of cells change when users' totals do: those after less those before.

    before, after: totals, shape (rows, totals_width). users: for each user, the row in the first cell and the one in the other.
    sets: for each user, a set of pairs. members: the pairs of each set, as numbers from 0 to `pairs` - 1. A user counts in every pair
    of the set. The result is exact.

    >>> from streammetrics.metrics import Scorer
    >>> layout = CovarianceLayout(Measures(Scorer(["mrr@10"]).columns))
    >>> before, after = np.array([[2, 3], [0, 0]]), np.array([[2, 3], [5, 7]])
    >>> cross_changes(layout, before, after, (np.array([0]), np.array([1])), np.array([0]), [[0, 1]], 2)
    [[1, 10, 21, 15, 14], [1, 10, 21, 15, 14]]
    """
    rows, after_rows = _rows(layout.measures, before, None), _rows(layout.measures, after, None)
    return _changes(layout.sides, (rows, after_rows), users, sets, members, pairs)


def _changes(
    sides: npt.NDArray[np.int64],
    rows: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    users: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    sets: npt.NDArray[np.int64],
    members: Sequence[Sequence[int]],
    arms: int,
) -> list[list[int]]:
    """Return the changes of sums of products.

    sides: which entries of the two rows of a user are multiplied, shape (2, products). rows: before and after. users: for each user, the
    numbers of the two rows.
    """
    largest = max(int(row.max(initial=0)) for row in rows)
    if largest >= TOTAL_MAX or min(int(row.min(initial=0)) for row in rows) < 0:
        return _changes_one_by_one(sides, rows, users, [members[number] for number in sets.tolist()], arms)
    words = max(1, -(-largest.bit_length() // WORD_BITS))
    sums = np.zeros((2 * words - 1, sides.shape[1], arms), dtype=np.int64)
    of_sets = _Members(members)
    ours, theirs = users
    order = np.argsort(sets, kind="stable")  # so a block has few sets, with few arms
    for start in range(0, len(order), BLOCK_USERS):
        block = order[start : start + BLOCK_USERS]
        counted, shares = of_sets.shares(sets[block])
        if len(counted):
            left = _words(rows, ours[block], words)
            right = left if theirs is ours else _words(rows, theirs[block], words)
            _add_block(sides, left, right, shares, counted, sums)
    return _joined(sums)


class _Members:
    """The arms of sets, one set after the other."""

    def __init__(self, members: Sequence[Sequence[int]]) -> None:
        self._sizes = np.array([len(arms) for arms in members], dtype=np.int64)
        self._ends = np.cumsum(self._sizes)
        self._arms = np.fromiter(chain.from_iterable(members), dtype=np.int64)

    def shares(self, sets: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the arms of some sets, and which of these arms each set has: shape (sets, arms), 1 or 0."""
        sizes = self._sizes[sets]
        places = np.arange(sizes.sum()) + np.repeat(self._ends[sets] - np.cumsum(sizes), sizes)
        arms, columns = np.unique(self._arms[places], return_inverse=True)
        shares = np.zeros((len(sets), len(arms)))
        shares[np.repeat(np.arange(len(sets)), sizes), columns] = 1
        return arms, shares


def _rows(measures: Measures, totals: npt.NDArray[np.int64], covariates: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    """Return the factors of the products: see `Measures`. They are 0 for users without lists."""
    rows = np.zeros((len(totals), measures.row_width), dtype=np.int64)
    plain = plain_rows(measures, totals)
    rows[:, : plain.shape[1]] = plain
    if covariates is not None:
        rows[:, plain.shape[1] :] = measures.covariate_factors(plain, covariates)
    rows[totals[:, 0] == 0] = 0
    return rows


def _changes_one_by_one(
    sides: npt.NDArray[np.int64],
    rows: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    users: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    members: Iterable[Sequence[int]],
    arms: int,
) -> list[list[int]]:
    pairs: list[list[int]] = sides.T.tolist()
    before, after = (row.tolist() for row in rows)
    sums = [[0] * len(pairs) for _ in range(arms)]
    for one, other, of_user in zip(users[0].tolist(), users[1].tolist(), members, strict=True):
        change = [after[one][left] * after[other][right] - before[one][left] * before[other][right] for left, right in pairs]
        for arm in of_user:
            sums[arm] = add(sums[arm], change)
    return sums


def _words(rows: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]], users: npt.NDArray[np.int64], words: int) -> _Words:
    """Split rows of users into words: by column, shape (row width, 2 * users), the rows before and then those after."""
    factors = np.concatenate([row[users] for row in rows]).T
    values = [(factors >> (WORD_BITS * number) & ((1 << WORD_BITS) - 1)).astype(np.float64) for number in range(words)]
    return [(word, np.asarray(word.any(axis=1))) for word in values]


def _add_block(
    sides: npt.NDArray[np.int64],
    ours: _Words,
    theirs: _Words,
    shares: npt.NDArray[np.float64],
    arms: npt.NDArray[np.int64],
    sums: npt.NDArray[np.int64],
) -> None:
    """Add the changes of a block of users to `sums`, shape (weights of two words, products, arms).

    shares: shape (users, len(arms)), 1 where a user counts.
    """
    left, right = sides
    users = len(shares)
    for (one, (our_words, our_use)), (other, (their_words, their_use)) in product(enumerate(ours), enumerate(theirs)):
        pairs = np.flatnonzero(our_use[left] & their_use[right])  # most totals leave their high words empty
        if len(pairs):
            products = our_words[left[pairs]] * their_words[right[pairs]]
            sums[one + other, pairs[:, None], arms] += _multiplied(products[:, users:] - products[:, :users], shares)


def _multiplied(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the matrix product of whole numbers, in parts that BLAS multiplies in this thread. Its others wait busily for work."""
    step = max(1, MULTIPLIED_MAX // (len(left) * right.shape[1]))
    parts = [left[:, start : start + step] @ right[start : start + step] for start in range(0, len(right), step)]
    return sum(parts[1:], start=parts[0]).astype(np.int64)


def _joined(sums: npt.NDArray[np.int64]) -> list[list[int]]:
    """Return the integers that sums of words stand for: those of each arm."""
    sizes = sum(np.abs(of_weight).astype(np.float64) * 2.0 ** (WORD_BITS * weight) for weight, of_weight in enumerate(sums))
    whole = np.zeros(sums.shape[1:], dtype=np.int64)
    for weight, of_weight in enumerate(sums[: 64 // WORD_BITS + 1]):
        whole += of_weight << (WORD_BITS * weight)  # wraps around, and is exact where the result fits
    joined: list[list[int]] = [of_arm.tolist() for of_arm in whole.T]
    for pair, arm in np.argwhere(np.asarray(sizes) >= TOTAL_MAX).tolist():
        by_weight: list[int] = sums[:, pair, arm].tolist()
        joined[arm][pair] = sum([word << (WORD_BITS * weight) for weight, word in enumerate(by_weight)])
    return joined
