"""How a Redis is reached, and what its errors mean to an operator: settings, client, words.

No key is named here and no state is read or written.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff
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

from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import StateError, StoreError

Client = redis.Redis | redis.RedisCluster

RESENDS_MAX = 2
"""The client's own quick tries after a broken connection; longer outages are the caller's to wait out. So is an answer that did not
come in time: tries add up, those to connect within those to send, and a worker's loop would stand still for seven timeouts."""
RESEND_SECONDS, RESEND_SECONDS_MAX = 0.02, 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisConnection:
    """How to reach Redis or a Redis Cluster, and the first part of every key. Nothing secret shows in `repr`.

    `url` is redis://, rediss:// (TLS) or unix://; with a cluster any one of its nodes. The certificates are paths of PEM files.

    >>> RedisConnection(url="redis://:secret@cache:6380/0").place
    'cache:6380'
    """

    url: str = field(default="redis://127.0.0.1:6379/0", repr=False)
    cluster: bool = False
    namespace: str = "sm"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    socket_timeout_ms: int = 5_000
    client_name: str = "streammetrics"

    @property
    def place(self) -> str:
        """Where it is, for people: host and port, or the socket's path."""
        parts = urlsplit(self.url)
        return parts.path if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"

    def mask(self, text: str) -> str:
        """The text without the passwords that these settings hold.

        >>> RedisConnection(url="redis://:p%40ss@cache?password=other", password="third").mask("p@ss other third fourth")
        '*** *** *** fourth'
        """
        parts = urlsplit(self.url)
        for secret in (self.password, unquote(parts.password or ""), *parse_qs(parts.query).get("password", ())):
            text = text.replace(secret, "***") if secret else text
        return text


def require_files(settings: RedisConnection) -> None:
    """Raise ConfigError that names the certificate files which cannot be read or do not fit each other."""
    files = CertificateFiles(
        section="redis",
        cafile=settings.ssl_cafile,
        certfile=settings.ssl_certfile,
        keyfile=settings.ssl_keyfile,
        takes_password=False,
    )
    files.check()


def connect(settings: RedisConnection) -> Client:
    """A client; one of a cluster asks its nodes at once and may raise what `speaking` translates, any other is idle till used.

    Re-sends are safe: a claim or commit that arrives twice is known by its token and seq.
    """
    seconds = settings.socket_timeout_ms / 1_000
    options: dict[str, Any] = {
        "username": settings.username,
        "password": settings.password,
        "socket_timeout": seconds,
        "socket_connect_timeout": seconds,
        "retry": resending(),
        "client_name": settings.client_name,
        "decode_responses": False,
        "protocol": 2,  # answers of one shape, whatever the server and client prefer
    }
    if settings.url.startswith("rediss:"):
        files = {"ssl_ca_certs": settings.ssl_cafile, "ssl_certfile": settings.ssl_certfile, "ssl_keyfile": settings.ssl_keyfile}
        options |= {name: path for name, path in files.items() if path is not None}
    return redis.RedisCluster.from_url(settings.url, **options) if settings.cluster else redis.Redis.from_url(settings.url, **options)


def hang_up(client: Client) -> None:
    """Close every connection now; by itself the client of a cluster would leave those to its nodes to be collected some day."""
    if isinstance(client, redis.RedisCluster):
        client.disconnect_connection_pools()  # type: ignore[no-untyped-call]  # the client does not say
    client.close()


class LazyClient:
    """A client that is made when it is first asked for, and anew after it was closed. Usable from several threads."""

    def __init__(self, settings: RedisConnection) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._made: Client | None = None

    def get(self) -> Client:
        """The client. May raise what `speaking` translates."""
        with self._lock:
            if self._made is None:
                self._made = connect(self._settings)
            return self._made

    def close(self) -> None:
        with self._lock:
            client, self._made = self._made, None
        if client is not None:
            hang_up(client)


def resending(*errors: type[Exception]) -> Retry:
    """Sends again after these errors; without any named, after a broken connection."""
    backoff = ExponentialWithJitterBackoff(base=RESEND_SECONDS, cap=RESEND_SECONDS_MAX)
    return Retry(backoff, RESENDS_MAX, errors or (ConnectionError,))


def server_of(client: Client, key: str) -> redis.Redis:
    """The server that holds a key: the only one, or that of its slot, as far as the client knows."""
    if isinstance(client, redis.Redis):
        return client
    return client.get_redis_connection(client.get_node_from_key(key))  # type: ignore[no-untyped-call]  # the client's own types end here


def send(client: Client, *command: Any) -> Any:
    """One command as it is; a cluster's client finds the node by the command's keys."""
    return client.execute_command(*command)  # type: ignore[no-untyped-call]  # the client's own types end here


