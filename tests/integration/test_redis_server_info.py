"""The settings of a real Redis and of a real cluster, and their risks."""

from __future__ import annotations

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.errors import StoreError
from tests.tools.servers.process import HOST
from tests.tools.servers.redis import RedisCluster, RedisServer


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
    assert before.refusal == ""
    with server.client() as client:
        client.config_set("maxmemory", 1)
        (full,) = store.nodes()
        assert full.refusal == "its memory is full (maxmemory)"
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
            nodes = {node.name: node for node in cluster_store.nodes()}
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")
    names = [f"{HOST}:{node.port}" for node in redis_cluster.nodes]
    assert set(nodes) == set(names)
    assert [nodes[name].evicts for name in names] == [False, True, False]
    assert [nodes[name].memory_limit_bytes for name in names] == [0, 64 << 20, 0]


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
    store = RedisStore(RedisSettings(url=redis_cluster.url, namespace=namespace))
    assert [problem.key for problem in store.server_info().problems(cluster=False)] == ["redis.cluster"]
    with pytest.raises(StoreError, match=r"set redis\.cluster to true"):  # noqa: PT012  (the first node has a third of the tasks)
        for task in range(20):
            store.claim(task, "a")
    store.close()


def test_a_single_server_used_as_a_cluster_names_the_setting(redis_server: RedisServer, namespace: str) -> None:
    store = RedisStore(RedisSettings(url=redis_server.url, namespace=namespace, cluster=True))
    with pytest.raises(StoreError, match=r"set redis\.cluster to false"):
        store.ping()
    store.close()
