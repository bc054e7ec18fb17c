"""A shelf in Redis: one key beside the namespace's meta key, a hash of one field, so that it takes no commands that the store does
not. Nothing here decodes the value."""

from __future__ import annotations

from streammetrics.connectors.redis.client import LazyClient, RedisConnection, send, speaking

FIELD = "value"


class RedisBlobStore:
    """A `BlobStore` in Redis; see `streammetrics.connectors.base`. For one thread. Nothing is sent before the first call."""

    def __init__(self, settings: RedisConnection, name: str) -> None:
        self.settings = settings
        self.key = f"{{{settings.namespace}:meta}}:{name}"
        self._client = LazyClient(settings)

    def read(self) -> bytes | None:
        with speaking(self.settings):
            answer = send(self._client.get(), "HGET", self.key, FIELD)
        return None if answer is None else bytes(answer)

    def write(self, value: bytes) -> None:
        with speaking(self.settings):
            send(self._client.get(), "HSET", self.key, FIELD, value)

    def close(self) -> None:
        self._client.close()
