"""The Redis store on a real Redis and a real cluster: the contract of every store, failures, rights, cluster moves and TLS."""

from __future__ import annotations

import itertools
import re
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streammetrics.connectors.base import READ_SLICE, Commit, CommitOutcome, LoadedUsers, Store
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.redis.client import RedisConnection
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.engine.stored_state import StateChanges
from streammetrics.errors import ConfigError, StateError, StoreError
from tests.servers.process import HOST, free_port, wait_until
from tests.servers.redis import RedisCluster, RedisServer
from tests.support.store_contract import ALL_DUE, Owner, StoreContract, due_before, everything
from tests.support.timing import time_bound

PASSWORD = "hunter2-and-more"
SCRIPT_RIGHTS = [
    "hset",
    "hsetnx",
    "hmget",
    "hstrlen",
    "hkeys",
    "hgetall",
    "hlen",
    "hdel",
    "hincrby",
    "zadd",
    "zrem",
    "zcard",
    "zrange",
    "zrangebyscore",
]
COMMIT_RIGHTS = ["watch", "multi", "exec"]
RIGHTS = [*SCRIPT_RIGHTS, *COMMIT_RIGHTS, *["evalsha", "eval", "hget", "ping", "info", "config|get", "client", "hello", "auth", "select"]]


class TestStandalone(StoreContract):
    @pytest.fixture
    def store(self, redis_url: str, namespace: str) -> Iterator[RedisStore]:
        store = RedisStore(RedisConnection(url=redis_url, namespace=namespace))
        yield store
        store.close()


class TestCluster(StoreContract):
    @pytest.fixture
    def store(self, redis_cluster: RedisCluster, namespace: str) -> Iterator[RedisStore]:
        store = RedisStore(RedisConnection(url=redis_cluster.url, namespace=namespace, cluster=True))
        yield store
        store.close()


@pytest.fixture
def store(redis_url: str, namespace: str) -> Iterator[RedisStore]:
    store = RedisStore(RedisConnection(url=redis_url, namespace=namespace, socket_timeout_ms=500))
    yield store
    store.close()


@pytest.fixture
def cluster_store(redis_cluster: RedisCluster, namespace: str) -> Iterator[RedisStore]:
    store = RedisStore(RedisConnection(url=redis_cluster.url, namespace=namespace, cluster=True, socket_timeout_ms=500))
    yield store
    store.close()


def commit_when_served(store: Store, commit: Commit) -> CommitOutcome:
    """Commit as soon as the store serves again."""
    outcomes: list[CommitOutcome] = []

    def request() -> bool:
        try:
            outcomes.append(store.commit(commit))
        except StoreError:
            return False
        return True

    wait_until(request, what="the store accepts a commit")
    return outcomes[0]


# -- the memory store behaves like Redis ------------------------------------------------------------------------------

EXAMPLES = itertools.count()
USERS = st.sampled_from(["a", "b", "_", "é", ""])
TOKENS = st.sampled_from(["one", "two"])
CHANGES = st.builds(
    StateChanges,
    control=st.binary(max_size=2),
    panes_from_ms=st.integers(0, 3),
    users=st.dictionaries(USERS, st.binary(max_size=2)),
    due=st.dictionaries(USERS, st.integers(0, 5)),
    users_gone=st.lists(USERS, max_size=2),
    panes=st.dictionaries(st.integers(0, 4), st.binary(max_size=2)),
    panes_gone=st.lists(st.integers(0, 4), max_size=2),
    totals=st.dictionaries(USERS, st.binary(max_size=2)),
    totals_gone=st.lists(USERS, max_size=2),
    experiments=st.dictionaries(USERS, st.binary(max_size=2)),
    experiments_gone=st.lists(USERS, max_size=2),
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
    store = RedisStore(RedisConnection(url=redis_server.url, namespace=namespace))
    for step in steps:
        if isinstance(step, Commit):
            assert store.commit(step) is memory.commit(step)
        else:
            claimed, expected = store.claim(0, step), memory.claim(0, step)
            assert sorted(claimed.pane_starts) == sorted(expected.pane_starts)
            assert replace(claimed, pane_starts=()) == replace(expected, pane_starts=())
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
    last = owner.next(users={"a": b"1"}, due={"a": 1}, panes={0: b"p"})
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
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, panes={0: b"p"}, totals={"a": b"t"}, experiments={"x": b"e"})
    lost = getattr(TaskKeys.of(namespace, 0), name)
    commit = owner.next(users={"b": b"1"}, due={"b": 1}, panes={60: b"p"}, totals={"b": b"t"}, experiments={"y": b"e"})
    requests: list[Callable[[], object]] = [lambda: store.commit(commit), lambda: store.claim(0, "next")]
    if name in ("users", "panes", "experiments"):
        requests.append(owner.view)
    with redis.from_url(redis_url) as client:
        assert client.delete(lost) == 1
        for request in requests:
            with pytest.raises(StateError, match=rf"a part of the state of task 0: {re.escape(lost)} is missing.*new redis\.namespace"):
                request()
        assert client.exists(lost) == 0


