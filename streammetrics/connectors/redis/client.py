"""Connects to Redis, and turns the client's errors into ours: StoreError with advice, or StateError. Names no key, and reads and writes no
state.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.connection import parse_url
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
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from streammetrics.config.fields import secret_text
from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import StateError, StoreError

Client = redis.Redis | redis.RedisCluster
CLIENT_NAME: Final = "streammetrics"
"""The name that the server sees of a connection without another."""
RESENDS_MAX = 2
"""How often the client repeats a command after a broken connection. Callers wait out longer outages. A timeout is not repeated: retries of
the connection multiply with those of the command, and a worker's loop would block for seven timeouts."""
RESEND_SECONDS, RESEND_SECONDS_MAX = 0.02, 0.2


def place_of(settings: RedisSettings) -> str:
    """Return the host and port, the path of the socket, or the name of the service, for messages.

    >>> place_of(RedisSettings(url="redis://:secret@cache:6380/0")), place_of(RedisSettings(url="unix:///run/redis.sock"))
    ('cache:6380', '/run/redis.sock')
    >>> place_of(RedisSettings(url="redis://:secret@Main/0", sentinels=("a:26379",)))
    'service Main'
    """
    parts = urlsplit(settings.url.get_secret_value())
    if settings.sentinels:
        return f"service {_service_of(settings)}"
    return parts.path if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"


def _service_of(settings: RedisSettings) -> str:
    """Return the name of the service that the sentinels watch."""
    return urlsplit(settings.url.get_secret_value()).netloc.rpartition("@")[2]  # `hostname` would be in lower case


def masked(settings: RedisSettings, text: str) -> str:
    """Replace the passwords of these settings in a text.

    >>> masked(RedisSettings(url="redis://:p%40ss@cache", password="other"), "p@ss other third")
    '*** *** third'
    """
    parts = urlsplit(settings.url.get_secret_value())
    given = secret_text(settings.password), secret_text(settings.sentinel_password)
    for secret in (*given, unquote(parts.password or ""), *parse_qs(parts.query).get("password", ())):
        text = text.replace(secret, "***") if secret else text
    return text


def require_files(settings: RedisSettings) -> None:
    """Raise ConfigError for certificate files that cannot be read or do not match each other."""
    files = CertificateFiles(
        section="redis",
        cafile=settings.ssl_cafile,
        certfile=settings.ssl_certfile,
        keyfile=settings.ssl_keyfile,
        takes_password=False,
    )
    files.check()


def connect(settings: RedisSettings, client_name: str = CLIENT_NAME) -> Client:
    """Return a client. A cluster's client contacts its nodes at once and may raise errors that `explaining_errors` translates.

    Retries are safe: a claim or commit that arrives twice is recognised by its token and seq.
    """
    url, seconds = settings.url.get_secret_value(), settings.socket_timeout_ms / 1_000
    options: dict[str, Any] = {
        "username": settings.username,
        "password": secret_text(settings.password),
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": retry_policy(),
        "client_name": client_name,
        "decode_responses": False,
        "protocol": 2,  # replies have the same shape with every server
    }
    if url.startswith("rediss:"):
        files = {"ssl_ca_certs": settings.ssl_cafile, "ssl_certfile": settings.ssl_certfile, "ssl_keyfile": settings.ssl_keyfile}
        options |= {name: path for name, path in files.items() if path is not None}
    if settings.sentinels:
        return _primary_of(settings, options)
    return redis.RedisCluster.from_url(url, **options) if settings.cluster else redis.Redis.from_url(url, **options)


def _primary_of(settings: RedisSettings, options: dict[str, Any]) -> redis.Redis:
    """Return a client of the primary that the sentinels name. It asks them for each new connection, so it follows a failover."""
    url = settings.url.get_secret_value()
    given: dict[str, Any] = parse_url(url)  # type: ignore[no-untyped-call]  # untyped in the client
    arguments = {**given, **{name: value for name, value in options.items() if value is not None}}
    arguments = {name: value for name, value in arguments.items() if name not in ("host", "port", "connection_class")}
    tls = {name: value for name, value in arguments.items() if name.startswith("ssl")}
    tls |= {"ssl": True} if url.startswith("rediss:") else {}
    timeouts = {name: arguments[name] for name in ("socket_timeout", "socket_connect_timeout", "client_name", "protocol")}
    login = {"username": settings.sentinel_username, "password": secret_text(settings.sentinel_password)}
    addresses = [(host.strip("[]"), int(port)) for host, _, port in (address.rpartition(":") for address in settings.sentinels)]
    sentinel = Sentinel(addresses, sentinel_kwargs={**timeouts, **tls, **login, "retry": None})  # type: ignore[no-untyped-call]
    primary: redis.Redis = sentinel.master_for(_service_of(settings), **{**arguments, **tls})  # type: ignore[no-untyped-call]  # untyped in the client
    return primary


def close_connections(client: Client) -> None:
    """Close every connection. A cluster's client would leave the connections to its nodes to the garbage collector."""
    if isinstance(client, redis.RedisCluster):
        client.disconnect_connection_pools()  # type: ignore[no-untyped-call]  # untyped in the client
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for sentinel in manager.sentinels if manager is not None else ():
        sentinel.close()
    client.close()


class LazyClient:
    """Builds a client at the first use, and again at the first use after `close`. Usable from several threads."""

    def __init__(self, settings: RedisSettings, client_name: str = CLIENT_NAME) -> None:
        self._settings, self._client_name = settings, client_name
        self._lock = threading.Lock()
        self._current: Client | None = None

    def get(self) -> Client:
        """Return the client. May raise errors that `explaining_errors` translates."""
        with self._lock:
            if self._current is None:
                self._current = connect(self._settings, self._client_name)
            return self._current

    def close(self) -> None:
        with self._lock:
            client, self._current = self._current, None
        if client is not None:
            close_connections(client)


def retry_policy(*errors: type[Exception]) -> Retry:
    """Return a policy that repeats after these errors, by default after a broken connection."""
    backoff = ExponentialWithJitterBackoff(base=RESEND_SECONDS, cap=RESEND_SECONDS_MAX)
    return Retry(backoff, RESENDS_MAX, errors or (ConnectionError,))


def server_of(client: Client, key: str) -> redis.Redis:
    """Return the server that holds a key. For a cluster it is the node of the key's slot, as far as the client knows."""
    if isinstance(client, redis.Redis):
        return client
    return client.get_redis_connection(client.get_node_from_key(key))  # type: ignore[no-untyped-call]  # untyped in the client


def send(client: Client, *command: Any) -> Any:
    """Send one command. A cluster's client finds the node by the command's keys."""
    return client.execute_command(*command)  # type: ignore[no-untyped-call]  # untyped in the client


def replies_of(pipeline: Any) -> list[Any]:
    """Return a single server's replies to a pipeline. Raises the first error unchanged; the client would add the whole command to it."""
    replies: list[Any] = pipeline.execute(raise_on_error=False)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


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
