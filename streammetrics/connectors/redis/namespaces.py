"""Lists, measures and deletes the namespaces in a Redis or a Redis Cluster.

Reads names and sizes of keys, never state. `keys` defines the names. Every key of that form belongs to its namespace, including keys of
older and newer layouts.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import redis
from redis.cluster import ClusterNode
from redis.exceptions import NoPermissionError, ResponseError

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import LazyClient, explaining_errors, place_of, require_files, send
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.errors import StoreError

SCAN_COUNT = 1_000
"""Keys per SCAN, so that other clients do not wait long."""
SAMPLES = 100
"""Fields per hash that Redis samples to estimate its size."""
META = "meta"
KEY = re.compile(r"\{([A-Za-z0-9_.:-]{1,64}):(meta|[0-9]{1,9})\}:([a-z_]{1,32})")
OWN_NAMES = (*TaskKeys._fields, META)
"""A namespace is ours if it has a key with one of these names. Another program may have keys of the same form."""
NAME = re.compile(r"streammetrics-(all|worker|exporter):(.+)")

Progress = Callable[[int, int], None]
"""Called with the number done and the total."""


def client_name(role: str, namespace: str) -> str:
    """Return the client name of a process that uses a namespace, so that Redis can list them.

    >>> client_name("worker", "sm")
    'streammetrics-worker:sm'
    """
    return f"streammetrics-{role}:{namespace}"


@dataclass(slots=True)
class Namespace:
    """The keys of a namespace by hash tag: "meta" or a task number. `tasks` is the number of tasks it was created for, if known."""

    name: str
    keys: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    tasks: int | None = None
    size_bytes: int = 0

    @property
    def all_keys(self) -> list[str]:
        return [key for keys in self.keys.values() for key in keys]

    def in_order_of_deletion(self) -> Iterator[Sequence[str]]:
        """Yield the keys slot by slot, so that a task's keys are deleted together. The meta keys come last."""
        for tag in sorted(self.keys, key=lambda tag: tag == META):
            yield self.keys[tag]


class RedisNamespaces:
    """Lists and deletes namespaces. Raises StoreError when Redis cannot be asked. It connects at the first call."""

    def __init__(self, settings: RedisSettings) -> None:
        require_files(settings)
        self.settings = settings
        self._client = LazyClient(settings)

    def find(self, progress: Progress) -> list[Namespace]:
        """Return all namespaces by name. Scans the names of all keys in the database, including other programs'."""
        namespaces: dict[str, Namespace] = {}
        seen: set[str] = set()
        with self._errors():
            nodes = self._nodes()
            total, done = sum(int(send(node, "DBSIZE")) for node in nodes), 0
            for node in nodes:
                for scanned, keys in _scan(node):
                    done = min(total, done + scanned)
                    progress(done, total)
                    for key in keys:
                        if key not in seen and (match := KEY.fullmatch(key)):
                            seen.add(key)
                            namespaces.setdefault(match[1], Namespace(match[1])).keys[match[2]].append(key)
        ours = [namespace for namespace in namespaces.values() if any(key.rpartition(":")[2] in OWN_NAMES for key in namespace.all_keys)]
        return sorted(ours, key=lambda namespace: namespace.name)

    def measure(self, namespace: Namespace) -> None:
        """Set the number of tasks it was created for, and the approximate size of its keys in bytes."""
        with self._errors():
            tasks = send(self._client.get(), "HGET", f"{{{namespace.name}:{META}}}:{META}", "partitions")
            namespace.tasks = None if tasks is None else int(tasks)
            sizes = (send(self._client.get(), "MEMORY USAGE", key, "SAMPLES", SAMPLES) for key in namespace.all_keys)
            namespace.size_bytes = sum(int(size or 0) for size in sizes)

    def processes(self) -> dict[str, set[str]] | None:
        """Return namespace -> connected processes, such as "worker at 10.0.0.3"; None where Redis does not allow the question."""
        with self._errors():
            try:
                listed = [client for node in self._nodes() for client in cast("Iterable[dict[str, str]]", node.client_list())]
            except (NoPermissionError, ResponseError):
                return None
        clients: dict[str, set[str]] = defaultdict(set)
        for client in listed:
            if match := NAME.fullmatch(client.get("name", "")):
                role = "worker" if match[1] == "all" else match[1]
                clients[match[2]].add(f"{role} at {client.get('addr', '').rpartition(':')[0]}")
        return clients

    def delete(self, namespace: Namespace, progress: Progress) -> int:
        """Delete a namespace's keys, slot by slot. Returns how many exist again afterwards. Redis frees the memory in the background."""
        total, done = len(namespace.all_keys), 0
        with self._errors():
            for keys in namespace.in_order_of_deletion():
                send(self._client.get(), "UNLINK", *keys)
                done += len(keys)
                progress(done, total)
            return sum(int(send(self._client.get(), "EXISTS", *keys)) for keys in namespace.keys.values())

    def close(self) -> None:
        self._client.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        with explaining_errors(self.settings):
            try:
                yield
            except NoPermissionError as error:
                raise StoreError(
                    f"Redis at {place_of(self.settings)}: {error}",
                    "log in as a user that may read all keys, such as streammetrics-admin in deploy/redis-users.acl",
                ) from error

    def _nodes(self) -> list[redis.Redis]:
        """Return every server that holds keys: the only one, or all primaries of a cluster."""
        client = self._client.get()
        if not isinstance(client, redis.RedisCluster):
            return [client]
        primaries: list[ClusterNode] = client.get_primaries()  # type: ignore[no-untyped-call]  # untyped in the client
        return [client.get_redis_connection(node) for node in primaries]


def _scan(node: redis.Redis) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of keys scanned and the names that may be ours, until all are scanned."""
    cursor: Any = 0
    while True:
        cursor, keys = send(node, "SCAN", cursor, "MATCH", "{*:*}:*", "COUNT", SCAN_COUNT)
        yield SCAN_COUNT, [key.decode("utf-8", "replace") for key in keys]
        if int(cursor) == 0:
            return