def test_keys_left_by_an_interrupted_deletion_are_refused(store: RedisStore, redis_url: str, namespace: str) -> None:
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, panes={0: b"p"}, totals={"a": b"t"}, experiments={"x": b"e"})
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
    assert store.view([0], {}, {}) == {}
    Owner(store, 0).must_commit(users={"a": b"1"})


def test_a_store_built_before_its_server_starts_works_later(namespace: str) -> None:
    server = RedisServer()
    store = RedisStore(RedisConnection(url=server.url, namespace=namespace))
    try:
        with pytest.raises(StoreError, match="refused"):
            store.ping()
        server.start()
        store.ping()
    finally:
        store.close()
        server.close()


# -- a server that refuses ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_redis(namespace: str) -> Iterator[tuple[RedisServer, RedisStore]]:
    """A separate Redis, because the test changes its settings or users."""
    with RedisServer(append_only=False) as server:
        store = RedisStore(RedisConnection(url=server.url, namespace=namespace))
        yield server, store
        store.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"users": {"a": b"2", "b": b"2"}, "due": {"a": 5, "b": 5}},
        {"users_gone": ["a"], "users": {"b": b"2"}},
        {"users_gone": ["a"], "panes_gone": [0]},
        {"panes_gone": [0], "panes": {1: b"q"}},
    ],
    ids=["users", "users and deleted users", "only deletes", "panes"],
)
def test_over_its_memory_limit_nothing_is_written(small_redis: tuple[RedisServer, RedisStore], changes: dict[str, object]) -> None:
    server, store = small_redis
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, panes={0: b"p"})
    before = everything(store, 0, ["a", "b"])
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreError, match="nothing was written; raise Redis' maxmemory"):
            store.commit(owner.next(**changes))
        assert everything(store, 0, ["a", "b"]) == before
        client.config_set("maxmemory", "0")
    owner.must_commit(**changes)


def limited(server: RedisServer, namespace: str, rights: Collection[str] = RIGHTS) -> RedisStore:
    """A store whose user has only these rights, on the keys of a namespace."""
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "limited", "reset", "on", f">{PASSWORD}", f"~{{{namespace}:*}}:*", "-@all", *(f"+{right}" for right in rights)
        )
    return RedisStore(RedisConnection(url=server.url, namespace=namespace, username="limited", password=PASSWORD))


def test_without_the_right_to_read_the_time_there_is_no_clock(small_redis: tuple[RedisServer, RedisStore], namespace: str) -> None:
    server, _ = small_redis
    for rights, has_clock in ((RIGHTS, False), ([*RIGHTS, "time"], True)):
        store = limited(server, namespace, rights)
        assert (store.clock_ms(0) is not None) is has_clock
        store.close()


def test_the_documented_rights_suffice_for_every_method(small_redis: tuple[RedisServer, RedisStore], namespace: str) -> None:
    server, _ = small_redis
    store = limited(server, namespace)
    owner = Owner(store, 0)
    others = {"totals": {"a": b"t"}, "experiments": {"1": b"e"}}
    owner.must_commit(users={"a": b"1", "b": b"1"}, due={"a": 1, "b": 2}, panes={0: b"p", 1: b"q"}, **others)
    owner.must_commit(users_gone=["a"], panes_gone=[0], totals_gone=["a"], experiments_gone=["1"])
    everything(store, 0, ["a", "b"])
    owner.load(["b"], totals=["b"])
    store.compare_and_set({"a": (None, b"1")})
    assert store.compare_and_set({"a": (b"1", None)}) == {}
    Owner(store, 0, "next")
    assert store.announce(3) is None
    assert store.partitions() == 3
    store.ping()
    assert store.server_info().unknown == ()
    with server.client() as client:
        assert client.acl_log() == []
    store.close()


