"""A step always gets the users as the store has them now, whatever was prefetched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import pytest

from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.source import Input, InputRecord
from streammetrics.connectors.store import READ_SLICE, Commit, DueQuery, PendingUsers
from streammetrics.engine.engine import Needs
from streammetrics.runtime.consume.backlog import Chunk, PrefetchedChunk
from streammetrics.runtime.consume.limits import CommitRoom, WorkerRules
from streammetrics.runtime.consume.owned_task import Assignment, InFlightCommit, OwnedTask
from streammetrics.runtime.consume.prefetch import Prefetch, with_due
from streammetrics.state.tables import LoadedUsers, StateChanges

STATES = {name: name.encode() * 10 for name in "abc"}
CHUNK, LATER = (
    Chunk.of(0, [InputRecord(first, -1, b""), InputRecord(first + 1, -1, b"")], [(first, -1, ()), (first + 1, -1, ())]) for first in (0, 2)
)


def needs(users: Iterable[str]) -> Needs:
    return Needs(frozenset(users), None)


def task_with(users: Iterable[str] = (), states: Mapping[str, bytes] | None = None, **rules: int) -> OwnedTask:
    """A task for which these users of CHUNK were requested early; `states` is the reply."""
    task = OwnedTask(Assignment(0, (Input("impressions", 0),)), CommitRoom(WorkerRules(**rules)))  # type: ignore[arg-type]
    if users:
        task.backlog.prefetched.append(PrefetchedChunk(CHUNK, frozenset(users), lambda: states))
    return task


class CountingStore(MemoryStore):
    def __init__(self, states: dict[str, bytes]) -> None:
        super().__init__()
        self.commit(Commit(0, self.claim(0, "mine").epoch, "mine", 1, StateChanges(b"control", users=states)))
        self.loaded: list[list[str]] = []

    def load(
        self, task: int, users: Collection[str], due: DueQuery | None = None, totals: Collection[str] = (), bytes_max: int | None = None
    ) -> LoadedUsers:
        self.loaded.append(sorted(users))
        return super().load(task, users, due, totals, bytes_max)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(STATES)


@pytest.fixture
def users(store: CountingStore) -> Prefetch:
    return Prefetch(store)


def test_prefetched_users_are_not_read_again(store: CountingStore, users: Prefetch) -> None:
    task = task_with()
    users.prefetch(task, CHUNK, needs("abx"))
    assert users.read(task, CHUNK, needs("abcx")).users == STATES
    assert store.loaded == [["a", "b", "x"], ["c"]]


def test_users_that_a_step_does_not_need_are_not_read(store: CountingStore, users: Prefetch) -> None:
    assert users.read(task_with("ab", {"a": STATES["a"]}), CHUNK, needs("")) == LoadedUsers({"a": STATES["a"]})
    assert store.loaded == []


def test_users_with_a_lost_reply_are_loaded(users: Prefetch) -> None:
    assert users.read(task_with("abc", None), CHUNK, needs("abc")).users == STATES


def test_users_that_could_not_be_prefetched_are_loaded() -> None:
    large = Prefetch(CountingStore(STATES))
    task = task_with(commit_bytes_max=10)
    large.prefetch(task, CHUNK, needs([*"abc", *(f"{number}" for number in range(READ_SLICE))]))
    assert task.backlog.prefetched[0].reply is None
    assert large.read(task, CHUNK, needs("abc")).users == STATES


def test_a_prefetched_user_that_a_commit_has_written_since_is_loaded_again(store: CountingStore, users: Prefetch) -> None:
    task = task_with("abx", {"a": b"of then", "b": b"of now"})
    users.forget_written(task, {"a", "y"})
    assert users.read(task, CHUNK, needs("abx")).users == {"a": STATES["a"], "b": b"of now"}
    assert store.loaded == [["a"]]


def test_a_user_prefetched_with_an_earlier_chunk_is_not_prefetched_with_a_later_one(store: CountingStore, users: Prefetch) -> None:
    task = task_with()
    users.prefetch(task, CHUNK, needs("ab"))
    users.prefetch(task, LATER, needs("bc"))
    assert users.read(task, CHUNK, needs("ab")).users == {"a": STATES["a"], "b": STATES["b"]}
    assert users.read(task, LATER, needs("bc")).users == {"b": STATES["b"], "c": STATES["c"]}, "b was evicted in between"
    assert store.loaded == [["a", "b"], ["c"], ["b"]]


def test_all_prefetched_users_share_the_bytes_of_a_commit() -> None:
    bounds: list[int | None] = []

    class Bounded(CountingStore):
        def request(self, task: int, users: Collection[str], bytes_max: int | None = None) -> PendingUsers | None:
            bounds.append(bytes_max)
            return super().request(task, users, bytes_max)

    users, task = Prefetch(Bounded({})), task_with(commit_bytes_max=1_200)
    for names in ("abc", "bcd", "efghi", "bcd"):
        users.prefetch(task, CHUNK, needs(names))
    assert bounds == [1_200, 300, 666], "all; one of four; five of nine; none is requested"


def test_users_prefetched_for_another_chunk_stay_for_that_one(users: Prefetch) -> None:
    task = task_with("a", {"a": b"of then"})
    assert users.read(task, LATER, needs("a")).users == {"a": STATES["a"]}
    assert users.read(task, CHUNK, needs("a")).users == {"a": b"of then"}


def test_users_that_the_commit_in_flight_deletes_are_not_read(store: CountingStore, users: Prefetch) -> None:
    """The store returns the user until that commit is written, and nothing afterwards."""
    task = task_with()
    task.commits.in_flight = InFlightCommit(Commit(0, 1, "mine", 2, StateChanges(b"control")), {}, frozenset("a"))
    users.prefetch(task, CHUNK, needs("ab"))
    assert users.read(task, CHUNK, needs("ab")).users == {"b": STATES["b"]}
    assert store.loaded == [["b"]]
    users.prefetch(task, CHUNK, needs("ab"))
    task.commits.in_flight = None
    assert users.read(task, CHUNK, needs("ab")).users == {"a": STATES["a"], "b": STATES["b"]}
    assert store.loaded == [["b"], ["b"], ["a"]]


def test_due_users_are_loaded_unless_they_are_cached(store: CountingStore) -> None:
    loaded = LoadedUsers({"b": b"newer"}, due=["c", "b", "x", "a"], next_due_ms=7, totals={"a": b"sums"})
    whole = with_due(store, 0, loaded, {"a"})
    assert whole == LoadedUsers({"b": b"newer", "c": STATES["c"]}, ["c", "b", "x", "a"], 7, {"a": b"sums"})
    assert store.loaded == [["c", "x"]]
    assert with_due(store, 0, loaded, set("acx")) is loaded


def test_due_users_come_to_a_step_with_their_state(store: CountingStore, users: Prefetch) -> None:
    epoch = store.claim(0, "mine").epoch
    store.commit(Commit(0, epoch, "mine", 2, StateChanges(b"control", due={"a": 3, "b": 4, "c": 9}, totals={"b": b"sums"})))
    task = task_with("c", {"c": b"prefetched"})
    read = users.read(task, CHUNK, Needs(frozenset("a"), 9))
    assert read == LoadedUsers({"a": STATES["a"], "b": STATES["b"], "c": b"prefetched"}, ["a", "b"], 9, {"b": b"sums"})
    assert store.loaded == [["a"], ["b"]]


@pytest.mark.parametrize("lost", [False, True])
def test_due_users_may_be_requested_before_the_step_that_needs_them(lost: bool) -> None:
    store = CountingStore(STATES)
    epoch = store.claim(0, "mine").epoch
    store.commit(Commit(0, epoch, "mine", 2, StateChanges(b"control", due={"a": 3, "b": 9}, totals={"a": b"sums", "c": b"more"})))
    users, task = Prefetch(store), task_with()
    assert not users.request_due(task, needs("b")), "none is needed"
    assert users.request_due(task, Needs(frozenset(), 5))
    assert not users.request_due(task, Needs(frozenset(), 5)), "only once"
    if lost:
        task.backlog.due = lambda: None
    assert users.read(task, CHUNK, needs("b")) == LoadedUsers({"b": STATES["b"]}, []), "not needed yet"
    loaded = users.read(task, None, Needs(frozenset(), 5, frozenset("c")))
    assert loaded == LoadedUsers({"a": STATES["a"]}, ["a"], 9, {"a": b"sums", "c": b"more"})
    assert task.backlog.due is None