def answers_of(pipeline: Any) -> list[Any]:
    """What a single server answers to a pipeline. Raises the first error as the server gave it; the client would add the command to it."""
    answers: list[Any] = pipeline.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


class Meaning(NamedTuple):
    """What an error means: known by its kind, or by words that it holds (inside scripts and cluster errors the kind is lost)."""

    kinds: tuple[type[Exception], ...]
    words: tuple[str, ...]
    advice: str


OUTSIDE_A_CLUSTER = Meaning((MovedError,), ("MOVED ",), "the server belongs to a cluster: set redis.cluster to true")
MEANINGS = (
    Meaning(
        (AuthenticationError,),
        ("NOAUTH", "WRONGPASS", "invalid username-password", "invalid password", "without any password configured"),
        "check redis.username and redis.password",
    ),
    Meaning(
        (NoPermissionError,),
        ("NOPERM", "can't run this command", "ACL failure", "no permissions"),
        "grant the user of redis.username the command and the keys of redis.namespace; commands inside scripts count too",
    ),
    Meaning(
        (OutOfMemoryError,),
        ("OOM command not allowed",),
        "nothing was written; raise Redis' maxmemory or free memory, then it goes on by itself",
    ),
    Meaning((), ("Cluster mode is not enabled", "cluster support disabled"), "the server is not a cluster: set redis.cluster to false"),
    Meaning((ReadOnlyError,), ("READONLY",), "redis.url leads to a replica; name the primary, or wait for a failover to end"),
    Meaning(
        (TryAgainError, AskError),  # MOVED is one as well
        ("TTL exhausted",),
        "the cluster moves the keys of a task to another node; it goes on by itself when all are there",
    ),
    Meaning((), ("NOREPLICAS",), "too few replicas are in step for min-replicas-to-write; bring them back"),
    Meaning((BusyLoadingError,), ("LOADING",), "Redis is reading its data; wait"),
    Meaning((), ("MISCONF",), "Redis cannot save to its disk and refuses writes; see its log"),
    Meaning(
        (),
        ("CERTIFICATE", "certificate", "SSL", "TLS", "EOF occurred"),
        "check redis.ssl_cafile, redis.ssl_certfile and redis.ssl_keyfile; redis.url must begin with rediss:// if the server speaks TLS",
    ),
    Meaning((), ("DB index is out of range",), "redis.url names a database that the server does not have: choose a lesser number"),
    Meaning(
        (), ("SELECT is not allowed",), "the server belongs to a cluster: set redis.cluster to true, and name no database in redis.url"
    ),
    Meaning(
        (InvalidResponse,),
        ("Protocol error",),
        "what answers there is no Redis, or speaks TLS: check redis.url, which must begin with rediss:// then",
    ),
    Meaning((TimeoutError,), ("Timeout",), "check redis.url and the network, or raise redis.socket_timeout_ms"),
    Meaning((ConnectionError, OSError), ("cannot be connected",), "check that Redis runs, and redis.url"),
)


@contextlib.contextmanager
def speaking(settings: RedisConnection) -> Iterator[None]:
    """Turn what the client raises into StoreError with the setting to look at, or StateError for keys that are not ours."""
    try:
        yield
    except DataError:  # our own mistake: an argument that cannot be sent
        raise
    except (RedisError, RedisClusterException, OSError) as error:
        raise explained(error, settings) from error


def explained(error: Exception, settings: RedisConnection) -> StoreError | StateError:
    """The error that says what to do.

    >>> print(explained(TimeoutError("Timeout reading from socket"), RedisConnection()))
    Redis at 127.0.0.1:6379: Timeout reading from socket; check redis.url and the network, or raise redis.socket_timeout_ms
    >>> print(explained(ConnectionError("Connection refused."), RedisConnection()))
    Redis at 127.0.0.1:6379: Connection refused; check that Redis runs, and redis.url
    """
    text = settings.mask(str(error)).rstrip(".") or type(error).__name__
    if isinstance(error, AskError):
        text = f"slot {error.slot_id} is to be found at {error.host}:{error.port}"
    if "WRONGTYPE" in text:
        namespace = settings.namespace
        return StateError(
            f"Redis at {settings.place}, redis.namespace = {namespace}: keys of another program ({text})", "choose another namespace"
        )
    meanings = MEANINGS if settings.cluster else (OUTSIDE_A_CLUSTER, *MEANINGS)
    fitting = (meaning.advice for meaning in meanings if isinstance(error, meaning.kinds) or any(word in text for word in meaning.words))
    advice = next(fitting, "")
    if settings.url.startswith("rediss://") and "Timeout connecting" in text:  # who is greeted in TLS, and speaks none, waits for more
        advice += "; redis.url must begin with redis:// if the server speaks no TLS"
    return StoreError(f"Redis at {settings.place}: {text}", advice)
