"""The memory store fulfils the store contract and stays fast and small with many users."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors import memory
from streammetrics.connectors.memory import MemoryStore
from tests.support.store_contract import FOREVER, Owner, StoreContract, due_before


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


MOVES = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.integers(0, 9), st.none()), min_size=1), max_size=20)


@given(moves=MOVES, before_ms=st.integers(0, 10), due_max=st.integers(0, 7))
def test_due_users_are_those_of_a_sorted_list_after_any_moves(moves: list[dict[str, int | None]], before_ms: int, due_max: int) -> None:
    """A due time of None means that the user is deleted."""
    owner, due = Owner(MemoryStore(), 0), dict[str, int]()
    for move in moves:
        put = {user: due_ms for user, due_ms in move.items() if due_ms is not None}
        gone = [user for user in move if move[user] is None]
        owner.must_commit(users=dict.fromkeys(put, b""), due=put, users_gone=gone)
        due = {user: due_ms for user, due_ms in (due | put).items() if user not in gone}
        order = sorted(due, key=lambda user: (due[user], user))
        expected = [user for user in order if due[user] < before_ms][:due_max]
        loaded = owner.load([], due_before(before_ms, due_max))
        assert loaded.due == expected
        assert loaded.next_due_ms == next((due[user] for user in order[len(expected) :]), None)


def held_bytes() -> int:
    """Return the bytes that lines of the store have allocated and still hold."""
    traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, memory.__file__)])
    return sum(statistic.size for statistic in traces.statistics("filename"))


def test_memory_does_not_grow_with_due_times_that_move() -> None:
    owner, users = Owner(MemoryStore(), 0), [f"user-{number}" for number in range(1_000)]
    owner.must_commit(users=dict.fromkeys(users, b""))
    tracemalloc.start()
    try:
        for due_ms in range(2, 6):
            owner.must_commit(due=dict.fromkeys(users, due_ms))
        early = held_bytes()
        for due_ms in range(6, 106):
            owner.must_commit(due=dict.fromkeys(users, due_ms))
        late = held_bytes()
    finally:
        tracemalloc.stop()
    assert 0 < late < 2 * early


def test_deleted_users_leave_nothing_behind() -> None:
    owner = Owner(MemoryStore(), 0)
    tracemalloc.start()
    try:
        empty = tracemalloc.get_traced_memory()[0]
        for start in range(0, 50_000, 1_000):
            users = [f"user-{number}" for number in range(start, start + 1_000)]
            owner.must_commit(users={user: b"%-200s" % user.encode() for user in users}, due=dict.fromkeys(users, start))
        peak = tracemalloc.get_traced_memory()[0] - empty
        while due := owner.load([], due_before(FOREVER)).due:
            owner.must_commit(users_gone=due)
        del users, due
        rest = tracemalloc.get_traced_memory()[0] - empty
    finally:
        tracemalloc.stop()
    assert rest < peak / 100
