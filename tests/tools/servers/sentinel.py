"""A primary Redis, a replica, and three sentinels that make the replica the primary when the primary is gone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import redis

from tests.tools.servers.process import HOST, NotReadyError, Server, Startable, free_port, wait_until
from tests.tools.servers.redis import Guard, RedisServer
from tests.tools.servers.tools import find_tool

SERVICE = "Primary_1"
SENTINELS = 3
QUORUM = 2
PASSWORD = "sentinel-word"
TLS_SETTINGS = ("tls-port", "tls-cert-file", "tls-key-file", "tls-ca-cert-file", "tls-auth-clients")


class SentinelServer(Server):
    """One sentinel. It is ready when it knows the other sentinels and the replica."""

    name = "redis-sentinel"
    not_ready = (NotReadyError, OSError, redis.RedisError)

    def __init__(self, primary_port: int, guard: Guard | None) -> None:
        self._program = find_tool("redis-server")
        super().__init__()
        self.port = free_port()
        self._primary_port, self._guard = primary_port, guard
        given = {} if guard is None else guard.settings(self.port)  # it writes the certificates again, so it must not run later
        self._tls = {name: given[name] for name in TLS_SETTINGS if name in given}

    def prepare(self) -> None:
        lines = [
            f"port {self.port if self._guard is None else 0}",
            *(f"{name} {text}" for name, text in self._tls.items()),
            *([] if self._guard is None else ["tls-replication yes"]),
            f"bind {HOST}",
            f"requirepass {PASSWORD}",
            f"sentinel sentinel-pass {PASSWORD}",
            f"sentinel monitor {SERVICE} {HOST} {self._primary_port} {QUORUM}",
            f"sentinel down-after-milliseconds {SERVICE} 1500",
            f"sentinel failover-timeout {SERVICE} 5000",
            *([] if self._guard is None else [f"sentinel auth-pass {SERVICE} {self._guard.password}"]),
        ]
        (self.directory / "sentinel.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        return [self._program, "sentinel.conf", "--sentinel"]

    def state(self) -> dict[str, Any]:
        """Return what the sentinel knows of the service."""
        guard_options = {} if self._guard is None else self._guard.client_options()
        options = {**guard_options, "username": None, "password": PASSWORD, "socket_timeout": 5, "decode_responses": True}
        with redis.Redis(host=HOST, port=self.port, **options) as client:
            state: Any = client.sentinel_master(SERVICE)
        return dict(state)

    def check_ready(self) -> None:
        state = self.state()
        if (state["num-other-sentinels"], state["num-slaves"]) != (SENTINELS - 1, 1):
            raise NotReadyError(str(state))


class SentinelService(Startable):
    """The servers of one service. Writes are synced to disk before their reply, as by `RedisServer`.

    A `guard` puts TLS between all of them, and gives the default user its password.
    """

    def __init__(self, guard: Guard | None = None) -> None:
        settings = {"repl-diskless-sync-delay": "0"} | ({} if guard is None else {"tls-replication": "yes", "masterauth": guard.password})
        self.guard = guard
        self.data = [RedisServer(settings=settings, guard=guard) for _ in range(2)]
        self.sentinels = [SentinelServer(self.data[0].port, guard) for _ in range(SENTINELS)]

    @property
    def url(self) -> str:
        return f"{'redis' if self.guard is None else 'rediss'}://{SERVICE}/0"

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(f"{HOST}:{sentinel.port}" for sentinel in self.sentinels)

    def start(self) -> Self:
        primary, replica = self.data
        primary.start()
        replica.start()
        with replica.client() as client:
            client.replicaof(HOST, primary.port)
        for sentinel in self.sentinels:
            sentinel.launch()
        for sentinel in self.sentinels:
            sentinel.wait_ready()
        return self

    def primary(self) -> RedisServer:
        """Return the server that is the primary now."""
        for server in self.data:
            if server.alive:
                with server.client() as client:
                    if client.info("replication")["role"] == "master":
                        return server
        raise NotReadyError("no primary")

    def wait_for_failover(self, former: RedisServer) -> None:
        """Wait until all sentinels say that the other server is the primary."""
        (other,) = [server for server in self.data if server is not former]
        for sentinel in self.sentinels:
            wait_until(lambda sentinel=sentinel: sentinel.state()["port"] == other.port, what="the replica is the primary")  # type: ignore[misc]

    def wait_for_replica(self) -> None:
        """Wait until the replica has every write."""
        with self.primary().client() as client:
            assert client.wait(1, 20_000) == 1, "the replica does not follow"

    def close(self) -> None:
        for server in (*self.sentinels, *self.data):
            server.close()
