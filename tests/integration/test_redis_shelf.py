"""The shelf in a real Redis and a real cluster: what was written last comes back, in a slot of its namespace."""

from __future__ import annotations

import pytest

from streammetrics.connectors.redis.blob import RedisBlobStore
from streammetrics.connectors.redis.client import RedisConnection
from streammetrics.errors import StateError, StoreError
from tests.servers.redis import RedisCluster


def test_the_last_writer_counts_and_namespaces_are_apart(redis_url: str) -> None:
    one, other, apart = (RedisBlobStore(RedisConnection(url=redis_url, namespace=name), "history") for name in ("a", "a", "b"))
    assert one.read() is None
    one.write(b"first")
    other.write(b"\x00\xff")
    assert (one.read(), other.read(), apart.read()) == (b"\x00\xff", b"\x00\xff", None)
    for shelf in (one, other, apart):
        shelf.close()


def test_a_cluster_keeps_it_too(redis_cluster: RedisCluster, namespace: str) -> None:
    shelf = RedisBlobStore(RedisConnection(url=redis_cluster.url, namespace=namespace, cluster=True), "history")
    shelf.write(b"kept")
    assert shelf.read() == b"kept"
    shelf.close()


def test_troubles_are_told_with_the_setting_to_look_at(redis_url: str) -> None:
    away = RedisBlobStore(RedisConnection(url="redis://127.0.0.1:1/0"), "history")
    with pytest.raises(StoreError, match=r"redis\.url"):
        away.read()
    shelf = RedisBlobStore(RedisConnection(url=redis_url, namespace="taken"), "history")
    client = shelf._client.get()
    client.execute_command("LPUSH", shelf.key, "another program's")  # type: ignore[no-untyped-call]
    with pytest.raises(StateError, match="another program"):
        shelf.read()
    shelf.close()
