"""The namespaces that lie in a Redis or a Redis Cluster: which there are, who is at work in one, and how one is deleted.

Looks at names and sizes of keys, and never at state. How keys are named is told in `store`; whatever has the form of ours
under a namespace belongs to it, also what an older or newer layout has put there.
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

from streammetrics.connectors.redis.client import LazyClient, RedisConnection, require_files, send, speaking
from streammetrics.connectors.redis.keys import TaskKeys
from streammetrics.errors import StoreError

SCANNED_AT_ONCE = 1_000
"""Keys that one SCAN looks at, so that other clients get their turn."""
SAMPLES = 100
"""Fields of a hash that Redis looks at to estimate its size."""
META = "meta"
KEY = re.compile(r"\{([A-Za-z0-9_.:-]{1,64}):(meta|[0-9]{1,9})\}:([a-z_]{1,32})")
TELLING = (*TaskKeys._fields, META)
"""Names of keys that show a namespace to be ours; others of the same form alone may be another program's."""
NAME = re.compile(r"streammetrics-(all|worker|exporter):(.+)")

Noticed = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def client_name(role: str, namespace: str) -> str:
    """What a process that lives in a namespace calls itself, so that Redis can say who is connected.

    >>> client_name("worker", "sm")
    'streammetrics-worker:sm'
    """
    return f"streammetrics-{role}:{namespace}"


@dataclass(slots=True)
class Namespace:
    """The keys of a namespace by their hash tag, "meta" or the number of a task; `tasks` is how many it was made for, if that is known."""

    name: str
    keys: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    tasks: int | None = None
    size_bytes: int = 0

    @property
    def all_keys(self) -> list[str]:
        return [key for keys in self.keys.values() for key in keys]

    def in_order_of_deletion(self) -> Iterator[Sequence[str]]:
        """The keys of one slot each, so that of a task all go at once or none does, and last what names the namespace."""
        for tag in sorted(self.keys, key=lambda tag: tag == META):
            yield self.keys[tag]


class RedisNamespaces:
    """Asks a Redis for its namespaces. Raises StoreError when it cannot be asked; nothing is sent before the first call."""

    def __init__(self, settings: RedisConnection) -> None:
        require_files(settings)
        self.settings = settings
        self._client = LazyClient(settings)

    def find(self, noticed: Noticed) -> list[Namespace]:
        """All namespaces, by name. Walks over the names of all keys of the database, other programs' too."""
        found: dict[str, Namespace] = {}
        seen: set[str] = set()
        with self._speaking():
            nodes = self._nodes()
            total, done = sum(int(send(node, "DBSIZE")) for node in nodes), 0
            for node in nodes:
                for looked_at, keys in _scanned(node):
                    done = min(total, done + looked_at)
                    noticed(done, total)
                    for key in keys:
                        if key not in seen and (match := KEY.fullmatch(key)):
                            seen.add(key)
                            found.setdefault(match[1], Namespace(match[1])).keys[match[2]].append(key)
        ours = [one for one in found.values() if any(key.rpartition(":")[2] in TELLING for key in one.all_keys)]
        return sorted(ours, key=lambda one: one.name)

    def measure(self, namespace: Namespace) -> None:
        """Fill in how many tasks it was made for and about how many bytes its keys take."""
        with self._speaking():
            tasks = send(self._client.get(), "HGET", f"{{{namespace.name}:{META}}}:{META}", "partitions")
            namespace.tasks = None if tasks is None else int(tasks)
            sizes = (send(self._client.get(), "MEMORY USAGE", key, "SAMPLES", SAMPLES) for key in namespace.all_keys)
            namespace.size_bytes = sum(int(size or 0) for size in sizes)

    def processes(self) -> dict[str, set[str]] | None:
        """Namespace -> which processes are connected, such as "worker at 10.0.0.3"; None where Redis will not say."""
        with self._speaking():
            try:
                listed = [client for node in self._nodes() for client in cast("Iterable[dict[str, str]]", node.client_list())]
            except (NoPermissionError, ResponseError):
                return None
        found: dict[str, set[str]] = defaultdict(set)
        for client in listed:
            if match := NAME.fullmatch(client.get("name", "")):
                role = "worker" if match[1] == "all" else match[1]
                found[match[2]].add(f"{role} at {client.get('addr', '').rpartition(':')[0]}")
        return found

    def delete(self, namespace: Namespace, noticed: Noticed) -> int:
        """Delete its keys, a few at once; Redis frees their memory in the background. How many of them are there again afterwards."""
        total, done = len(namespace.all_keys), 0
        with self._speaking():
            for keys in namespace.in_order_of_deletion():
                send(self._client.get(), "UNLINK", *keys)
                done += len(keys)
                noticed(done, total)
            return sum(int(send(self._client.get(), "EXISTS", *keys)) for keys in namespace.keys.values())

    def close(self) -> None:
        self._client.close()

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        with speaking(self.settings):
            try:
                yield
            except NoPermissionError as error:
                raise StoreError(
                    f"Redis at {self.settings.place}: {error}",
                    "log in as one that may look at all keys, such as streammetrics-admin of deploy/redis-users.acl",
                ) from error

    def _nodes(self) -> list[redis.Redis]:
        """Every server that holds keys: the one, or all primaries of a cluster."""
        client = self._client.get()
        if not isinstance(client, redis.RedisCluster):
            return [client]
        primaries: list[ClusterNode] = client.get_primaries()  # type: ignore[no-untyped-call]  # the client does not say
        return [client.get_redis_connection(node) for node in primaries]


def _scanned(node: redis.Redis) -> Iterator[tuple[int, list[str]]]:
    """How many keys were looked at, and the names that may be ours, until all were."""
    cursor: Any = 0
    while True:
        cursor, keys = send(node, "SCAN", cursor, "MATCH", "{*:*}:*", "COUNT", SCANNED_AT_ONCE)
        yield SCANNED_AT_ONCE, [key.decode("utf-8", "replace") for key in keys]
        if int(cursor) == 0:
            return
