"""A Redis store that waits for its server, and one whose user has few rights."""

from __future__ import annotations

from collections.abc import Collection

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.store import RedisStore
from streammetrics.connectors.store import Commit, CommitOutcome, Store
from streammetrics.errors import StoreError
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import RedisServer

PASSWORD = "hunter2-and-more"
SCRIPT_RIGHTS = [
    "hset",
    "hsetnx",
    "hmget",
    "hstrlen",
    "hkeys",
    "hgetall",
    "hlen",
    "hdel",
    "hincrby",
    "zadd",
    "zrem",
    "zcard",
    "zrange",
    "zrangebyscore",
]
COMMIT_RIGHTS = ["watch", "multi", "exec"]
RIGHTS = [*SCRIPT_RIGHTS, *COMMIT_RIGHTS, *["evalsha", "eval", "hget", "ping", "info", "config|get", "client", "hello", "auth", "select"]]


def limited(server: RedisServer, namespace: str, rights: Collection[str] = RIGHTS) -> RedisStore:
    """A store whose user has only these rights, on the keys of a namespace."""
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "limited", "reset", "on", f">{PASSWORD}", f"~{{{namespace}:*}}:*", "-@all", *(f"+{right}" for right in rights)
        )
    return RedisStore(RedisSettings(url=server.url, namespace=namespace, username="limited", password=PASSWORD))


def commit_when_served(store: Store, commit: Commit) -> CommitOutcome:
    """Commit as soon as the store serves again."""
    outcomes: list[CommitOutcome] = []

    def request() -> bool:
        try:
            outcomes.append(store.commit(commit))
        except StoreError:
            return False
        return True

    wait_until(request, what="the store accepts a commit")
    return outcomes[0]
