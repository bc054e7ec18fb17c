"""A real Redis, alone or as a cluster of masters, with or without replicas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import redis
from redis.cluster import ClusterNode
from redis.exceptions import MovedError

from tests.support.paths import ROOT
from tests.tools.servers.process import HOST, LOOPBACK, Host, NotReadyError, Server, Startable, free_port, wait_until
from tests.tools.servers.tools import find_tool, find_valkey

if TYPE_CHECKING:
    from tests.tools.servers.certificates import Authority

SLOTS = 16_384
DATABASES = 1_024
DEPLOYED_CONF = ROOT / "deploy" / "redis.conf"


@dataclass(frozen=True, slots=True)
class Guard:
    """TLS with client certificates, and the users of an ACL file. The test itself logs in as `user`."""

    authority: Authority
    acl: str
    user: str
    password: str

    def settings(self, port: int) -> dict[str, str]:
        http_server = self.authority.server("redis")
        return {
            "port": "0",
            "tls-port": str(port),
            "tls-cert-file": str(http_server.certfile),
            "tls-key-file": str(http_server.keyfile),
            "tls-ca-cert-file": str(self.authority.cafile),
            "tls-auth-clients": "yes",
            "tls-cluster": "yes",
            "aclfile": "users.acl",
        }

    def client_options(self) -> dict[str, Any]:
        redis_client = self.authority.client("redis-test")
        files = {
            "ssl_ca_certs": str(self.authority.cafile),
            "ssl_certfile": str(redis_client.certfile),
            "ssl_keyfile": str(redis_client.keyfile),
        }
        return {"ssl": True, **files, "username": self.user, "password": self.password}


class RedisServer(Server):
    """One redis-server; `settings` are lines of redis.conf.

    With `append_only` its data survive `kill` and `restart`, because every write is synced before its reply. (The deployed setting is
    `everysec`, which may lose the last two seconds of writes on a slow disk.)
    """

    name = "redis"
    not_ready = (NotReadyError, OSError, redis.RedisError)

    def __init__(
        self,
        *,
        append_only: bool = True,
        settings: Mapping[str, str] | None = None,
        cluster: bool = False,
        guard: Guard | None = None,
        host: Host = LOOPBACK,
    ) -> None:
        self.guard = guard
        self._program = find_tool("redis-server")
        super().__init__(host)
        self.port = free_port(with_cluster_bus=cluster)
        self.settings = {
            "bind": host.address,
            "port": str(self.port),
            "save": "",
            "appendonly": "yes" if append_only else "no",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            **({"cluster-enabled": "yes", "cluster-node-timeout": "1500"} if cluster else {"databases": str(DATABASES)}),
            **(guard.settings(self.port) if guard else {}),
            **(settings or {}),
        }
        self._databases = itertools.count(1)

    @property
    def url(self) -> str:
        """The URL of database 0."""
        return f"{'rediss' if self.guard else 'redis'}://{self.host.address}:{self.port}/0"

    def fresh_url(self) -> str:
        """Return the URL of an unused, empty database."""
        number = next(self._databases)
        assert number < DATABASES, f"all {DATABASES} databases of the test server are in use"
        return f"redis://{self.host.address}:{self.port}/{number}"

    def client(self, **options: Any) -> redis.Redis:
        """Return a client of database 0 that decodes to str and does not retry."""
        guard_options = self.guard.client_options() if self.guard else {}
        usual = {"decode_responses": True, "socket_timeout": 5, "retry": None}
        return redis.Redis(host=self.host.address, port=self.port, **{**usual, **guard_options, **options})

    def prepare(self) -> None:
        lines = (f'{key} "{value}"' if value == "" or " " in value else f"{key} {value}" for key, value in self.settings.items())
        (self.directory / "redis.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if self.guard:
            (self.directory / "users.acl").write_text(self.guard.acl, encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        return [self._program, "redis.conf"]

    def check_answering(self) -> None:
        """Send PING, which fails while the server loads its data."""
        with self.client() as client:
            client.ping()

    check_ready = check_answering


class ValkeyServer(RedisServer):
    """One valkey-server, which has the settings of Redis."""

    name = "valkey"

    def __init__(self, *, cluster: bool = False, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(cluster=cluster, settings=settings)
        self._program = find_valkey()


class DeployedRedis(RedisServer):
    """A server with deploy/redis.conf. Only the port, address, directory and number of databases differ."""

    def command(self) -> Sequence[str | Path]:
        words: list[str | Path] = ["--port", str(self.port), "--bind", HOST, "--dir", self.directory, "--databases", str(DATABASES)]
        return [self._program, DEPLOYED_CONF, *words]


class ClusterNodeServer(RedisServer):
    """A node of a cluster. It is ready when the whole cluster serves every slot, and a replica when it has its master's data."""

    name = "redis-cluster-node"

    def __init__(self, *, append_only: bool, settings: Mapping[str, str] | None, guard: Guard | None, host: Host) -> None:
        super().__init__(append_only=append_only, settings=settings, cluster=True, guard=guard, host=host)
        self.members = 1

    def check_ready(self) -> None:
        with self.client() as client:
            info = client.execute_command("CLUSTER INFO")
            link = client.info("replication").get("master_link_status", "up")
        if info["cluster_state"] != "ok" or int(info["cluster_known_nodes"]) < self.members or link != "up":
            raise NotReadyError(f"{info}, link to the master: {link}")


