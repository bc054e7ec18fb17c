"""Stores one blob in Redis. It is the only field of a hash beside the namespace's meta key, so it needs no other commands than the store.
Decodes no value."""

from __future__ import annotations

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import LazyClient, send
from streammetrics.connectors.redis.errors import explaining_errors

FIELD = "value"


class RedisBlobStore:
    """A `BlobStore` in Redis; see `streammetrics.connectors.store`. For one thread. It connects at the first call."""

    def __init__(self, settings: RedisSettings, name: str) -> None:
        self.settings = settings
        self.key = f"{{{settings.namespace}:meta}}:{name}"
        self._client = LazyClient(settings)

    def read(self) -> bytes | None:
        with explaining_errors(self.settings):
            value = send(self._client.get(), "HGET", self.key, FIELD)
        return None if value is None else bytes(value)

    def write(self, value: bytes) -> None:
        with explaining_errors(self.settings):
            send(self._client.get(), "HSET", self.key, FIELD, value)

    def close(self) -> None:
        self._client.close()
