"""When users were last seen: what is stored between two commits is enough to count them exactly."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from streammetrics.metrics import Scorer
from streammetrics.state.codec import pack
from streammetrics.windows.final_lists import FinalList, FinalLists
from streammetrics.windows.last_seen import DENSE_FACTOR, LastSeenBatch, StoredLastSeen, _counted, _numbered
from streammetrics.windows.unique_users import UniqueUserWindows
from streammetrics.windows.user_counts import PaneUserCountsByStart, UserCountLayout, encode_user_counts

LAYOUT = UserCountLayout(Scorer(["hit_rate@1", "hit_rate@3"]))
list_samples = st.lists(st.tuples(st.sampled_from("uv"), st.integers(0, 12), st.sampled_from((None, 0, 2, 3))), max_size=12)
"""Lists: the user, the pane, and the position of a hit."""


def count_users(lists: list[tuple[str, int, int | None]], cuts: list[int]) -> PaneUserCountsByStart:
    """Return the user counts of panes after commits that end at `cuts`. Between them, users have their stored form only."""
    in_order = sorted(lists, key=lambda one: one[1])
    user_counts: PaneUserCountsByStart = {}
    stored: dict[str, list[StoredLastSeen]] = {}
    for start, end in pairwise([0, *sorted(cuts), len(in_order)]):
        users = sorted({user for user, _, _ in in_order[start:end]})
        lists = FinalLists([[list_of(pane, place) for who, pane, place in in_order[start:end] if who == user] for user in users])
        batch = LastSeenBatch(LAYOUT, panes_max=4, pane_ms=10, first=0, lists=lists)
        last_seen = {}
        for number, user in enumerate(users):
            runs = lists.label_runs[number]
            last_seen[user] = batch.restore(stored.get(user, ()), lists.times[runs[0][1]] // 10)
            batch.add_lists(last_seen[user], runs)
        batch.update_counts(user_counts)
        stored |= {user: batch.stored(seen) for user, seen in last_seen.items()}
    return user_counts


def list_of(pane: int, place: int | None) -> FinalList:
    return FinalList(10 * pane + 5, "w", (("ranker", "ab"[pane % 2]),), 4, () if place is None else (place, 1), (), 0)


@given(list_samples, st.lists(st.integers(0, 12), max_size=6))
def test_the_stored_state_between_two_commits_is_enough(lists: list[tuple[str, int, int | None]], cuts: list[int]) -> None:
    assert count_users(lists, [min(cut, len(lists)) for cut in cuts]) == count_users(lists, [])


def test_hits_at_both_ends_of_the_longest_window_are_one_user() -> None:
    aggregator = UniqueUserWindows(LAYOUT, 10)
    user_counts = count_users([("u", 0, 0), ("u", 3, None), ("u", 3, 0)], [2])
    aggregator.update(0, {start: encode_user_counts(of_pane) for start, of_pane in user_counts.items()}, 0)
    assert aggregator.window(40, 40, 4).arms[0].users_with_hit == {1: 1, 3: 1}


def test_lists_before_the_first_counted_pane_are_ignored() -> None:
    lists = FinalLists([[list_of(4, None), list_of(5, None)]])
    batch = LastSeenBatch(LAYOUT, panes_max=4, pane_ms=10, first=5, lists=lists)
    batch.add_lists({}, lists.label_runs[0])
    user_counts: PaneUserCountsByStart = {}
    assert batch.update_counts(user_counts) == {50}


def test_variants_seen_at_the_same_times_are_stored_once_and_split_when_they_differ() -> None:
    both, one = (("layout", "x"), ("ranker", "a")), (("ranker", "a"),)
    last_seen = {}
    for pane, labels, stored in ((1, both, 1), (2, one, 2), (3, both, 1)):
        lists = FinalLists([[FinalList(10 * pane, "w", labels, 4, (), (), 0)]])
        batch = LastSeenBatch(LAYOUT, panes_max=4, pane_ms=10, first=0, lists=lists)
        batch.add_lists(last_seen, lists.label_runs[0])
        batch.update_counts({})
        assert len(batch.stored(last_seen)) == stored
    assert batch.restore(batch.stored(last_seen), 3) == last_seen == {(("", ""), *both): (3, b"\xff" * 8)}


def test_state_written_by_the_next_owner_of_a_task_does_not_stop_the_former_owner() -> None:
    """The stored last pane is ahead of the former owner's lists. Its commit will be refused; until then it must not fail."""
    lists = FinalLists([[FinalList(at, "w", (), 1, (), (), 0) for at in (1_250, 2_150)]])
    batch = LastSeenBatch(LAYOUT, panes_max=10, pane_ms=100, first=0, lists=lists)
    last_seen = batch.restore([(Raw(pack([("", "")])), 20, b"\xff" * 8)], oldest_open=12)
    batch.add_lists(last_seen, lists.label_runs[0])
    user_counts: PaneUserCountsByStart = {}
    assert batch.update_counts(user_counts) == {2_100}
    assert user_counts == {2_100: {("", ""): {(0, 1): 1}}}


@given(st.lists(st.one_of(st.integers(0, 20), st.sampled_from((0, 1 << 50, 1 << 61))), min_size=1))
def test_dense_and_sparse_values_are_counted_alike(values: list[int]) -> None:
    given_values = np.array(values, dtype=np.int64)
    numbers, place = _numbered(given_values)
    assert (numbers.tolist(), numbers[place].tolist()) == (sorted(set(values)), values)
    for size in {max(values) + 1, DENSE_FACTOR * len(values) + (1 << 62)} if max(values) < 1_000 else {max(values) + 1}:
        alike, counts = _counted(given_values, size)
        assert dict(zip(alike.tolist(), counts.tolist(), strict=True)) == {value: values.count(value) for value in sorted(set(values))}
