"""Values that the processes of a namespace share, in hashes beside its meta key: one blob, or several by name. Decodes no value.

A blob is the only field of its hash, so it needs no other commands than the store.
"""

from __future__ import annotations

from collections.abc import Mapping

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import LazyClient, explaining_errors, send

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


class RedisFields:
    """A `FieldStore` in Redis; see `streammetrics.connectors.store`. For one thread. It connects at the first call."""

    def __init__(self, settings: RedisSettings, name: str) -> None:
        self.settings = settings
        self.key = f"{{{settings.namespace}:meta}}:{name}"
        self._client = LazyClient(settings)

    def read(self) -> Mapping[str, bytes]:
        with explaining_errors(self.settings):
            stored: dict[bytes, bytes] = send(self._client.get(), "HGETALL", self.key)
        return {name.decode(errors="replace"): value for name, value in stored.items()}

    def change(self, changes: Mapping[str, bytes | None]) -> None:
        gone = [name for name, value in changes.items() if value is None]
        with explaining_errors(self.settings):
            for name, value in changes.items():
                if value is not None:
                    send(self._client.get(), "HSET", self.key, name, value)
            if gone:
                send(self._client.get(), "HDEL", self.key, *gone)

    def close(self) -> None:
        self._client.close()
