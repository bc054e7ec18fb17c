"""Settings of the connection to Redis. None of them changes a result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Final
from urllib.parse import parse_qs, parse_qsl, urlsplit

from pydantic import AfterValidator, Field

from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    Conflict,
    Listed,
    MaskedUrl,
    OptionalSecret,
    OptionalText,
    Section,
    Server,
    Whole,
    key_without_certificate,
    milliseconds,
    non_empty,
    require_host,
    setting,
)

CLUSTER_TIMEOUT_MS_MAX = 5_000
"""A cluster client waits for hanging nodes in turn: up to five times with three nodes, and /healthz fails after 30 s."""

_REDIS_QUERY: Final = ("db", "username", "password")
_SET_CAFILE: Final = "set redis.ssl_cafile instead"
_INSTEAD_OF: Final[Mapping[str, str]] = {
    "socket_timeout": "set redis.socket_timeout_ms instead",
    "socket_connect_timeout": "set redis.socket_timeout_ms instead",
    "ssl_ca_certs": _SET_CAFILE,
    "ssl_cert_reqs": _SET_CAFILE,
    "ssl_check_hostname": _SET_CAFILE,
    "ssl_certfile": "set redis.ssl_certfile instead",
    "ssl_keyfile": "set redis.ssl_keyfile instead",
}
"""Advice for URL options that the Redis client would read and that would override our settings."""


def _usable_address(url: MaskedUrl) -> MaskedUrl:
    """Check a Redis URL. Messages never contain it."""
    try:
        parts = urlsplit(url.get_secret_value())
        parts.port  # noqa: B018 (reading it raises ValueError for an invalid port)
    except ValueError:
        raise ValueError("not a URL; percent-encode special characters in the user and the password") from None
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError("the scheme must be redis://, rediss:// or unix://")
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("a unix:// URL needs the path of the socket")
    elif not parts.hostname or not re.fullmatch(r"/?|/[0-9]{1,5}", parts.path) or parts.fragment:
        raise ValueError("the part after the scheme must be host:port/database; percent-encode special characters in the password")
    else:
        require_host(parts.hostname)
    return url


def _usable_query(url: MaskedUrl) -> MaskedUrl:
    """Check the query of a Redis URL. Messages contain no value, and no name that may be part of a password."""
    parts = urlsplit(url.get_secret_value())
    query = parse_qsl(parts.query, keep_blank_values=True)
    if foreign := [name for name, _ in query if name not in _REDIS_QUERY]:
        showable = [name for name in foreign if "@" not in parts.query and re.fullmatch(r"[a-z_]{1,40}", name)]
        advice = "; ".join(f"{name}: {_INSTEAD_OF.get(name, 'remove it')}" for name in showable)
        raise ValueError("only db, username and password may follow the ?" + (f"; {advice}" if showable else ""))
    if any(name == "db" and not re.fullmatch(r"[0-9]{1,5}", value) for name, value in query):
        raise ValueError("db is a number of at most 5 digits")
    in_address = {"db": parts.scheme != "unix" and parts.path.strip("/"), "username": parts.username, "password": parts.password}
    counts = Counter([*(name for name, _ in query), *(name for name, value in in_address.items() if value)])
    if repeated := [name for name in _REDIS_QUERY if counts[name] > 1]:
        raise ValueError(f"{repeated[0]} is given twice")
    return url


RedisUrl = Annotated[MaskedUrl, AfterValidator(_usable_address), AfterValidator(_usable_query)]


class RedisSettings(Section):
    url: RedisUrl = setting(
        MaskedUrl("redis://127.0.0.1:6379/0"),
        "The Redis server. rediss:// uses TLS. For a cluster, give any one of its nodes.",
        "redis://host:port/database, rediss://host:port/database or unix://path",
    )
    cluster: bool = setting(False, "Whether Redis is a Redis Cluster.")
    namespace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:-]{1,64}$")] = setting(
        "sm", "Prefix of every key. Deployments with different namespaces can share one Redis.", "1 to 64 letters, digits and _ . : -"
    )
    username: OptionalText = setting(None, "User to log in as.", "a name, or empty for none")
    password: OptionalSecret = setting(None, "Password to log in with.", "a text, or empty for none")
    ssl_cafile: OptionalText = setting(None, "Certificate authorities to trust (PEM). Empty: those of the system.", PATH_OR_EMPTY)
    ssl_certfile: OptionalText = setting(None, "Client certificate (PEM), if the server requires one.", PATH_OR_EMPTY)
    ssl_keyfile: OptionalText = setting(None, "Private key of the client certificate (PEM).", PATH_OR_EMPTY)
    sentinels: Listed[Server] = setting(
        (),
        "Redis Sentinel: the addresses of the sentinels, which say where the primary is. The host of redis.url is then the name of the"
        " service, without a port, such as redis://mymaster/0. With rediss:// the sentinels need TLS too. Empty: no Sentinel.",
        "a list of distinct host:port, or empty for none",
    )
    sentinel_username: OptionalText = setting(None, "User to log in to the sentinels as.", "a name, or empty for none")
    sentinel_password: OptionalSecret = setting(None, "Password to log in to the sentinels with.", "a text, or empty for none")
    socket_timeout_ms: Whole = milliseconds(
        5_000,
        "Timeout for one Redis reply. The worker waits this long before it treats the connection as lost; with a cluster, a few times"
        " as long.",
        least=1,
        most=9_000,  # three such waits in one turn stay below the time after which /healthz reports a stuck loop
    )
    allow_eviction: bool = setting(False, "Whether to run with a Redis that may evict keys. Evicted keys are lost state.")

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        parts = urlsplit(self.url.get_secret_value())
        query = parse_qs(parts.query)
        if self.cluster and (parts.scheme == "unix" or parts.path not in ("", "/", "/0") or query.get("db", ["0"]) != ["0"]):
            yield Conflict(("redis.url", "redis.cluster"), "a cluster has only database 0 and no unix socket; redis.cluster is true")
        if self.sentinels and self.cluster:
            yield Conflict(("redis.sentinels", "redis.cluster"), "a cluster has no sentinels; redis.cluster is true")
        if self.sentinels and (parts.scheme == "unix" or parts.port is not None):
            yield Conflict(
                ("redis.url", "redis.sentinels"),
                "with redis.sentinels, its host is the name of the service and has no port: redis://mymaster/0",
            )
        if self.password and (parts.password or "password" in query):
            yield Conflict(("redis.password", "redis.url"), "redis.url contains a password too; keep one of them")
        if self.username and (parts.username or "username" in query):
            yield Conflict(("redis.username", "redis.url"), "redis.url contains a user too; keep one of them")
        yield from key_without_certificate("redis", self.ssl_certfile, self.ssl_keyfile)

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        if not self.sentinels and (unused := non_empty(self, "redis", "sentinel_")):
            yield f"{unused}: ignored, because redis.sentinels is empty"
        if not self.url.get_secret_value().startswith("rediss:") and (unused := non_empty(self, "redis", "ssl_")):
            yield f"{unused}: ignored, because redis.url does not begin with rediss://"
        if self.cluster and self.socket_timeout_ms > CLUSTER_TIMEOUT_MS_MAX:
            yield (
                f"redis.socket_timeout_ms ({self.socket_timeout_ms}) is more than {CLUSTER_TIMEOUT_MS_MAX} with redis.cluster: a worker"
                " waits for hanging nodes one after the other, and /healthz may fail while it waits"
            )
        if self.allow_eviction:
            yield "redis.allow_eviction is true: if Redis evicts keys, state is lost and the results are wrong"
