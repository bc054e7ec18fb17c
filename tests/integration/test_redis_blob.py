"""The blob store in a real Redis and a real cluster."""

from __future__ import annotations

import pytest

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.shared_values import RedisBlobStore
from streammetrics.errors import StateError, StoreError
from tests.tools.servers.redis import RedisCluster


def test_the_last_write_is_read_and_namespaces_are_separate(redis_url: str) -> None:
    first, second, separate = (RedisBlobStore(RedisSettings(url=redis_url, namespace=name), "history") for name in ("a", "a", "b"))
    assert first.read() is None
    first.write(b"first")
    second.write(b"\x00\xff")
    assert (first.read(), second.read(), separate.read()) == (b"\x00\xff", b"\x00\xff", None)
    for blob in (first, second, separate):
        blob.close()


def test_a_cluster_stores_the_blob(redis_cluster: RedisCluster, namespace: str) -> None:
    blob = RedisBlobStore(RedisSettings(url=redis_cluster.url, namespace=namespace, cluster=True), "history")
    blob.write(b"kept")
    assert blob.read() == b"kept"
    blob.close()


def test_errors_name_the_setting_to_check(redis_url: str) -> None:
    away = RedisBlobStore(RedisSettings(url="redis://127.0.0.1:1/0"), "history")
    with pytest.raises(StoreError, match=r"redis\.url"):
        away.read()
    blob = RedisBlobStore(RedisSettings(url=redis_url, namespace="taken"), "history")
    client = blob._client.get()
    client.execute_command("LPUSH", blob.key, "another program's")  # type: ignore[no-untyped-call]
    with pytest.raises(StateError, match="another program"):
        blob.read()
    blob.close()
