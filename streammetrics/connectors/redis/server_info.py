"""Reads a Redis server's settings, finds those that could lose state, and names state that is incomplete. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, cast

import redis
from redis.cluster import ClusterNode
from redis.exceptions import NoPermissionError, ResponseError

from streammetrics.connectors.redis.client import Client
from streammetrics.connectors.redis.keys import LAYOUT_VERSION
from streammetrics.connectors.store import lost_state
from streammetrics.errors import Problem, StateError


def require_complete(task: int, namespace: str, reply: Sequence[Any]) -> None:
    """Raise StateError if `claim.lua` or `view.lua` replied with a problem instead of the task's state."""
    version, *keys = reply
    if not keys and version is None:
        raise lost_state(task)
    if not keys:
        raise StateError(
            f"the keys of task {task} in redis.namespace = {namespace} have layout {version.decode()}, and this version reads layout "
            f"{LAYOUT_VERSION}",
            "run the version that wrote them, or start again with a new redis.namespace",
        )
    if len(reply) == 2:
        names = [key.decode() for key in keys[0]]
        raise lost_keys(task, names) if version is not None else _left_over_keys(task, names, namespace)


def lost_keys(task: int, keys: Sequence[str]) -> StateError:
    """Return the error for a task with missing keys."""
    return StateError(
        f"Redis has lost a part of the state of task {task}: {_listed(keys)} missing (evicted, or deleted by hand). Without it all later "
        "counts would be wrong",
        "restore the state from a backup, or start again with a new redis.namespace",
    )


def _left_over_keys(task: int, keys: Sequence[str], namespace: str) -> StateError:
    return StateError(
        f"Redis holds only a part of the state of task {task}: {_listed(keys)} present, but the key with its offsets is missing. Either a "
        "deletion was interrupted, or Redis has lost the key",
        f"delete the rest with `streammetrics namespaces delete {namespace}`, or restore all of it from a backup",
    )


def _listed(keys: Sequence[str]) -> str:
    """List keys, with the verb.

    >>> _listed(["{sm:0}:due"]), _listed(["{sm:0}:due", "{sm:0}:rows"])
    ('{sm:0}:due is', '{sm:0}:due, {sm:0}:rows are')
    """
    return f"{', '.join(keys)} {'is' if len(keys) == 1 else 'are'}"


VERSION_LEAST = (6, 2)
CONFIG_NAMES = ("maxmemory-policy", "appendonly", "appendfsync", "save")
KEEPS_EVERYTHING = "noeviction"


