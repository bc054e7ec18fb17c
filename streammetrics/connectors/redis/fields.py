"""Named values of a namespace in Redis that its processes show each other, in one hash beside the meta key. Decodes no value."""

from __future__ import annotations

from collections.abc import Mapping

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import LazyClient, send
from streammetrics.connectors.redis.errors import explaining_errors


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
