"""Users that are asked for ahead: what a step is told of them is what the store holds then, whatever was asked before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pytest

from streammetrics.connectors.base import READ_SLICE, Commit, DueBefore, Input, LoadedUsers, PendingUsers, Record
from streammetrics.connectors.memory import MemoryStore
from streammetrics.engine.engine import Needs
from streammetrics.engine.stored_state import StateChanges
from streammetrics.runtime.owned_task import Chunk, InFlightCommit, OwnedTask, Prefetched, WorkerRules
from streammetrics.runtime.prefetch import Prefetch, with_due

STATES = {name: name.encode() * 10 for name in "abc"}
CHUNK, LATER = (
    Chunk.of(0, [Record(first, -1, b""), Record(first + 1, -1, b"")], [(first, -1, ()), (first + 1, -1, ())]) for first in (0, 2)
)


def needs(users: Iterable[str]) -> Needs:
    return Needs(frozenset(users), None)


def work_of(users: Iterable[str] = (), told: Mapping[str, bytes] | None = None) -> OwnedTask:
    """A task, and what was asked for ahead of CHUNK."""
    work = OwnedTask(0, (Input("impressions", 0),))
    if users:
        work.ahead.append(Prefetched(CHUNK, frozenset(users), lambda: told))
    return work


class CountingStore(MemoryStore):
    def __init__(self, states: dict[str, bytes]) -> None:
        super().__init__()
        self.commit(Commit(0, self.claim(0, "mine").epoch, "mine", 1, StateChanges(b"control", 0, users=states)))
        self.loaded: list[list[str]] = []

    def load(
        self, task: int, users: Collection[str], due: DueBefore | None = None, totals: Collection[str] = (), bytes_max: int | None = None
    ) -> LoadedUsers:
        self.loaded.append(sorted(users))
        return super().load(task, users, due, totals, bytes_max)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(STATES)


@pytest.fixture
def users(store: CountingStore) -> Prefetch:
    return Prefetch(store, WorkerRules())


def test_who_was_asked_for_ahead_is_not_asked_for_again(store: CountingStore, users: Prefetch) -> None:
    work = work_of()
    users.prefetch(work, CHUNK, needs("abx"))
    assert users.read(work, CHUNK, needs("abcx")).users == STATES
    assert store.loaded == [["a", "b", "x"], ["c"]]


def test_who_has_come_to_hand_since_is_not_asked_for_at_all(store: CountingStore, users: Prefetch) -> None:
    assert users.read(work_of("ab", {"a": STATES["a"]}), CHUNK, needs("")) == LoadedUsers({"a": STATES["a"]})
    assert store.loaded == []


def test_whose_answer_was_lost_on_the_way_is_loaded(users: Prefetch) -> None:
    assert users.read(work_of("abc", None), CHUNK, needs("abc")).users == STATES


def test_who_could_not_be_asked_for_ahead_is_loaded() -> None:
    large = Prefetch(CountingStore(STATES), WorkerRules(commit_bytes_max=10))
    work = work_of()
    large.prefetch(work, CHUNK, needs([*"abc", *(f"{number}" for number in range(READ_SLICE))]))
    assert work.ahead[0].answer is None
    assert large.read(work, CHUNK, needs("abc")).users == STATES


def test_whom_a_commit_has_written_since_is_loaded_again(store: CountingStore, users: Prefetch) -> None:
    work = work_of("abx", {"a": b"of then", "b": b"of now"})
    users.written(work, {"a", "y"})
    assert users.read(work, CHUNK, needs("abx")).users == {"a": STATES["a"], "b": b"of now"}
    assert store.loaded == [["a"]]


def test_who_was_asked_for_with_an_earlier_chunk_is_not_asked_for_with_a_later_one(store: CountingStore, users: Prefetch) -> None:
    work = work_of()
    users.prefetch(work, CHUNK, needs("ab"))
    users.prefetch(work, LATER, needs("bc"))
    assert users.read(work, CHUNK, needs("ab")).users == {"a": STATES["a"], "b": STATES["b"]}
    assert users.read(work, LATER, needs("bc")).users == {"b": STATES["b"], "c": STATES["c"]}, "b was let go in between"
    assert store.loaded == [["a", "b"], ["c"], ["b"]]


def test_the_bytes_of_a_commit_are_shared_by_all_who_are_asked_for_ahead() -> None:
    bounds: list[int | None] = []

    class Bounded(CountingStore):
        def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
            bounds.append(bytes_max)
            return super().request(task, users, bytes_max)

    users, work = Prefetch(Bounded({}), WorkerRules(commit_bytes_max=1_200)), work_of()
    for names in ("abc", "bcd", "efghi", "bcd"):
        users.prefetch(work, CHUNK, needs(names))
    assert bounds == [1_200, 300, 666], "all; one of four; five of nine; nobody is asked for"


def test_what_was_asked_for_another_chunk_stays_for_that_one(users: Prefetch) -> None:
    work = work_of("a", {"a": b"of then"})
    assert users.read(work, LATER, needs("a")).users == {"a": STATES["a"]}
    assert users.read(work, CHUNK, needs("a")).users == {"a": b"of then"}


def test_whom_the_commit_on_its_way_ends_nobody_asks_for(store: CountingStore, users: Prefetch) -> None:
    """The store tells of him until it is written; afterwards it tells that nothing is left of him."""
    work = work_of()
    work.sent = InFlightCommit(Commit(0, 1, "mine", 2, StateChanges(b"control", 0)), {}, frozenset("a"))
    users.prefetch(work, CHUNK, needs("ab"))
    assert users.read(work, CHUNK, needs("ab")).users == {"b": STATES["b"]}
    assert store.loaded == [["b"]]
    users.prefetch(work, CHUNK, needs("ab"))
    work.sent = None
    assert users.read(work, CHUNK, needs("ab")).users == {"a": STATES["a"], "b": STATES["b"]}
    assert store.loaded == [["b"], ["b"], ["a"]]


def test_of_who_is_due_only_those_are_loaded_who_are_not_at_hand(store: CountingStore) -> None:
    loaded = LoadedUsers({"b": b"newer"}, due=["c", "b", "x", "a"], next_due_ms=7, totals={"a": b"sums"})
    whole = with_due(store, 0, loaded, {"a"})
    assert whole == LoadedUsers({"b": b"newer", "c": STATES["c"]}, ["c", "b", "x", "a"], 7, {"a": b"sums"})
    assert store.loaded == [["c", "x"]]
    assert with_due(store, 0, loaded, set("acx")) is loaded


def test_who_is_due_comes_to_a_step_with_his_state_unless_he_is_at_hand(store: CountingStore, users: Prefetch) -> None:
    epoch = store.claim(0, "mine").epoch
    store.commit(Commit(0, epoch, "mine", 2, StateChanges(b"control", 0, due={"a": 3, "b": 4, "c": 9}, totals={"b": b"sums"})))
    work = work_of("c", {"c": b"told"})
    work.users_max = 100
    read = users.read(work, CHUNK, Needs(frozenset("a"), 9))
    assert read == LoadedUsers({"a": STATES["a"], "b": STATES["b"], "c": b"told"}, ["a", "b"], 9, {"b": b"sums"})
    assert store.loaded == [["a"], ["b"]]


@pytest.mark.parametrize("lost", [False, True])
def test_who_is_due_may_be_asked_for_before_the_step_that_looks_at_them(lost: bool) -> None:
    store = CountingStore(STATES)
    epoch = store.claim(0, "mine").epoch
    store.commit(Commit(0, epoch, "mine", 2, StateChanges(b"control", 0, due={"a": 3, "b": 9}, totals={"a": b"sums", "c": b"more"})))
    users, work = Prefetch(store, WorkerRules()), work_of()
    work.users_max = 100
    assert not users.request_due(work, needs("b")), "nobody is wanted"
    assert users.request_due(work, Needs(frozenset(), 5))
    assert not users.request_due(work, Needs(frozenset(), 5)), "once"
    if lost:
        work.due_prefetched = lambda: None
    assert users.read(work, CHUNK, needs("b")) == LoadedUsers({"b": STATES["b"]}, []), "not wanted yet"
    told = users.read(work, None, Needs(frozenset(), 5, frozenset("c")))
    assert told == LoadedUsers({"a": STATES["a"]}, ["a"], 9, {"a": b"sums", "c": b"more"})
    assert work.due_prefetched is None
