"""Distinct users by gaps equal counting sets, for every window, after any change, over any partition."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.experiments.measures import ExperimentError
from streammetrics.experiments.user_windows import changes, distinct_users, kept, merge, occurrences

GAP_MAX = 6
panes = st.sets(st.integers(0, 20))
people = st.dictionaries(st.integers(0, 6), panes)


@given(people)
def test_every_window_s_users_are_counted_once(everyone: dict[int, set[int]]) -> None:
    tallies = merge(occurrences(sorted(mine), GAP_MAX) for mine in everyone.values())
    for length in range(1, GAP_MAX + 1):
        for start in range(-2, 22):
            window = range(start, start + length)
            expected = sum(any(pane in mine for pane in window) for mine in everyone.values())
            assert distinct_users(tallies, start, start + length, GAP_MAX) == expected


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=40))
def test_tallies_after_any_changes_equal_those_of_the_present_panes(history: list[tuple[int, int]]) -> None:
    """Each step shows a user in a pane, or takes him out of it again."""
    present: dict[int, set[int]] = {}
    tallies: Counter[tuple[int, int]] = Counter()
    for user, pane in history:
        before = sorted(present.get(user, ()))
        present[user] = set(before) ^ {pane}
        tallies.update(changes(before, sorted(present[user]), GAP_MAX))
    assert {key: count for key, count in tallies.items() if count} == merge(occurrences(sorted(mine), GAP_MAX) for mine in present.values())


@given(people, st.integers(0, 6))
def test_tallies_merge_over_partitions(everyone: dict[int, set[int]], cut: int) -> None:
    parts = [merge(occurrences(sorted(mine), GAP_MAX) for user, mine in everyone.items() if (user < cut) == side) for side in (True, False)]
    assert merge(parts) == merge(reversed(parts)) == merge(occurrences(sorted(mine), GAP_MAX) for mine in everyone.values())


@given(panes, panes, st.integers(0, 20))
def test_a_user_s_state_may_forget_what_is_longer_ago_than_the_longest_window(before: set[int], news: set[int], oldest_open: int) -> None:
    closed = {pane for pane in before if pane < oldest_open}
    after = closed | {pane for pane in news if pane >= oldest_open}
    shortened = [kept(sorted(mine), oldest_open, GAP_MAX) for mine in (before, after)]
    assert changes(*shortened, GAP_MAX) == changes(sorted(before), sorted(after), GAP_MAX)
    assert len(shortened[1]) <= GAP_MAX - 1 + sum(pane >= oldest_open for pane in after)


def test_a_user_s_state_keeps_the_last_pane_that_can_matter_and_no_earlier_one() -> None:
    oldest = 10 - GAP_MAX + 1
    assert kept([oldest - 1, oldest, 10], 10, GAP_MAX) == [oldest, 10]
    assert occurrences([oldest, 10], GAP_MAX)[10, GAP_MAX - 1] == 1


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ExperimentError, match="gap_max: got 0"):
        occurrences([1], 0)
    with pytest.raises(ExperimentError, match=r"panes: got \[2, 1\]"):
        occurrences([2, 1], 5)
    with pytest.raises(ExperimentError, match="window: got 7 panes; allowed are at most gap_max, 6"):
        distinct_users({}, 0, 7, 6)
