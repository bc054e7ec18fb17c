"""Exact moments of a variant: sums over its users of products of their totals, as whole numbers.

Integers only: what enters can be taken out again exactly, so the order of changes, merges and withdrawals cannot matter, and
the moments always equal a batch computation over the users' present totals. A user without lists contributes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from streammetrics.experiments.measures import ExperimentError, Measures

WORD_BITS: Final = 21
"""A total is cut into three words of this size, so that a block's products add up to less than 2**53, where doubles are whole."""
BLOCK_USERS_MAX: Final = 1 << 11
BLOCK_PRODUCTS: Final = 200_000
"""Products of one block: small enough for a matrix product on one thread, where many threads would wait for each other."""
CHUNK_USERS: Final = 1 << 20
"""Users whose products of words add up within int64."""
TOTAL_MAX: Final = 1 << 62
"""Totals that are cut into words stay below this: 2**22 lists of the greatest value, 1 in units of 2**-40."""
FEW_USERS: Final = 12
"""So few are summed one by one, for numpy's calls cost as much as twenty users."""


def zero(measures: Measures) -> list[int]:
    """The moments of no user: the identity of `add`."""
    return [0] * measures.moments_width


def add(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Merge the moments of two sets of users: associative, commutative, exact at any size."""
    return [left + right for left, right in zip(one, other, strict=True)]


def subtract(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Take users out again: the inverse of `add`."""
    return [left - right for left, right in zip(one, other, strict=True)]


def of_users(
    measures: Measures,
    totals: Iterable[Sequence[int]] | npt.NDArray[np.int64],
    covariates: Sequence[Sequence[int | None] | None] | npt.NDArray[np.int64] = (),
) -> list[int]:
    """What users contribute together: the products of each one's row, added up; a user without lists adds nothing.

    totals: whole numbers, shape (users, totals_width); an int64 array is fastest. covariates: one entry a user, or empty; for
    an array of totals, `Measures.covariate_columns` as an array too.
    Exact, see WORD_BITS; users with a total of 2**62 or more are summed one by one. ExperimentError when a width is wrong or a
    number of lists is negative.

    >>> from streammetrics.metrics import Scorer
    >>> measures = Measures(Scorer(["mrr@10"]).columns)
    >>> of_users(measures, [[2, 3], [1, 4]])  # users, lists, lists squared, sum, sum squared, lists x sum
    [2, 3, 5, 7, 25, 10]
    """
    rows: list[list[int]] | npt.NDArray[np.int64]
    if isinstance(totals, np.ndarray) and isinstance(covariates, np.ndarray) == measures.covariates:
        rows = _rows(measures, totals, covariates if isinstance(covariates, np.ndarray) else None)
        large = bool(((rows >= TOTAL_MAX) | (rows <= -TOTAL_MAX)).any())
    else:
        listed = [[int(value) for value in each] for each in totals]
        if any(each and each[0] < 0 for each in listed):
            raise ExperimentError("totals", f"got {min(each[0] for each in listed)} lists; allowed are 0 or more")
        with_covariates = list(covariates) if len(covariates) else [None] * len(listed)
        rows = [measures.row(each, extra) for each, extra in zip(listed, with_covariates, strict=True) if any(each[:1])]
        large = any(abs(value) >= TOTAL_MAX for row in rows for value in row)
    if large or len(rows) <= FEW_USERS:
        return _one_by_one(measures, rows.tolist() if isinstance(rows, np.ndarray) else rows)
    matrix = np.asarray(rows, dtype=np.int64)
    result = zero(measures)
    for start in range(0, len(matrix), CHUNK_USERS):
        result = add(result, _products(measures, matrix[start : start + CHUNK_USERS]))
    return result


def _rows(measures: Measures, totals: npt.NDArray[np.int64], covariates: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    if totals.ndim != 2 or totals.shape[1] != measures.totals_width:
        raise ExperimentError("totals", f"got shape {totals.shape}; allowed is (users, {measures.totals_width})")
    if (totals[:, 0] < 0).any():
        raise ExperimentError("totals", f"got {totals[:, 0].min()} lists; allowed are 0 or more")
    listed = totals[totals[:, 0] != 0]
    ones = np.ones((len(listed), 1), dtype=np.int64)
    hits = listed[:, [place - 1 for place in measures.hits]] != 0
    parts = [ones, listed, hits.astype(np.int64)]
    if covariates is not None:
        parts.append(covariates[totals[:, 0] != 0])
    return np.concatenate(parts, axis=1)


def _one_by_one(measures: Measures, rows: Iterable[Sequence[int]]) -> list[int]:
    result = zero(measures)
    for row in rows:
        result = add(result, [row[one] * row[other] for one, other in measures.pairs])
    return result


def _products(measures: Measures, rows: npt.NDArray[np.int64]) -> list[int]:
    """The sums of products of at most CHUNK_USERS rows of magnitude below TOTAL_MAX."""
    if not measures.covariates:
        return _of_all_pairs(measures, rows)
    result = zero(measures)
    plain, with_covariate = measures.paired_at
    for at, sums in zip(plain.tolist(), _of_all_pairs(measures.plain, rows[:, : measures.plain.row_width]), strict=True):
        result[at] = sums
    left, right = measures.pair_sides[:, with_covariate]
    for at, sums in zip(with_covariate.tolist(), _of_few_pairs(left, right, rows), strict=True):
        result[at] = sums
    return result


def _of_few_pairs(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> list[int]:
    """The sums of products of some pairs of columns, one by one: a covariate is multiplied with few of the other columns."""
    mask = (1 << WORD_BITS) - 1
    result = [0] * len(left)
    for start in range(0, len(rows), BLOCK_USERS_MAX):
        block = rows[start : start + BLOCK_USERS_MAX]
        words = (block & mask, (block >> WORD_BITS) & mask, block >> (2 * WORD_BITS))
        used = [np.asarray(word.any(axis=0)) for word in words]
        for one, other in product(range(3), repeat=2):
            pairs = np.flatnonzero(used[one][left] & used[other][right])  # few numbers fill all their words
            sums = np.einsum("up,up->p", words[one][:, left[pairs]], words[other][:, right[pairs]])
            for at, value in zip(pairs.tolist(), sums.tolist(), strict=True):
                result[at] += value << (WORD_BITS * (one + other))
    return result


def _of_all_pairs(measures: Measures, rows: npt.NDArray[np.int64]) -> list[int]:
    """The same by a matrix product: most pairs of columns are among those that are asked for."""
    width = rows.shape[1]
    mask = (1 << WORD_BITS) - 1
    words = np.concatenate([rows & mask, (rows >> WORD_BITS) & mask, rows >> (2 * WORD_BITS)], axis=1).astype(np.float64)
    block = min(max(BLOCK_PRODUCTS // (3 * width) ** 2, 16), BLOCK_USERS_MAX)
    products = np.zeros((3 * width, 3 * width), dtype=np.int64)
    for start in range(0, len(words), block):
        part = words[start : start + block]
        products += (part.T @ part).astype(np.int64)
    left, right = measures.pair_sides
    by_words = [products[left + one * width, right + other * width].tolist() for one in range(3) for other in range(3)]
    shifts = [WORD_BITS * (one + other) for one in range(3) for other in range(3)]
    return [sum(value << shift for value, shift in zip(values, shifts, strict=True)) for values in zip(*by_words, strict=True)]
