"""What every Kafka client here shares: settings, files, reachability, and the words for what went wrong.

No record is read or written in this module.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import structlog
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from streammetrics.connectors.kafka.patches.socket_fixes import close_failed, receive_large_pieces
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import SourceError

log = structlog.get_logger("streammetrics.kafka")

CONNECT_SECONDS = 3.0
BOOTSTRAP_MS = 5_000
REQUEST_MS = 10_000
RECONNECT_MS_MAX = 1_000
"""The client's own default of 30 s would keep it silent for half a minute after a broker is back."""
METADATA_MS_MAX = 10_000
REPEAT_SECONDS = 10.0
"""The client's log says the same thing up to 400 times a second in an outage; we pass it on after this pause, and then after twice as
long each time: a dozen such things in turn are a flood too."""
REPEAT_SECONDS_MAX = 640.0
CALM_SECONDS = 60.0
"""What has not been said for so long is news when it is said again."""

SUMMARY = "Bootstrap failed"
"""How the client's last words begin when it cannot start: they hide the cause, which it logged before."""
CLOSED = "socket disconnected"
UNTELLING = (CLOSED, "RequestTimedOutError")
"""All that the client says of a second login that was refused, or cut short by its own deadline; of the first it gave the reason."""
OF_ITSELF = ("blocking the event loop", "Failed to build connection log_prefix", "Metadata refresh: failed Cancelled")
"""What the client says of its own inside: that a machine is busy, that a connection had no name when it broke, and that it closed one
itself while it asked there for topics and brokers, which it does again elsewhere if it goes on at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnection:
    """How to reach Kafka and what to read there. Passwords never show in `repr`.

    `start` says where an input begins that has no stored offset: a number is the timestamp of a record (epoch ms).
    `bootstrap_servers` are `host:port` (IPv6 hosts in brackets).
    """

    bootstrap_servers: tuple[str, ...]
    topics: tuple[str, ...] = ()
    group_id: str = "streammetrics"
    group_instance_id: str | None = None
    start: Literal["earliest", "latest"] | int = "earliest"
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_committed"
    session_timeout_ms: int = 10_000
    poll_records_max: int = 20_000
    partition_fetch_bytes_max: int = 4 << 20
    client_id: str = "streammetrics"
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)

    @property
    def start_told(self) -> str:
        """`start` for people: a time as ISO-8601."""
        start = self.start
        return start if isinstance(start, str) else datetime.fromtimestamp(start / 1_000, UTC).isoformat(timespec="milliseconds")


def connection_options(settings: KafkaConnection) -> dict[str, Any]:
    """The keyword arguments that consumer, producer and admin client share."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": settings.client_id,
        "request_timeout_ms": REQUEST_MS,
        "reconnect_backoff_max_ms": RECONNECT_MS_MAX,
        "metadata_max_age_ms": METADATA_MS_MAX,
        "bootstrap_timeout_ms": BOOTSTRAP_MS,
        "security_protocol": settings.security_protocol,
        "ssl_check_hostname": settings.ssl_check_hostname,
        "ssl_cafile": settings.ssl_cafile,
        "ssl_certfile": settings.ssl_certfile,
        "ssl_keyfile": settings.ssl_keyfile,
        "ssl_password": settings.ssl_password,
    }
    if settings.sasl_mechanism:
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.sasl_username,
            "sasl_plain_password": settings.sasl_password,
        }
    return options


def unreachable_reason(servers: Sequence[str], timeout_s: float = CONNECT_SECONDS) -> str | None:
    """None if one of the servers accepts a TCP connection, else why each did not.

    Clients are built only after this: what a client says when it finds nobody names no cause, and takes five seconds.

    >>> unreachable_reason(["nowhere"])
    'nowhere: not of the form host:port'
    """
    reasons = []
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            reasons.append(f"{server}: not of the form host:port")
            continue
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{server}: {error}")
        else:
            return None
    return "; ".join(reasons)


def require_files(settings: KafkaConnection) -> None:
    """Raise ConfigError that names the certificate files which cannot be read or do not fit each other.

    The client reads them each time that it connects, on a thread of its own, and says of any misfit that it found nobody.
    """
    if "SSL" in settings.security_protocol:
        files = CertificateFiles(
            section="kafka",
            cafile=settings.ssl_cafile,
            certfile=settings.ssl_certfile,
            keyfile=settings.ssl_keyfile,
            password=settings.ssl_password,
        )
        files.check()


def require_reachable(settings: KafkaConnection) -> None:
    """Raise ConfigError for certificate files that cannot be used, SourceError unless a server accepts a TCP connection."""
    require_files(settings)
    if reason := unreachable_reason(settings.bootstrap_servers):
        raise SourceError(f"no Kafka broker can be reached ({reason})", "start it, or correct kafka.bootstrap_servers")


def words_of(error: BaseException) -> str:
    """What an error of the client says, with its name, which most of them bring along.

    >>> from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError
    >>> words_of(KafkaTimeoutError("no answer")), words_of(AssertionError("no answer")), words_of(NotLeaderForPartitionError())
    ('KafkaTimeoutError: no answer', 'AssertionError: no answer', 'NotLeaderForPartitionError')
    """
    name, text = type(error).__name__, str(error)
    return text[text.index(name) :] if name in text else f"{name}: {text}"


