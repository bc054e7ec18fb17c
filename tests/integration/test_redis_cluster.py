"""The Redis store on a real cluster whose nodes fail and whose slots move."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import CommitOutcome
from streammetrics.errors import StoreError
from streammetrics.state.tables import LoadedUsers
from tests.support.redis_store import commit_when_served
from tests.support.store_contract import ALL_DUE, Owner
from tests.tools.servers.redis import RedisCluster


def test_tasks_are_spread_over_the_cluster_and_each_is_in_one_slot(
    cluster_store: RedisStore, redis_cluster: RedisCluster, namespace: str
) -> None:
    client = redis_cluster.client()
    ports = set()
    for task in range(12):
        Owner(cluster_store, task).must_commit(users={"a": b"1"}, due={"a": 1}, rows={"panes": {"0": b"p"}})
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
    store = RedisStore(RedisSettings(url=cluster.url, namespace=namespace, cluster=True))
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
    others = {"totals": {"a": b"t"}}
    owner.must_commit(users={"a": b"1"}, due={"a": 1}, rows={"panes": {"0": b"p"}, "sums": {"1": b"e"}}, **others)
    owner.must_commit(users_gone=["a"], totals_gone=["a"], rows_gone={"panes": ["0"], "sums": ["1"]})
    keys = TaskKeys.of(namespace, 0)

    def prefetched() -> Mapping[str, bytes] | None:
        receive = cluster_store.request(0, ["b"])
        assert receive is not None
        return receive()

    with redis_cluster.moving(keys.ctl) as move:
        owner.must_commit(users={"b": b"2"}, due={"b": 2}, totals={"b": b"u"}, rows={"panes": {"1": b"q"}, "sums": {"2": b"f"}})
        assert prefetched() == {"b": b"2"}
        move(*keys)
        assert prefetched() is None, "the keys are on another node"
        owner.must_commit(users={"c": b"3"}, due={"c": 3})
    owner.must_commit(users={"d": b"4"}, due={"d": 4}, totals={"d": b"v"})
    assert prefetched() == {"b": b"2"}
    expected = LoadedUsers({"b": b"2", "c": b"3", "d": b"4"}, ["b", "c", "d"], None, {"b": b"u", "d": b"v"})
    assert owner.load("bcd", ALL_DUE) == expected
    assert owner.view().rows == {"panes": {"1": b"q"}, "sums": {"2": b"f"}}
    assert owner.view().mark.seq == 5
