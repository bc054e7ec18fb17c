"""Distinct users counted by gaps equal sets of users, for every window, any batches and any partition of users."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import CallerError
from streammetrics.windows.user_counts import NOWHERE, first_in_window, occurrences

GAP_MAX = 6
KINDS = 3
USERS = 4
lists_seen = st.lists(st.tuples(st.integers(0, USERS - 1), st.integers(0, 20), st.integers(0, KINDS - 1)), max_size=40)
"""User, pane and level of each list."""


def counted(lists: list[tuple[int, int, int]], cuts: list[int] | None = None) -> Counter[tuple[int, int, int]]:
    """Return occurrences by (kind, pane, gap). Lists are counted in order of time, in batches that end at `cuts`."""
    in_order = sorted(lists, key=lambda one: one[1])
    last = np.full((USERS, KINDS), NOWHERE)
    tally: Counter[tuple[int, int, int]] = Counter()
    ends = [0, *sorted(cuts or []), len(in_order)]
    for start, end in pairwise(ends):
        rows, panes, levels = np.array(in_order[start:end], dtype=np.int64).reshape(-1, 3).T
        columns = occurrences(rows, panes, levels, last, GAP_MAX)
        tally.update(zip(columns.kinds.tolist(), columns.panes.tolist(), columns.gaps.tolist(), strict=True))
    return tally


def users_of(tally: Counter[tuple[int, int, int]], kind: int, start: int, end: int) -> int:
    of_kind = [(pane, gap, count) for (its_kind, pane, gap), count in tally.items() if its_kind == kind]
    panes, gaps, counts = np.array(of_kind, dtype=np.int64).reshape(-1, 3).T
    return int(counts[first_in_window(panes, gaps, start, end, GAP_MAX)].sum())


@given(lists_seen, st.data())
def test_each_user_of_a_window_is_counted_once(lists: list[tuple[int, int, int]], data: st.DataObject) -> None:
    tally = counted(lists, data.draw(st.lists(st.integers(0, len(lists)), max_size=4)))
    for kind in range(KINDS):
        for length in range(1, GAP_MAX + 1):
            for start in range(-2, 22):
                expected = {user for user, pane, level in lists if start <= pane < start + length and level >= kind}
                assert users_of(tally, kind, start, start + length) == len(expected)


@given(lists_seen, st.data())
def test_batches_and_the_order_within_them_do_not_matter(lists: list[tuple[int, int, int]], data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(lists)), max_size=6))
    assert counted(data.draw(st.permutations(lists)), cuts) == counted(lists)


@given(lists_seen, st.integers(0, USERS))
def test_counts_of_different_users_add_up(lists: list[tuple[int, int, int]], cut: int) -> None:
    parts = [[one for one in lists if (one[0] < cut) == side] for side in (True, False)]
    assert counted(parts[0]) + counted(parts[1]) == counted(lists)


def test_invalid_arguments_are_rejected() -> None:
    one, last = np.array([0]), np.array([[5]])
    with pytest.raises(CallerError, match="gap_max: got 0"):
        occurrences(one, np.array([5]), one, last, 0)
    with pytest.raises(CallerError, match="before the last pane of its user"):
        occurrences(one, np.array([4]), one, last, 5)
    with pytest.raises(CallerError, match="window: got 7 panes; allowed are at most gap_max, 6"):
        first_in_window(one, one, 0, 7, 6)
