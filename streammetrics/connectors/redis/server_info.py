"""What a Redis says of itself, and what of that is fit for state that must not vanish. Reads only; knows no keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import redis
from redis.cluster import ClusterNode
from redis.exceptions import NoPermissionError, ResponseError

from streammetrics.connectors.redis.client import Client
from streammetrics.errors import Problem

VERSION_LEAST = (6, 2)
CONFIG_NAMES = ("maxmemory-policy", "appendonly", "appendfsync", "save")
KEEPS_EVERYTHING = "noeviction"


class Risk(NamedTuple):
    """One thing by which state could be lost: what the server has set, and what to do. `is_refused`: `run` does not go on with it."""

    setting: str
    value: str
    fix: str
    is_refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """What a server (or all primaries of a cluster) answered; None for what it would not say, as a managed Redis may.

    Where primaries differ, texts are joined by " | ", numbers are sums, the version is the least. `used_memory` and `maxmemory`
    are bytes; a `maxmemory` of 0 means no limit. `save` is Redis' own text, empty for no snapshots.
    """

    version: str | None = None
    mode: str | None = None
    role: str | None = None
    maxmemory_policy: str | None = None
    appendonly: str | None = None
    appendfsync: str | None = None
    save: str | None = None
    used_memory: int | None = None
    maxmemory: int | None = None

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of what the server would not say."""
        return tuple(known.name for known in fields(self) if getattr(self, known.name) is None)

    @property
    def is_replica(self) -> bool:
        """Whether it takes no writes now; a failover that ends makes it a primary."""
        return self.role is not None and "slave" in self.role

    def problems(self, cluster: bool) -> tuple[Problem, ...]:
        """Why this server cannot be used as it is; `cluster` is what redis.cluster says.

        >>> [str(problem) for problem in ServerInfo(version="6.0.16", mode="standalone").problems(cluster=False)]
        ['redis.url = Redis 6.0.16: must lead to Redis 6.2 or newer, or Valkey']
        """
        found = []
        if self.version is not None and _numbers(self.version) < VERSION_LEAST:
            found.append(Problem("redis.url", f"Redis {self.version}", "must lead to Redis 6.2 or newer, or Valkey"))
        if self.mode == "sentinel":
            found.append(Problem("redis.url", "a sentinel", "must lead to a server that holds data"))
        if self.mode == "cluster" and not cluster:
            found.append(Problem("redis.cluster", "false", "must be true, because the server belongs to a cluster"))
        if self.is_replica:
            found.append(Problem("redis.url", "a replica", "must lead to the primary, because a replica takes no writes"))
        return tuple(found)

    @property
    def evicts(self) -> bool | None:
        """Whether keys may be deleted when memory is short; None where the server does not say."""
        return None if self.maxmemory_policy is None else self.maxmemory_policy != KEEPS_EVERYTHING

    @property
    def forgets(self) -> bool | None:
        """Whether a restart may begin empty, for want of a log and of snapshots; None where the server does not say.

        >>> ServerInfo(appendonly="yes").forgets, ServerInfo(appendonly="no", save="").forgets, ServerInfo(appendonly="no").forgets
        (False, True, None)
        """
        if self.appendonly is not None and "no" not in self.appendonly:
            return False
        if self.save is not None and not _some_without_snapshots(self.save):
            return False
        return None if self.appendonly is None or self.save is None else True

    def risks(self, allow_eviction: bool) -> tuple[Risk, ...]:
        """Why state could be lost. An evicting policy is refused unless it is allowed (redis.allow_eviction); the rest is warned of.

        >>> [(risk.setting, risk.is_refused) for risk in ServerInfo(maxmemory_policy="allkeys-lru").risks(allow_eviction=False)]
        [('maxmemory-policy', True)]
        """
        found = []
        if self.evicts:
            fix = "must be noeviction, or Redis deletes state when memory is short (CONFIG SET maxmemory-policy noeviction)"
            fix += "" if allow_eviction else "; or go on at that risk with --allow-eviction (redis.allow_eviction)"
            found.append(Risk("maxmemory-policy", str(self.maxmemory_policy), fix, not allow_eviction))
        if self.forgets:
            fix = "must be yes, or snapshots on (save), or a restart of Redis loses all state (CONFIG SET appendonly yes)"
            found.append(Risk("appendonly", str(self.appendonly), fix, False))
        return tuple(found)


def read_facts(client: Client, place: str) -> dict[str, ServerInfo]:
    """What the server at `place` says, or every primary of a cluster, by host and port.

    What is refused is unknown; raises only what the client raises.
    """
    if isinstance(client, redis.RedisCluster):
        primaries: list[ClusterNode] = client.get_primaries()  # type: ignore[no-untyped-call]  # the client does not say
        return {f"{node.host}:{node.port}": _facts_of(client.get_redis_connection(node)) for node in primaries}
    return {place: _facts_of(client)}


def _facts_of(node: redis.Redis) -> ServerInfo:
    info = _unless_refused(lambda: cast("Mapping[str, Any]", node.info()))
    config = {name: value for asked in CONFIG_NAMES for name, value in _config(node, asked).items()}
    appendonly = {0: "no", 1: "yes"}.get(info.get("aof_enabled", -1))
    return ServerInfo(
        version=_text(info.get("redis_version")),
        mode=_text(info.get("redis_mode")),
        role=_text(info.get("role")),
        maxmemory_policy=config.get("maxmemory-policy", _text(info.get("maxmemory_policy"))),
        appendonly=config.get("appendonly", appendonly),
        appendfsync=config.get("appendfsync"),
        save=config.get("save"),
        used_memory=info.get("used_memory"),
        maxmemory=info.get("maxmemory"),
    )


def _config(node: redis.Redis, name: str) -> Mapping[str, str]:
    answer = _unless_refused(lambda: cast("Mapping[Any, Any]", node.config_get(name)))
    return {str(_text(key)): str(_text(value)) for key, value in answer.items()}


def _unless_refused(ask: Callable[[], Mapping[Any, Any]]) -> Mapping[Any, Any]:
    """The answer, or none where the user or the service may not ask."""
    try:
        return ask()
    except (NoPermissionError, ResponseError):
        return {}


def merged(found: Collection[ServerInfo]) -> ServerInfo:
    """What several servers say, as if they were one."""

    def texts(name: str) -> str | None:
        values = {getattr(facts, name) for facts in found}
        return None if None in values or not values else " | ".join(sorted(values))

    def total(name: str) -> int | None:
        values = [getattr(facts, name) for facts in found]
        return None if None in values or not values else sum(values)

    versions = [facts.version for facts in found if facts.version is not None]
    same = {name: texts(name) for name in ("mode", "role", "maxmemory_policy", "appendonly", "appendfsync", "save")}
    least = min(versions, key=_numbers, default=None)
    return ServerInfo(version=least, used_memory=total("used_memory"), maxmemory=total("maxmemory"), **same)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, to compare.

    >>> _numbers("7.0.15"), _numbers("255.255.255-dev")
    ((7, 0, 15), (255, 255, 255))
    """
    return tuple(int(piece) for piece in version.partition("-")[0].split(".") if piece.isdecimal())


def _some_without_snapshots(save: str) -> bool:
    return "" in save.split(" | ")


def _text(value: object) -> str | None:
    return None if value is None else value.decode() if isinstance(value, bytes) else str(value)