class RedisCluster(Startable):
    """Masters that share the slots evenly. Each of `nodes` can be stopped, killed and frozen.

    Without `hosts`, all run on this machine. With more hosts than masters, the other nodes are replicas, of one master after the other.
    """

    def __init__(
        self,
        masters: int = 3,
        *,
        append_only: bool = True,
        settings: Mapping[str, str] | None = None,
        guard: Guard | None = None,
        hosts: Sequence[Host] = (),
    ) -> None:
        self.guard = guard
        places = hosts or [LOOPBACK] * masters
        self.nodes = [ClusterNodeServer(append_only=append_only, settings=settings, guard=guard, host=host) for host in places]
        self.masters = self.nodes[:masters]
        self._formed = False

    @property
    def url(self) -> str:
        """The URL of the first node. A cluster's client finds the others through it."""
        return self.nodes[0].url

    @property
    def startup_nodes(self) -> list[ClusterNode]:
        return [ClusterNode(node.host.address, node.port) for node in self.nodes]  # type: ignore[no-untyped-call]

    def client(self, **options: Any) -> redis.RedisCluster:
        guard_options = self.guard.client_options() if self.guard else {}
        return redis.RedisCluster(
            startup_nodes=self.startup_nodes, **{"decode_responses": True, "socket_timeout": 5, **guard_options, **options}
        )

    def start(self) -> Self:
        """Start all nodes, join them at the first start, and wait until every node serves."""
        for node in self.nodes:
            if not node.alive:
                node.launch()
        if not self._formed:
            self._form()
        for node in self.nodes:
            node.wait_ready()
        return self

    def _form(self) -> None:
        bounds = [SLOTS * number // len(self.masters) for number in range(len(self.masters) + 1)]
        for number, node in enumerate(self.nodes):
            node.wait_until_passes(node.check_answering)
            with node.client() as client:
                # Distinct epochs, because nodes with equal epochs must first agree on an order.
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                if node in self.masters:
                    client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        with self.nodes[0].client() as client:
            for node in self.nodes[1:]:
                client.execute_command("CLUSTER MEET", node.host.address, node.port)
        for node in self.nodes:
            node.members = len(self.nodes)
        for number, replica in enumerate(self.nodes[len(self.masters) :]):
            self._replicate(self.masters[number % len(self.masters)], replica)
        self._formed = True

    @staticmethod
    def _replicate(master: ClusterNodeServer, replica: ClusterNodeServer) -> None:
        with master.client() as client:
            name = client.execute_command("CLUSTER MYID")
        with replica.client() as client:
            # It has to hear of its master first.
            replica.wait_until_passes(lambda: client.execute_command("CLUSTER REPLICATE", name))

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def revive(self) -> None:
        """Bring every node back, whether frozen, stopped or killed."""
        for node in self.nodes:
            node.resume()
        self.start()

    def node_of(self, key: str) -> ClusterNodeServer:
        with self.client() as client:
            port = client.get_node_from_key(key).port
        return next(node for node in self.nodes if node.port == port)

    def move(self, key: str) -> None:
        """Move the slot of a key to another node."""
        with self.moving(key):
            pass

    @contextmanager
    def moving(self, key: str) -> Iterator[Callable[..., None]]:
        """Start to move the slot of a key to another node. Yields a function that moves keys. At the end all keys are moved."""
        source = self.node_of(key)
        target = next(node for node in self.nodes if node is not source)
        with source.client() as old, target.client() as new:
            slot = old.execute_command("CLUSTER KEYSLOT", key)
            old_id, new_id = old.execute_command("CLUSTER MYID"), new.execute_command("CLUSTER MYID")
            new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", old_id)
            old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", new_id)

            def move(*keys: str) -> None:
                old.execute_command("MIGRATE", HOST, target.port, "", 0, 5_000, "KEYS", *keys)

            yield move
            move(*old.execute_command("CLUSTER GETKEYSINSLOT", slot, 100))
            for node in (target, source, *self.nodes):
                with node.client() as client:
                    client.execute_command("CLUSTER SETSLOT", slot, "NODE", new_id)
        for node in self.nodes:
            with node.client() as client:
                wait_until(lambda: _owner(client, key) == target.port, what="every node knows the owner of the slot")

    def close(self) -> None:
        for node in self.nodes:
            node.close()


def _owner(client: redis.Redis, key: str) -> int:
    """Return the port of the node that owns a key, according to this client's node."""
    try:
        client.exists(key)
    except MovedError as moved:
        return int(moved.port)
    return int(client.connection_pool.connection_kwargs["port"])