class Risk(NamedTuple):
    """A setting with which state could be lost: its value and how to fix it. `is_refused`: `run` stops because of it."""

    setting: str
    value: str
    fix: str
    is_refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Settings of a server, or of all primaries of a cluster. None is unknown: a managed Redis may refuse the question.

    Where primaries differ, texts are joined with " | ", numbers are added, and the version is the lowest. `used_memory` and `maxmemory`
    are bytes; a `maxmemory` of 0 means no limit. `save` is Redis' own text, empty without snapshots. `product` is Redis or Valkey.
    `aof_status` is ok, or err after a write of the append-only file that failed.
    """

    product: str = "Redis"
    version: str | None = None
    mode: str | None = None
    role: str | None = None
    maxmemory_policy: str | None = None
    appendonly: str | None = None
    appendfsync: str | None = None
    save: str | None = None
    used_memory: int | None = None
    maxmemory: int | None = None
    aof_status: str = "ok"

    @property
    def refusal(self) -> str:
        """Why it refuses writes now; empty while it accepts them.

        >>> ServerInfo(aof_status="err").refusal, ServerInfo(used_memory=9, maxmemory=8).refusal, ServerInfo(used_memory=9).refusal
        ('it cannot write to its disk, which may be full', 'its memory is full (maxmemory)', '')
        """
        if self.aof_status == "err":
            return "it cannot write to its disk, which may be full"
        is_full = self.used_memory is not None and self.maxmemory and self.used_memory >= self.maxmemory
        return "its memory is full (maxmemory)" if is_full and not self.evicts else ""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The names of the unknown settings."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is None)

    @property
    def is_replica(self) -> bool:
        """Whether it accepts no writes now. After a failover it may be a primary."""
        return self.role is not None and "slave" in self.role

    def problems(self, cluster: bool) -> tuple[Problem, ...]:
        """Return why this server cannot be used. `cluster` is the setting redis.cluster.

        >>> [str(problem) for problem in ServerInfo(version="6.0.16", mode="standalone").problems(cluster=False)]
        ['redis.url = Redis 6.0.16: must be Redis 6.2 or newer, or Valkey']
        """
        problems = []
        if self.version is not None and _numbers(self.version) < VERSION_LEAST:
            problems.append(Problem("redis.url", f"{self.product} {self.version}", "must be Redis 6.2 or newer, or Valkey"))
        if self.mode == "sentinel":
            problems.append(Problem("redis.url", "a sentinel", "must be a server that holds data"))
        if self.mode == "cluster" and not cluster:
            problems.append(Problem("redis.cluster", "false", "must be true, because the server belongs to a cluster"))
        if self.is_replica:
            problems.append(Problem("redis.url", "a replica", "must be the primary, because a replica accepts no writes"))
        return tuple(problems)

    @property
    def evicts(self) -> bool | None:
        """Whether Redis may delete keys when memory is short; None if unknown."""
        return None if self.maxmemory_policy is None else self.maxmemory_policy != KEEPS_EVERYTHING

    @property
    def forgets(self) -> bool | None:
        """Whether a restart loses all state, because both append-only file and snapshots are off; None if unknown.

        >>> ServerInfo(appendonly="yes").forgets, ServerInfo(appendonly="no", save="").forgets, ServerInfo(appendonly="no").forgets
        (False, True, None)
        """
        if self.appendonly is not None and "no" not in self.appendonly:
            return False
        if self.save is not None and not _some_without_snapshots(self.save):
            return False
        return None if self.appendonly is None or self.save is None else True

    def risks(self, allow_eviction: bool) -> tuple[Risk, ...]:
        """Return why state could be lost. An evicting policy is refused unless redis.allow_eviction is set. The others are warnings.

        >>> [(risk.setting, risk.is_refused) for risk in ServerInfo(maxmemory_policy="allkeys-lru").risks(allow_eviction=False)]
        [('maxmemory-policy', True)]
        """
        risks = []
        if self.evicts:
            fix = "must be noeviction, or Redis deletes state when memory is short (CONFIG SET maxmemory-policy noeviction)"
            fix += "" if allow_eviction else "; or accept the risk with --allow-eviction (redis.allow_eviction)"
            risks.append(Risk("maxmemory-policy", str(self.maxmemory_policy), fix, not allow_eviction))
        if self.forgets:
            fix = "must be yes, or snapshots on (save), or a restart of Redis loses all state (CONFIG SET appendonly yes)"
            risks.append(Risk("appendonly", str(self.appendonly), fix, False))
        return tuple(risks)


def read_server_info(client: Client, place: str) -> dict[str, ServerInfo]:
    """Return the settings of the server at `place`, or of every primary of a cluster, by host and port.

    Settings that may not be read are unknown. Raises the client's errors.
    """
    if isinstance(client, redis.RedisCluster):
        primaries: list[ClusterNode] = client.get_primaries()  # type: ignore[no-untyped-call]  # untyped in the client
        return {f"{node.host}:{node.port}": _info_of(client.get_redis_connection(node)) for node in primaries}
    return {place: _info_of(client)}


def _info_of(node: redis.Redis) -> ServerInfo:
    info = _unless_refused(lambda: cast("Mapping[str, Any]", node.info()))
    config = {name: value for wanted in CONFIG_NAMES for name, value in _config(node, wanted).items()}
    appendonly = {0: "no", 1: "yes"}.get(info.get("aof_enabled", -1))
    valkey = _text(info.get("valkey_version"))  # its redis_version is the one that it is compatible with
    return ServerInfo(
        product="Redis" if valkey is None else "Valkey",
        version=valkey or _text(info.get("redis_version")),
        mode=_text(info.get("redis_mode", info.get("server_mode"))),
        role=_text(info.get("role")),
        maxmemory_policy=config.get("maxmemory-policy", _text(info.get("maxmemory_policy"))),
        appendonly=config.get("appendonly", appendonly),
        appendfsync=config.get("appendfsync"),
        save=config.get("save"),
        used_memory=info.get("used_memory"),
        maxmemory=info.get("maxmemory"),
        aof_status=_text(info.get("aof_last_write_status")) or "ok",
    )


def _config(node: redis.Redis, name: str) -> Mapping[str, str]:
    config = _unless_refused(lambda: cast("Mapping[Any, Any]", node.config_get(name)))
    return {str(_text(key)): str(_text(value)) for key, value in config.items()}


def _unless_refused(read: Callable[[], Mapping[Any, Any]]) -> Mapping[Any, Any]:
    """Return what `read` returns, or nothing where the user or the service does not allow it."""
    try:
        return read()
    except (NoPermissionError, ResponseError):
        return {}


def merged(servers: Collection[ServerInfo]) -> ServerInfo:
    """Combine the settings of several servers into one."""

    def texts(name: str) -> str | None:
        values = {getattr(info, name) for info in servers}
        return None if None in values or not values else " | ".join(sorted(values))

    def total(name: str) -> int | None:
        values = [getattr(info, name) for info in servers]
        return None if None in values or not values else sum(values)

    versions = [info.version for info in servers if info.version is not None]
    same: dict[str, Any] = {name: texts(name) for name in ("mode", "role", "maxmemory_policy", "appendonly", "appendfsync", "save")}
    least = min(versions, key=_numbers, default=None)
    product = " | ".join(sorted({info.product for info in servers}))
    return ServerInfo(product=product, version=least, used_memory=total("used_memory"), maxmemory=total("maxmemory"), **same)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparison.

    >>> _numbers("7.0.15"), _numbers("255.255.255-dev")
    ((7, 0, 15), (255, 255, 255))
    """
    return tuple(int(part) for part in version.partition("-")[0].split(".") if part.isdecimal())


def _some_without_snapshots(save: str) -> bool:
    return "" in save.split(" | ")


def _text(value: object) -> str | None:
    return None if value is None else value.decode() if isinstance(value, bytes) else str(value)
