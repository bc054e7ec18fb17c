"""Turns the client's errors into ours: StoreError with advice, or StateError. Sends nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,
    DataError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TimeoutError,
    TryAgainError,
)
from redis.sentinel import MasterNotFoundError

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import masked, place_of
from streammetrics.errors import StateError, StoreError


class Advice(NamedTuple):
    """Advice for errors of certain types, or with certain texts. Errors in scripts and of a cluster lose their type."""

    types: tuple[type[Exception], ...]
    texts: tuple[str, ...]
    advice: str


MOVED_WITHOUT_CLUSTER = Advice((MovedError,), ("MOVED ",), "the server belongs to a cluster: set redis.cluster to true")
ADVICES = (
    Advice(
        (AuthenticationError,),
        ("NOAUTH", "WRONGPASS", "invalid username-password", "invalid password", "without any password configured"),
        "check redis.username and redis.password",
    ),
    Advice(
        (NoPermissionError,),
        ("NOPERM", "can't run this command", "ACL failure", "no permissions"),
        "grant redis.username this command and the keys of redis.namespace; commands inside scripts count too",
    ),
    Advice(
        (OutOfMemoryError,),
        ("OOM command not allowed",),
        "nothing was written; raise Redis' maxmemory or free memory, then streammetrics continues by itself",
    ),
    Advice((), ("Cluster mode is not enabled", "cluster support disabled"), "the server is not a cluster: set redis.cluster to false"),
    Advice((ReadOnlyError,), ("READONLY",), "redis.url is a replica; use the primary, or wait for a failover to end"),
    Advice(
        (TryAgainError, AskError),  # MovedError is a subclass
        ("TTL exhausted",),
        "the cluster is moving a task's keys to another node; streammetrics continues by itself when all have moved",
    ),
    Advice((), ("NOREPLICAS",), "fewer replicas are in sync than min-replicas-to-write; bring them back"),
    Advice((), ("unknown command",), "every worker needs this command: ask the operator of the server to allow it, or use another server"),
    Advice((BusyLoadingError,), ("LOADING",), "Redis is loading its data; wait"),
    Advice((), ("MISCONF",), "Redis cannot save to its disk and refuses writes: if the disk is full, free some of it; else see its log"),
    Advice(
        (),
        ("CERTIFICATE", "certificate", "SSL", "TLS", "EOF occurred"),
        "check redis.ssl_cafile, redis.ssl_certfile and redis.ssl_keyfile; redis.url must begin with rediss:// if the server requires TLS",
    ),
    Advice((), ("DB index is out of range",), "redis.url has a database number that the server does not have: use a smaller one"),
    Advice(
        (),
        ("SELECT is not allowed",),
        "the server belongs to a cluster: set redis.cluster to true, and remove the database number from redis.url",
    ),
    Advice(
        (InvalidResponse,),
        ("Protocol error",),
        "the server is not Redis, or requires TLS: check redis.url, which must begin with rediss:// for TLS",
    ),
    Advice(
        (MasterNotFoundError,),
        (),
        "the sentinels know no reachable primary: wait for a failover to end; or check redis.sentinels, and the host of redis.url, which is"
        " the name of the service",
    ),
    Advice((TimeoutError,), ("Timeout",), "check redis.url and the network, or raise redis.socket_timeout_ms"),
    Advice((ConnectionError, OSError), ("cannot be connected",), "check that Redis runs, and redis.url"),
)


@contextlib.contextmanager
def explaining_errors(settings: RedisSettings) -> Iterator[None]:
    """Turn the client's errors into StoreError with advice, or StateError for keys of another program."""
    try:
        yield
    except DataError:  # a bug of ours: an argument that cannot be sent
        raise
    except (RedisError, RedisClusterException, OSError) as error:
        raise explain(error, settings) from error


def explain(error: Exception, settings: RedisSettings) -> StoreError | StateError:
    """Return our error for a client's error, with advice.

    >>> print(explain(TimeoutError("Timeout reading from socket"), RedisSettings()))
    Redis at 127.0.0.1:6379: Timeout reading from socket; check redis.url and the network, or raise redis.socket_timeout_ms
    >>> print(explain(ConnectionError("Connection refused."), RedisSettings()))
    Redis at 127.0.0.1:6379: Connection refused; check that Redis runs, and redis.url
    """
    text = masked(settings, str(error)).rstrip(".") or type(error).__name__
    if isinstance(error, AskError):
        text = f"slot {error.slot_id} is at {error.host}:{error.port}"
    if "WRONGTYPE" in text:
        namespace = settings.namespace
        return StateError(
            f"Redis at {place_of(settings)}, redis.namespace = {namespace}: keys of another program ({text})", "choose another namespace"
        )
    advices = ADVICES if settings.cluster else (MOVED_WITHOUT_CLUSTER, *ADVICES)
    matching = (entry.advice for entry in advices if isinstance(error, entry.types) or any(part in text for part in entry.texts))
    advice = next(matching, "")
    is_tls = settings.url.get_secret_value().startswith("rediss://")
    if is_tls and "Timeout connecting" in text:  # a server without TLS waits for more of the handshake
        advice += "; redis.url must begin with redis:// if the server does not use TLS"
    return StoreError(f"Redis at {place_of(settings)}: {text}", advice)