class PassedWarning(NamedTuple):
    """When something was passed on, when it was heard last (epoch seconds), how often it was held back since, and for how long it is."""

    at: float
    heard_at: float
    held: int
    pause_seconds: float


class ClientLog(logging.Handler):
    """Takes over the client's own log: passes warnings on, each again after longer and longer pauses, and remembers the last error.

    The client raises the same "Unable to bootstrap" for a wrong password, a wrong authority and a plaintext port; only its
    log knows the cause. `quiet`: an outage has been told of, to which it has nothing to add but for who wants every detail.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lock = threading.Lock()
        self._passed: dict[tuple[str, int], PassedWarning] = {}
        self._last = self._last_telling = (0.0, "")
        self._last_closed = 0.0
        self.quiet = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        if any(words in text for words in OF_ITSELF):
            return
        with self._lock:
            if record.levelno >= logging.ERROR and not text.startswith(SUMMARY):
                self._last = (record.created, text)
                if CLOSED in text:
                    self._last_closed = record.created
                if not any(words in text for words in UNTELLING):
                    self._last_telling = (record.created, text)
            key = (record.pathname, record.lineno)  # not the text: some messages carry their values in it
            now, known = record.created, self._passed.get(key)
            if known is None or now - known.heard_at > CALM_SECONDS:
                pause_seconds = REPEAT_SECONDS
            elif now - known.at < known.pause_seconds:
                self._passed[key] = known._replace(heard_at=now, held=known.held + 1)
                return
            else:
                pause_seconds = min(2 * known.pause_seconds, REPEAT_SECONDS_MAX)
            held = known.held if known is not None else 0
            self._passed[key] = PassedWarning(now, now, 0, pause_seconds)
        write = log.debug if self.quiet else log.error if record.levelno >= logging.ERROR else log.warning
        write("kafka client", logger=record.name, message=text, held_back=held)

    def was_closed(self, since: float) -> bool:
        """Whether a broker has closed a connection at or after `since` (epoch seconds) without a word that the client passed on."""
        with self._lock:
            return self._last_closed >= since

    def last_error(self, since: float) -> str | None:
        """The last error that the client logged at or after `since` (epoch seconds), of those the last one with a cause in it."""
        with self._lock:
            return next((text for at, text in (self._last_telling, self._last) if text and at >= since), None)


@functools.cache
def client_log() -> ClientLog:
    """The process' only ClientLog, attached at first use (the client logs through process-wide loggers)."""
    handler = ClientLog()
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)  # below it the admin client logs its whole configuration, passwords included
    logger.propagate = False
    return handler


class Network:
    """Makes the network part of a client (its `kafka_client` setting) and keeps hold of it."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, **options: Any) -> Any:
        client = KafkaNetClient(**options)
        close_failed(client)
        receive_large_pieces(client)
        self.made.append(client)
        return client

    @property
    def cluster(self) -> Any:
        """What the client knows of topics and brokers, kept up to date by it."""
        return self.made[-1].cluster

    def close(self) -> None:
        for client in self.made:
            with contextlib.suppress(KafkaError, RuntimeError):
                client.close()


@contextlib.contextmanager
def starting(what: str, settings: KafkaConnection) -> Iterator[Network]:
    """Turn a client's failure to start into a SourceError that gives the cause from the client's log.

    A client that is given the yielded Network leaves no thread and no descriptor behind when it fails to start.
    """
    watched, began, network = client_log(), time.time(), Network()
    try:
        with contextlib.ExitStack() as undo:
            undo.callback(network.close)
            yield network
            undo.pop_all()
    except (OSError, ValueError) as error:
        raise SourceError(f"{what} cannot be started: {error}") from error
    except KafkaError as error:
        cause = watched.last_error(began)
        hint = f": {cause}" if cause else ""
        # The client drops what a broker says just before it closes a connection, the refusal of a login too.
        login = "; so ends a login that the broker refuses" if settings.sasl_mechanism and watched.was_closed(began) else ""
        raise SourceError(
            f"{what} cannot be started, though {', '.join(settings.bootstrap_servers)} accepts connections ({error}{hint}{login})",
            f"check kafka.security_protocol (now {settings.security_protocol}), certificates and credentials",
        ) from error


@contextlib.contextmanager
def asking(settings: KafkaConnection, what: str) -> Iterator[Any]:
    """An admin client to ask a broker for `what`, such as "its topics".

    Raises SourceError when no broker can be asked, or does not say; ConfigError for certificate files that cannot be used.
    """
    require_reachable(settings)
    with starting("the Kafka admin client", settings) as network:
        admin = KafkaAdminClient(**connection_options(settings), kafka_client=network)
    try:
        yield admin
    except KafkaError as error:
        raise SourceError(f"the broker does not describe {what}: {error}") from error
    finally:
        admin.close()
