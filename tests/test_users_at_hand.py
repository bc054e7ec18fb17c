"""Users that are read ahead: what a step is told of them is what the store holds then, whoever was asked for before."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future

from streammetrics.adapters.memory_store import MemoryStore
from streammetrics.changes import Changes
from streammetrics.engine import Needs
from streammetrics.ports import Commit, Input, Loaded, Record
from streammetrics.users_at_hand import UsersAtHand
from streammetrics.work import Ahead, Chunk, Sent, Work, WorkerRules
from tests.faults import Underway
from tests.test_service import Slow

STATES = {name: name.encode() * 10 for name in "abc"}
CHUNK = Chunk.of(0, [Record(0, -1, b""), Record(1, -1, b"")], [(0, -1, ()), (1, -1, ())])


def store_of(states: dict[str, bytes] = STATES) -> MemoryStore:
    store = MemoryStore()
    claim = store.claim(0, "mine")
    store.commit(Commit(0, claim.epoch, "mine", 1, Changes(b"control", 0, users=states)))
    return store


def needs(users: Iterable[str]) -> Needs:
    return Needs(frozenset(users), None)


def work_of(users: Iterable[str] | None = None, loaded: Loaded | None = None) -> Work:
    """A task, and what was read ahead of CHUNK."""
    work = Work(0, (Input("impressions", 0),))
    if users is not None:
        answer: Future[Loaded] | None = None
        if loaded is not None:
            answer = Future()
            answer.set_result(loaded)
        work.ahead = Ahead(CHUNK, frozenset(users), answer)
    return work


class CountingStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[list[str]] = []

    def load(self, task, users, due=None, totals=(), bytes_max=None):  # type: ignore[no-untyped-def]
        self.asked.append(sorted(users))
        return super().load(task, users, due, totals, bytes_max)


def test_who_was_read_ahead_is_not_asked_for_again() -> None:
    store = CountingStore()
    store.commit(Commit(0, store.claim(0, "mine").epoch, "mine", 1, Changes(b"control", 0, users=STATES)))
    users, work = UsersAtHand(store, WorkerRules()), work_of()
    users.read_ahead(work, CHUNK, needs("ab"))
    assert users.read(work, CHUNK, needs("abz")).users == {"a": STATES["a"], "b": STATES["b"]}
    assert store.asked == [["a", "b"], ["z"]]
    assert users.read(work_of("ab", Loaded({})), CHUNK, needs("")).users == {}
    assert store.asked == [["a", "b"], ["z"]], "nobody is wanted any more"


def test_who_is_not_in_the_store_is_not_asked_for_twice() -> None:
    store = CountingStore()
    users, work = UsersAtHand(store, WorkerRules()), work_of()
    users.read_ahead(work, CHUNK, needs("ab"))
    assert users.read(work, CHUNK, needs("ab")).users == {}
    assert store.asked == [["a", "b"]]


def test_reading_goes_on_while_others_work() -> None:
    underway = Underway(Slow())
    users, work = UsersAtHand(store_of(), WorkerRules(), underway), work_of()
    users.read_ahead(work, CHUNK, needs("a"))
    assert len(underway.sent) == 1
    assert not underway.sent[0].running()
    assert users.read(work, CHUNK, needs("a")).users == {"a": STATES["a"]}


def test_whom_the_bytes_left_unread_ahead_is_read_then() -> None:
    work = work_of("abc", Loaded({"a": STATES["a"]}, unread=("b", "c")))
    assert UsersAtHand(store_of(), WorkerRules()).read(work, CHUNK, needs("abc")).users == STATES


def test_what_was_read_before_a_commit_is_read_again() -> None:
    work = work_of("a", None)
    assert UsersAtHand(store_of(), WorkerRules()).read(work, CHUNK, needs("a")).users == {"a": STATES["a"]}


def test_what_was_read_ahead_of_another_chunk_stays_for_that_one() -> None:
    work = work_of("a", Loaded({"a": b"of then"}))
    users = UsersAtHand(store_of(), WorkerRules())
    assert users.read(work, CHUNK.cut(1)[1], needs("a")).users == {"a": STATES["a"]}
    assert users.read(work, CHUNK, needs("a")).users == {"a": b"of then"}


def test_whom_the_commit_on_its_way_ends_nobody_asks_for() -> None:
    """The store tells of him until it is written; afterwards it tells that nothing is left of him."""
    store, work = CountingStore(), work_of()
    work.sent = Sent(Commit(0, 1, "mine", 2, Changes(b"control", 0)), {}, frozenset("a"))
    users = UsersAtHand(store, WorkerRules())
    users.read_ahead(work, CHUNK, needs("ab"))
    users.read(work, CHUNK, needs("ab"))
    assert store.asked == [["b"]]
    users.read_ahead(work, CHUNK, needs("ab"))
    work.sent = None
    users.read(work, CHUNK, needs("ab"))
    assert store.asked == [["b"], ["b"], ["a"]]