@pytest.mark.parametrize("missing", [*SCRIPT_RIGHTS, *COMMIT_RIGHTS])
def test_a_missing_right_fails_the_claim_or_writes_nothing(
    small_redis: tuple[RedisServer, RedisStore], namespace: str, missing: str
) -> None:
    server, store = small_redis
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1", "b": b"1"}, due={"a": 1, "b": 1}, panes={0: b"p"})
    before = everything(store, 0, ["a", "b"])
    restricted = limited(server, namespace, [right for right in RIGHTS if right != missing])
    with pytest.raises(StoreError, match=r"grant redis\.username"):  # noqa: PT012  (a different call fails for each right)
        next_owner = Owner(restricted, 0, "next")
        others = {"totals": {"a": b"2"}, "totals_gone": ["b"], "experiments": {"2": b"e"}, "experiments_gone": ["1"]}
        next_owner.must_commit(users={"a": b"2"}, due={"a": 2}, users_gone=["b"], panes={1: b"q"}, panes_gone=[0], **others)
        everything(restricted, 0, ["a", "b"])
        restricted.announce(3)
    if missing not in ("zrange", "zrangebyscore", "hstrlen"):  # used only for reading
        assert everything(store, 0, ["a", "b"]) == before
    restricted.close()


def test_settings_that_a_managed_redis_hides_are_unknown(small_redis: tuple[RedisServer, RedisStore], namespace: str) -> None:
    server, _ = small_redis
    store = limited(server, namespace, [right for right in RIGHTS if right != "config|get"])
    info = store.server_info()
    assert info.unknown == ("appendfsync", "save")
    assert (info.maxmemory_policy, info.appendonly) == ("noeviction", "no")
    assert (info.problems(cluster=False), info.risks(allow_eviction=False)) == ((), ())
    (node,) = store.nodes()
    assert (node.evicts, node.forgets) == (False, None)
    blind = limited(server, namespace, [right for right in RIGHTS if right not in ("config|get", "info")])
    assert set(blind.server_info().unknown) == {
        "version", "mode", "role", "maxmemory_policy", "appendonly", "appendfsync", "save", "used_memory", "maxmemory",
    }  # fmt: skip
    (unknown,) = blind.nodes()
    assert unknown[1:] == (None, None, None, None)
    store.close()
    blind.close()


@pytest.mark.parametrize("in_url", [False, True])
def test_a_wrong_password_names_the_settings_and_hides_the_password(redis_server: RedisServer, in_url: bool) -> None:
    wrong = "wrong-secret"
    if in_url:
        connection = RedisConnection(url=f"redis://someone:{wrong}@{HOST}:{redis_server.port}/0")
    else:
        connection = RedisConnection(url=redis_server.url, username="someone", password=wrong)
    store = RedisStore(connection)
    with pytest.raises(StoreError, match=r"check redis\.username and redis\.password") as caught:
        store.claim(0, "a")
    assert wrong not in str(caught.value) + repr(connection)
    store.close()


def test_keys_of_another_program_are_refused_before_anything_is_written(store: RedisStore, redis_url: str, namespace: str) -> None:
    for key in TaskKeys.of(namespace, 0):
        with redis.from_url(redis_url) as client:
            client.flushdb()
            client.set(key, "something else")
            with pytest.raises(StateError, match=r"redis\.namespace"):
                store.claim(0, "a")
            assert client.keys() == [key.encode()]
            if key not in (TaskKeys.of(namespace, 0).due, TaskKeys.of(namespace, 0).totals):  # readers do not use these
                with pytest.raises(StateError, match="WRONGTYPE") as caught:
                    store.view([0], {}, {})
                assert "EVAL" not in str(caught.value)


def test_another_key_layout_is_refused_with_a_fix(store: RedisStore, redis_url: str, namespace: str) -> None:
    Owner(store, 0).must_commit()
    with redis.from_url(redis_url) as client:
        client.hset(TaskKeys.of(namespace, 0).ctl, "version", "99")
        for request in (lambda: store.claim(0, "next"), lambda: store.view([0], {}, {})):
            with pytest.raises(StateError, match=r"layout 99.*start again with a new redis\.namespace"):
                request()
        assert client.hget(TaskKeys.of(namespace, 0).ctl, "epoch") == b"1"


# -- settings of a server --------------------------------------------------------------------------------------


def test_a_suitable_server_has_no_problems_and_no_risks(store: RedisStore) -> None:
    info = store.server_info()
    assert (info.mode, info.role, info.maxmemory_policy, info.appendonly, info.appendfsync, info.save) == (
        "standalone", "master", "noeviction", "yes", "always", "",
    )  # fmt: skip
    assert info.used_memory is not None
    assert info.used_memory > 0
    assert info.maxmemory == 0
    assert (info.unknown, info.problems(cluster=False), info.risks(allow_eviction=False)) == ((), (), ())


