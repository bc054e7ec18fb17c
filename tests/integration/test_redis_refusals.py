"""A real Redis that refuses: no memory, missing rights, a wrong password, keys of another program or layout."""

from __future__ import annotations

import pytest
import redis

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.errors import StateError, StoreError
from streammetrics.state.tables import GROWS, StatePiece
from tests.support.redis_store import COMMIT_RIGHTS, RIGHTS, SCRIPT_RIGHTS, limited
from tests.support.store_contract import Owner, everything
from tests.tools.servers.process import HOST
from tests.tools.servers.redis import RedisServer


@pytest.mark.parametrize(
    "changes",
    [
        {"users": {"a": b"2", "b": b"2"}, "due": {"a": 5, "b": 5}},
        {"users_gone": ["a"], "users": {"b": b"2"}},
        {"users_gone": ["a"], "rows_gone": {"panes": ["0"]}},
        {"rows_gone": {"panes": ["0"]}, "rows": {"panes": {"1": b"q"}}},
    ],
    ids=["users", "users and deleted users", "only deletes", "rows"],
)
def test_over_its_memory_limit_nothing_is_written(small_redis: tuple[RedisServer, RedisStore], changes: dict[str, object]) -> None:
    server, store = small_redis
    owner = Owner(store, 0)
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, rows={"panes": {"0": b"p"}})
    before = everything(store, 0, ["a", "b"])
    with server.client() as client:
        client.config_set("maxmemory", "1mb")
        with pytest.raises(StoreError, match="nothing was written; raise Redis' maxmemory"):
            store.commit(owner.next(**changes))
        assert everything(store, 0, ["a", "b"]) == before
        client.config_set("maxmemory", "0")
    owner.must_commit(**changes)


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
    owner.must_commit(
        users={"a": b"1", "b": b"1"}, due={"a": 1, "b": 2}, totals={"a": b"t"}, rows={"panes": {"0": b"p", "1": b"q"}, "sums": {"1": b"e"}}
    )
    owner.must_commit(users={"c": GROWS})
    owner.must_commit(pieces={"c": StatePiece(1, b"2", 2)})
    assert owner.load(["c"]).users == {"c": GROWS + b"2"}
    owner.must_commit(users_gone=["a", "c"], pieces_gone={"c": 1}, totals_gone=["a"], rows_gone={"panes": ["0"], "sums": ["1"]})
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
    owner.must_commit(users={"a": b"1", "b": b"1"}, due={"a": 1, "b": 1}, rows={"panes": {"0": b"p"}})
    before = everything(store, 0, ["a", "b"])
    restricted = limited(server, namespace, [right for right in RIGHTS if right != missing])
    with pytest.raises(StoreError, match=r"grant redis\.username"):  # noqa: PT012  (a different call fails for each right)
        next_owner = Owner(restricted, 0, "next")
        others = {"totals": {"a": b"2"}, "totals_gone": ["b"], "rows": {"panes": {"1": b"q"}}, "rows_gone": {"panes": ["0"]}}
        next_owner.must_commit(users={"a": b"2"}, due={"a": 2}, users_gone=["b"], **others)
        everything(restricted, 0, ["a", "b"])
        restricted.announce(3)
        restricted.compare_and_set({})
    if missing not in ("zrange", "zrangebyscore", "hstrlen", "hgetall"):  # used only for reading
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
    assert unknown[1:] == (None, None, None, None, "")
    store.close()
    blind.close()


@pytest.mark.parametrize("in_url", [False, True])
def test_a_wrong_password_names_the_settings_and_hides_the_password(redis_server: RedisServer, in_url: bool) -> None:
    wrong = "wrong-secret"
    if in_url:
        connection = RedisSettings(url=f"redis://someone:{wrong}@{HOST}:{redis_server.port}/0")
    else:
        connection = RedisSettings(url=redis_server.url, username="someone", password=wrong)
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
            if key.rpartition(":")[2] not in ("due", "totals", "pieces"):  # readers do not use these
                with pytest.raises(StateError, match="WRONGTYPE") as caught:
                    store.view([0], {})
                assert "EVAL" not in str(caught.value)


def test_another_key_layout_is_refused_with_a_fix(store: RedisStore, redis_url: str, namespace: str) -> None:
    Owner(store, 0).must_commit()
    with redis.from_url(redis_url) as client:
        client.hset(TaskKeys.of(namespace, 0).ctl, "version", "99")
        for request in (lambda: store.claim(0, "next"), lambda: store.view([0], {})):
            with pytest.raises(StateError, match=r"layout 99.*start again with a new redis\.namespace"):
                request()
        assert client.hget(TaskKeys.of(namespace, 0).ctl, "epoch") == b"1"
