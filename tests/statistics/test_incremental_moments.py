"""Changes of the moments of many variants, and of many pairs of cells, together equal those of each user by definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.statistics.incremental_moments import BLOCK_USERS, cross_changes, moment_changes
from streammetrics.statistics.moments import CovarianceLayout, add, cross_of_users, subtract, zero
from tests.support.columns import MEASURES, of_user


@given(st.data(), st.sampled_from((1, 5, 2 * BLOCK_USERS + 3)), st.sampled_from((44, 62, 63)))
def test_changes_of_sets_of_arms_equal_one_by_one(data: st.DataObject, users: int, bits: int) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    before, after = (random.integers(0, 1 << bits, (users, MEASURES.totals_width)) for _ in range(2))
    for totals_of in (before, after):
        totals_of[random.random(users) < 0.2] = 0
    members = data.draw(st.lists(st.lists(st.integers(0, 3), unique=True), min_size=1, max_size=5))
    sets = random.integers(0, len(members), users)
    expected = [zero(MEASURES) for _ in range(4)]
    for number, one, other in zip(sets.tolist(), before.tolist(), after.tolist(), strict=True):
        for arm in members[number]:
            expected[arm] = add(expected[arm], subtract(of_user(MEASURES, other), of_user(MEASURES, one)))
    assert moment_changes(MEASURES, before, after, sets, members, 4) == expected


@given(st.data(), st.sampled_from((0, 1, 5, 2 * BLOCK_USERS + 3)), st.sampled_from((44, 62, 63)))
def test_changes_of_pairs_of_cells_equal_one_by_one(data: st.DataObject, users: int, bits: int) -> None:
    """A row may be one of several users' pairs, as that of a user in three stages is."""
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    layout, count = CovarianceLayout(MEASURES), users + 2
    before, after = (random.integers(0, 1 << bits, (count, MEASURES.totals_width)) for _ in range(2))
    for totals_of in (before, after):
        totals_of[random.random(count) < 0.2] = 0
    members = data.draw(st.lists(st.lists(st.integers(0, 3), unique=True), min_size=1, max_size=5))
    sets, ones, others = (random.integers(0, end, users) for end in (len(members), count, count))
    expected = [[0] * layout.width for _ in range(4)]
    for number, one, other in zip(sets.tolist(), ones.tolist(), others.tolist(), strict=True):
        new, old = (cross_of_users(layout, [totals_of[one].tolist()], [totals_of[other].tolist()]) for totals_of in (after, before))
        for pair in members[number]:
            expected[pair] = add(expected[pair], subtract(new, old))
    assert cross_changes(layout, before, after, (ones, others), sets, members, 4) == expected