def test_eviction_and_no_persistence_are_risks(small_redis: tuple[RedisServer, RedisStore]) -> None:
    server, store = small_redis
    assert [risk.setting for risk in store.server_info().risks(allow_eviction=False)] == ["appendonly"]
    with server.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        assert [risk.setting for risk in store.server_info().risks(allow_eviction=False)] == ["maxmemory-policy", "appendonly"]
        client.config_set("save", "60 1")
        client.config_set("maxmemory-policy", "noeviction")
        assert store.server_info().risks(allow_eviction=False) == ()


def test_a_nodes_status_follows_its_settings(small_redis: tuple[RedisServer, RedisStore]) -> None:
    server, store = small_redis
    (before,) = store.nodes()
    assert before.name == f"{HOST}:{server.port}"
    assert (before.memory_limit_bytes, before.evicts, before.forgets) == (0, False, True)
    assert before.memory_bytes is not None
    assert before.memory_bytes > 100_000
    with server.client() as client:
        client.config_set("maxmemory", 64 << 20)
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("save", "900 1")
    (after,) = store.nodes()
    assert (after.memory_limit_bytes, after.evicts, after.forgets) == (64 << 20, True, False)


def test_every_primary_of_a_cluster_has_its_own_status(cluster_store: RedisStore, redis_cluster: RedisCluster) -> None:
    risky = redis_cluster.nodes[1]
    with risky.client() as client:
        client.config_set("maxmemory", 64 << 20)
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            found = {node.name: node for node in cluster_store.nodes()}
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")
    names = [f"{HOST}:{node.port}" for node in redis_cluster.nodes]
    assert set(found) == set(names)
    assert [found[name].evicts for name in names] == [False, True, False]
    assert [found[name].memory_limit_bytes for name in names] == [0, 64 << 20, 0]


def test_the_settings_of_a_cluster_cover_every_primary(cluster_store: RedisStore, redis_cluster: RedisCluster) -> None:
    info = cluster_store.server_info()
    assert (info.mode, info.maxmemory_policy, info.unknown, info.risks(allow_eviction=False)) == ("cluster", "noeviction", (), ())
    assert info.problems(cluster=True) == ()
    with redis_cluster.nodes[1].client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            assert [risk.value for risk in cluster_store.server_info().risks(allow_eviction=False)] == ["allkeys-lru | noeviction"]
        finally:
            client.config_set("maxmemory-policy", "noeviction")


def test_a_cluster_used_as_a_single_server_names_the_setting(redis_cluster: RedisCluster, namespace: str) -> None:
    store = RedisStore(RedisConnection(url=redis_cluster.url, namespace=namespace))
    assert [problem.key for problem in store.server_info().problems(cluster=False)] == ["redis.cluster"]
    with pytest.raises(StoreError, match=r"set redis\.cluster to true"):  # noqa: PT012  (the first node has a third of the tasks)
        for task in range(20):
            store.claim(task, "a")
    store.close()


def test_a_single_server_used_as_a_cluster_names_the_setting(redis_server: RedisServer, namespace: str) -> None:
    store = RedisStore(RedisConnection(url=redis_server.url, namespace=namespace, cluster=True))
    with pytest.raises(StoreError, match=r"set redis\.cluster to false"):
        store.ping()
    store.close()


# -- a cluster ---------------------------------------------------------------------------------------------------------


def test_tasks_are_spread_over_the_cluster_and_each_is_in_one_slot(
    cluster_store: RedisStore, redis_cluster: RedisCluster, namespace: str
) -> None:
    client = redis_cluster.client()
    ports = set()
    for task in range(12):
        Owner(cluster_store, task).must_commit(users={"a": b"1"}, due={"a": 1}, panes={0: b"p"})
        keys = TaskKeys.of(namespace, task)
        assert client.exists(*keys) == 6
        assert len({client.keyslot(key) for key in keys}) == 1
        ports.add(client.get_node_from_key(keys.ctl).port)
    assert len(ports) == 3
    client.close()


def test_a_killed_node_is_an_error_until_it_is_back_with_its_state(
    cluster_store: RedisStore, redis_cluster: RedisCluster, namespace: str
) -> None:
    owner = Owner(cluster_store, 0)
    last = owner.next(users={"a": b"1"})
    assert cluster_store.commit(last) is CommitOutcome.WRITTEN
    client = redis_cluster.client()
    port = client.get_node_from_key(TaskKeys.of(namespace, 0).ctl).port
    client.close()
    (node,) = [node for node in redis_cluster.nodes if node.port == port]
    node.kill()
    with pytest.raises(StoreError):
        cluster_store.commit(last)
    redis_cluster.start()
    assert commit_when_served(cluster_store, last) is CommitOutcome.ALREADY
    assert owner.load(["a"]).users == {"a": b"1"}


