"""Cross moments of two cells equal the sums of products over the users in both, and merge exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments import ExperimentError
from streammetrics.statistics.moments import CovarianceLayout, add, cross_of_users
from tests.support.columns import MEASURES, totals

LAYOUT = CovarianceLayout(MEASURES)
NOBODY = [0] * MEASURES.totals_width


def by_definition(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> dict[str, tuple[int, int, int, int]]:
    """By measure: the sums of d d', y y', y d' and d y' over the users with lists in both cells."""
    sums = {}
    for measure in MEASURES:
        pairs = [
            tuple(MEASURES.row(totals)[place] for totals in (left, right) for place in (measure.top, measure.bottom))
            for left, right in zip(one, other, strict=True)
            if left[0] and right[0]
        ]
        sums[str(measure)] = (
            sum(d * e for _, d, _, e in pairs),
            sum(y * x for y, _, x, _ in pairs),
            sum(y * e for y, _, _, e in pairs),
            sum(d * x for _, d, x, _ in pairs),
        )
    return sums


USERS_IN_BOTH = st.lists(st.tuples(totals() | st.just(NOBODY), totals() | st.just(NOBODY)), max_size=14)


@given(USERS_IN_BOTH, st.integers(0, 14))
def test_cross_moments_equal_their_definition_in_any_parts_and_form(users: list[tuple[list[int], list[int]]], cut: int) -> None:
    one, other = ([pair[side] for pair in users] for side in (0, 1))
    cross = cross_of_users(LAYOUT, one, other)
    assert cross == add(cross_of_users(LAYOUT, one[:cut], other[:cut]), cross_of_users(LAYOUT, one[cut:], other[cut:]))
    arrays = [np.array(rows, dtype=np.int64).reshape(-1, MEASURES.totals_width) for rows in (one, other)]
    assert cross == cross_of_users(LAYOUT, *arrays) == LAYOUT.swapped(cross_of_users(LAYOUT, other, one))
    sums = {str(measure): tuple(cross[place] for place in LAYOUT.places(measure)) for measure in MEASURES}
    assert sums == by_definition(one, other)
    assert cross[0] == sum(bool(left[0] and right[0]) for left, right in users)


def test_cells_with_other_users_are_refused() -> None:
    with pytest.raises(ExperimentError, match="got 1 users in one cell and 0 in the other"):
        cross_of_users(LAYOUT, [NOBODY], [])
