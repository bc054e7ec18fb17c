"""Experiments with one assignment are found by equal sums or equal arrivals, and independent ones are not."""

from __future__ import annotations

import numpy as np
import pytest

from streammetrics.experiments.comparison_warnings import TWIN_BLOCKS_MIN, same_people
from streammetrics.experiments.hours import Hours
from streammetrics.experiments.stored import StoredSums


def stored(moments: dict[str, list[int]], arrivals: dict[str, np.ndarray]) -> StoredSums:
    hours = Hours()
    for name, counts in arrivals.items():
        for hour, count in enumerate(counts):
            if count:
                hours.row(hour).new_users[name] = int(count)
    users = {name: sums[0] for name, sums in moments.items()}
    return StoredSums(experiment="x", scope="start", moments=moments, first_list_users=users, hours=hours)


def sums(arrivals: np.ndarray) -> list[int]:
    """Moments that depend on who the users are."""
    users = int(arrivals.sum())
    return [users, 3 * users, int((arrivals**2).sum()), int((arrivals * np.arange(arrivals.size)).sum())]


def pair(seed: int, hours: int = 24, each_hour: int = 60, lost: float = 0.0, salted: bool = False) -> tuple[StoredSums, StoredSums]:
    """Two experiments on the same users. `lost`: the share of users whose first list lacks the second label. `salted`: apart."""
    random = np.random.default_rng(seed)
    per_hour = random.poisson(each_hour, hours)
    new = random.binomial(per_hour, 0.5)
    again = random.binomial(per_hour, 0.5) if salted else new
    arms = {"control": per_hour - new, "new": new}
    others = {"A": random.binomial(per_hour - again, 1 - lost), "B": random.binomial(again, 1 - lost)}
    one, other = ({name: sums(counts) for name, counts in counts_by_name.items()} for counts_by_name in (arms, others))
    return stored(one, arms), stored(other, others)


@pytest.mark.parametrize("lost", [0.0, 0.01])
def test_one_assignment_is_found_though_some_lists_lack_a_label(lost: float) -> None:
    assert all(same_people(*pair(seed, lost=lost), 100) == {"control": "A", "new": "B"} for seed in range(50))


def test_independent_assignments_of_the_same_users_are_not() -> None:
    for hours in (TWIN_BLOCKS_MIN, 48):
        assert all(same_people(*pair(seed, hours, salted=True), 100) is None for seed in range(300))


def test_equal_sums_need_no_time() -> None:
    one, other = pair(1, hours=1, each_hour=900)
    assert same_people(one, other, 100) == {"control": "A", "new": "B"}
    (changed, kept) = pair(1, hours=1, each_hour=900, lost=0.01)
    assert same_people(changed, kept, 100) is None


def test_another_number_of_arms_and_few_users_are_nothing_to_compare() -> None:
    one, other = pair(1)
    assert same_people(one, other, 10_000) is None
    third = stored({**other.moments, "C": [200, 1, 1]}, {})
    assert same_people(one, third, 100) is None