def test_a_store_built_before_its_cluster_starts_works_later(namespace: str) -> None:
    cluster = RedisCluster(masters=1)
    store = RedisStore(RedisConnection(url=cluster.url, namespace=namespace, cluster=True))
    try:
        with pytest.raises(StoreError, match=r"redis\.url"):
            store.claim(0, "a")
        cluster.start()
        assert store.claim(0, "a").epoch == 1
    finally:
        store.close()
        cluster.close()


def test_commits_continue_while_their_slot_moves(cluster_store: RedisStore, redis_cluster: RedisCluster, namespace: str) -> None:
    owner = Owner(cluster_store, 0)
    others = {"totals": {"a": b"t"}, "experiments": {"1": b"e"}}
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, panes={0: b"p"}, **others)
    owner.must_commit(users_gone=["a"], panes_gone=[0], totals_gone=["a"], experiments_gone=["1"])
    keys = TaskKeys.of(namespace, 0)

    def prefetched() -> Mapping[str, bytes] | None:
        receive = cluster_store.request(0, ["b"])
        assert receive is not None
        return receive()

    with redis_cluster.moving(keys.ctl) as move:
        owner.must_commit(users={"b": b"2"}, due={"b": 2}, panes={1: b"q"}, totals={"b": b"u"}, experiments={"2": b"f"})
        assert prefetched() == {"b": b"2"}
        move(*keys)
        assert prefetched() is None, "the keys are on another node"
        owner.must_commit(users={"c": b"3"}, due={"c": 3})
    owner.must_commit(users={"d": b"4"}, due={"d": 4}, totals={"d": b"v"})
    assert prefetched() == {"b": b"2"}
    expected = LoadedUsers({"b": b"2", "c": b"3", "d": b"4"}, ["b", "c", "d"], None, {"b": b"u", "d": b"v"})
    assert owner.load("bcd", ALL_DUE) == expected
    assert (owner.view().panes, owner.view().experiments) == ({1: b"q"}, {"2": b"f"})
    assert owner.view().mark.seq == 5


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a CA, a server and a client with their keys, and a second CA that signed none of them."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for authority in ("ca", "other-ca"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{authority}.key", "-out", f"{authority}.crt",
                "-days", "2", "-subj", f"/CN={authority}")  # fmt: skip
    (folder / "extensions").write_text(f"subjectAltName=IP:{HOST}\n", encoding="utf-8")
    for name in ("server", "client"):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-out", f"{name}.crt",
                "-days", "2", "-extfile", "extensions")  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def tls_url(certificates: Path) -> Iterator[str]:
    port = free_port()
    files = {"tls-cert-file": "server.crt", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.crt"}
    options = {"tls-port": str(port), "tls-auth-clients": "yes", **{name: str(certificates / file) for name, file in files.items()}}
    with RedisServer(append_only=False, settings=options):
        yield f"rediss://{HOST}:{port}/0"


def test_tls_with_certificates_on_both_sides(certificates: Path, tls_url: str, namespace: str) -> None:
    files = {"ssl_cafile": "ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}
    connection = RedisConnection(url=tls_url, namespace=namespace, **{name: str(certificates / file) for name, file in files.items()})
    store = RedisStore(connection)
    Owner(store, 0).must_commit()
    store.close()


@pytest.mark.parametrize(
    "files",
    [{"ssl_cafile": "other-ca.crt", "ssl_certfile": "client.crt", "ssl_keyfile": "client.key"}, {"ssl_cafile": "ca.crt"}, {}],
    ids=["another CA", "no client certificate", "the system's CAs"],
)
def test_failed_tls_names_the_certificate_settings(certificates: Path, tls_url: str, files: dict[str, str]) -> None:
    store = RedisStore(RedisConnection(url=tls_url, **{name: str(certificates / file) for name, file in files.items()}))
    with pytest.raises(StoreError, match=r"check redis\.ssl_cafile, redis\.ssl_certfile and redis\.ssl_keyfile"):
        store.ping()
    store.close()


def test_tls_to_a_server_without_tls_is_explained(redis_server: RedisServer) -> None:
    store = RedisStore(RedisConnection(url=f"rediss://{HOST}:{redis_server.port}/0", socket_timeout_ms=300))
    with pytest.raises(StoreError, match=r"redis\.url must begin with redis:// if the server does not use TLS"):
        store.ping()
    store.close()


def test_all_unreadable_certificates_are_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RedisStore(RedisConnection(url="rediss://localhost", ssl_cafile="/nonexistent/ca", ssl_keyfile="/nonexistent/key"))
    assert [problem.key for problem in caught.value.problems] == ["redis.ssl_cafile", "redis.ssl_keyfile"]
