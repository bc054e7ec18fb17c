"""The Redis store on a real Redis and a real cluster: the contract of every store, and servers that fail and return."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import READ_SLICE, Commit, CommitOutcome
from streammetrics.errors import StateError, StoreError
from streammetrics.state.tables import LoadedUsers, StateChanges
from tests.support.redis_store import commit_when_served
from tests.support.store_contract import ALL_DUE, Owner, StoreContract, due_before, everything
from tests.support.timing import time_bound
from tests.tools.servers.redis import RedisCluster, RedisServer


class TestStandalone(StoreContract):
    @pytest.fixture
    def store(self, redis_url: str, namespace: str) -> Iterator[RedisStore]:
        store = RedisStore(RedisSettings(url=redis_url, namespace=namespace))
        yield store
        store.close()


class TestCluster(StoreContract):
    @pytest.fixture
    def store(self, redis_cluster: RedisCluster, namespace: str) -> Iterator[RedisStore]:
        store = RedisStore(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True))
        yield store
        store.close()


# -- the memory store behaves like Redis ------------------------------------------------------------------------------

EXAMPLES = itertools.count()
USERS = st.sampled_from(["a", "b", "_", "é", ""])
STARTS = st.integers(-1, 4).map(str)
TOKENS = st.sampled_from(["one", "two"])
CHANGES = st.builds(
    StateChanges,
    control=st.binary(max_size=2),
    users=st.dictionaries(USERS, st.binary(max_size=2)),
    due=st.dictionaries(USERS, st.integers(0, 5)),
    users_gone=st.lists(USERS, max_size=2),
    rows=st.fixed_dictionaries(
        {"panes": st.dictionaries(STARTS, st.binary(max_size=2)), "sums": st.dictionaries(USERS, st.binary(max_size=2))}
    ),
    rows_gone=st.fixed_dictionaries({"panes": st.lists(STARTS, max_size=2), "sums": st.lists(USERS, max_size=2)}),
    rows_from=st.dictionaries(st.just("panes"), st.integers(0, 3)),
    totals=st.dictionaries(USERS, st.binary(max_size=2)),
    totals_gone=st.lists(USERS, max_size=2),
)
COMMITS = st.builds(
    Commit,
    task=st.just(0),
    epoch=st.integers(0, 3),
    token=TOKENS,
    seq=st.integers(0, 4),
    changes=CHANGES,
)


@given(steps=st.lists(st.one_of(TOKENS, COMMITS), max_size=12), before_ms=st.integers(0, 6), due_max=st.integers(0, 4))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_redis_and_memory_give_the_same_replies(redis_server: RedisServer, steps: list[str | Commit], before_ms: int, due_max: int) -> None:
    """A step is a commit, or a token with which the task is claimed."""
    due = due_before(before_ms, due_max)
    memory, namespace = MemoryStore(), f"alike-{next(EXAMPLES)}"
    store = RedisStore(RedisSettings(url=redis_server.url, namespace=namespace))
    for step in steps:
        if isinstance(step, Commit):
            assert store.commit(step) is memory.commit(step)
        else:
            assert store.claim(0, step) == memory.claim(0, step)
        everyone = ["a", "b", "_", "é", ""]
        assert everything(store, 0, everyone) == everything(memory, 0, everyone)
        assert store.load(0, ["a"], due, ["b"]) == memory.load(0, ["a"], due, ["b"])
    store.close()


# -- a server that fails and returns -----------------------------------------------------------------------------------


def test_scripts_unknown_to_the_server_are_sent_again(store: RedisStore, redis_server: RedisServer) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"}, due={"a": 1})
    with redis_server.client() as client:
        for request in (owner.must_commit, lambda: owner.load(["a"], due_before(2)), owner.view, lambda: store.claim(0, "next")):
            client.script_flush()
            request()


def test_users_of_unknown_size_are_read_in_slices(store: RedisStore, redis_url: str) -> None:
    """The size is unknown to a store that has not claimed the task, and to the owner if it is not stored."""
    users = [f"user-{number:02}" for number in range(2 * READ_SLICE)]
    Owner(store, 0).must_commit(users=dict.fromkeys(users, bytes(20)))
    stranger = RedisStore(store.settings)
    assert list(stranger.load(0, users, bytes_max=1).users) == users[:READ_SLICE]
    stranger.close()
    with redis.from_url(redis_url) as client:
        assert client.hdel(TaskKeys.of(store.settings.namespace, 0).ctl, "user_bytes_max") == 1
    owner = Owner(store, 0)
    for _ in range(2):
        assert list(owner.load(users, bytes_max=1).users) == users[:READ_SLICE]
        owner.must_commit(users={"small": b"1"})


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_state_and_commit_number_survive_a_restart(store: RedisStore, redis_server: RedisServer, end: str) -> None:
    owner = Owner(store, 0)
    last = owner.next(users={"a": b"1"}, due={"a": 1}, rows={"panes": {"0": b"p"}})
    assert store.commit(last) is CommitOutcome.WRITTEN
    before = everything(store, 0, ["a"])
    if end == "kill":
        redis_server.kill()
        with pytest.raises(StoreError, match=r"redis\.url"):
            store.commit(last)
        redis_server.start()
    else:
        redis_server.restart()
    assert commit_when_served(store, last) is CommitOutcome.ALREADY
    assert everything(store, 0, ["a"]) == before


@time_bound(1.4)
def test_a_hung_server_is_an_error_that_names_the_timeout_setting(store: RedisStore, redis_server: RedisServer, seconds_max: float) -> None:
    owner = Owner(store, 0)
    redis_server.hang()
    for request in (lambda: store.commit(owner.next()), lambda: store.load(0, ["a"])):
        began = time.monotonic()
        with pytest.raises(StoreError, match=r"redis\.socket_timeout_ms"):
            request()
        assert time.monotonic() - began < seconds_max, "one timeout of 500 ms, not several, because a worker's loop blocks meanwhile"
    redis_server.resume()
    # The commits sent before are still in the server's socket. Only the first one counts.
    assert commit_when_served(store, owner.next()) in (CommitOutcome.WRITTEN, CommitOutcome.ALREADY)
    assert owner.view().mark.seq == 1


def test_a_lost_reply_is_none_and_the_next_request_works(store: RedisStore, redis_server: RedisServer) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"})
    redis_server.hang()
    receive = store.request(0, ["a"])
    redis_server.kill()
    assert receive is not None
    assert (receive(), receive()) == (None, None)
    assert store.request(0, ["a"]) is None, "the server is down"
    redis_server.start()
    again = store.request(0, ["a"])
    assert again is not None
    assert again() == {"a": b"1"} == owner.load(["a"]).users


def test_only_due_users_are_lost_when_the_script_is_unknown(store: RedisStore, redis_url: str) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1", "b": b"2"}, due={"a": 5})
    with redis.from_url(redis_url) as client:
        client.script_flush()
    pending = [store.request(0, ["a"]), store.request_due(0, ALL_DUE), store.request(0, ["b"])]
    assert [receive and receive() for receive in pending] == [{"a": b"1"}, None, {"b": b"2"}]
    assert owner.load([], ALL_DUE).due == ["a"]
    receive = store.request_due(0, ALL_DUE)
    assert receive is not None
    assert receive() == LoadedUsers({}, ["a"], None)


@time_bound(1.4)
def test_a_missing_reply_is_waited_for_once(store: RedisStore, redis_server: RedisServer, seconds_max: float) -> None:
    Owner(store, 0).must_commit(users={"a": b"1"})
    redis_server.hang()
    receive = store.request(0, ["a"])
    assert receive is not None
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"redis\.socket_timeout_ms"):
        receive()
    assert time.monotonic() - began < seconds_max
    redis_server.resume()
    assert receive() is None
    again = store.request(0, ["a"])
    assert again is not None
    assert again() == {"a": b"1"}


@time_bound(1.4)
def test_a_missing_reply_loses_all_pending_replies_after_one_timeout(
    store: RedisStore, redis_server: RedisServer, seconds_max: float
) -> None:
    Owner(store, 0).must_commit(users={"a": b"1", "b": b"2"})
    redis_server.hang()
    first, second = store.request(0, ["a"]), store.request(0, ["b"])
    assert first is not None
    assert second is not None
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"redis\.socket_timeout_ms"):
        second()
    assert (first(), second()) == (None, None)
    assert time.monotonic() - began < seconds_max
    redis_server.resume()


def test_a_server_without_its_data_is_a_conflict_and_can_be_claimed(store: RedisStore, redis_url: str) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"})
    with redis.from_url(redis_url) as client:
        client.flushdb()
    assert owner.commit() is CommitOutcome.CONFLICT
    assert store.claim(0, "next").control is None


@pytest.mark.parametrize("name", TaskKeys._fields[1:])
def test_a_missing_key_is_an_error_and_is_not_created_again(store: RedisStore, redis_url: str, namespace: str, name: str) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, totals={"a": b"t"}, rows={"sums": {"x": b"e"}})
    lost = getattr(TaskKeys.of(namespace, 0), name)
    commit = owner.next(users={"b": b"1"}, due={"b": 1}, totals={"b": b"t"}, rows={"sums": {"y": b"e"}})
    requests: list[Callable[[], object]] = [lambda: store.commit(commit), lambda: store.claim(0, "next")]
    if name in ("users", "rows"):
        requests.append(owner.view)
    with redis.from_url(redis_url) as client:
        assert client.delete(lost) == 1
        for request in requests:
            with pytest.raises(StateError, match=rf"a part of the state of task 0: {re.escape(lost)} is missing.*new redis\.namespace"):
                request()
        assert client.exists(lost) == 0


def test_keys_left_by_an_interrupted_deletion_are_refused(store: RedisStore, redis_url: str, namespace: str) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, totals={"a": b"t"}, rows={"sums": {"x": b"e"}})
    keys = TaskKeys.of(namespace, 0)
    with redis.from_url(redis_url) as client:
        client.delete(keys.ctl)
        assert owner.commit() is CommitOutcome.CONFLICT
        for request in (lambda: store.claim(0, "next"), owner.view):
            with pytest.raises(StateError, match=rf"{re.escape(keys.users)}.*streammetrics namespaces delete {namespace}"):
                request()
        assert client.exists(keys.ctl) == 0


def test_an_interrupted_claim_is_completed_by_the_next(store: RedisStore, redis_url: str, namespace: str) -> None:
    with redis.from_url(redis_url) as client:
        client.hset(TaskKeys.of(namespace, 0).ctl, "seq", "0")
        client.hset(TaskKeys.of(namespace, 0).users, "_", "")
    assert store.view([0], {}) == {}
    Owner(store, 0).must_commit(users={"a": b"1"})


def test_a_store_built_before_its_server_starts_works_later(namespace: str) -> None:
    server = RedisServer()
    store = RedisStore(RedisSettings(url=server.url, namespace=namespace))
    try:
        with pytest.raises(StoreError, match="refused"):
            store.ping()
        server.start()
        store.ping()
    finally:
        store.close()
        server.close()
