"""Connect to Kafka: settings, certificates, reachability, and errors that name the cause. Reads and writes no record.

The cause stands only in kafka-python's own log. `ClientLog` takes that over, limits repeated warnings and remembers the last error.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import structlog
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from streammetrics.config.fields import secret_text
from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.patches import failed_sockets, large_reads, limited_batches
from streammetrics.connectors.kafka.token_provider import provider_of, require_botocore
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import SourceError

CLIENT_ID: Final = "streammetrics"
"""The name that the brokers see. Quotas may be set for it."""
CONNECT_SECONDS = 3.0
BOOTSTRAP_MS = 5_000
REQUEST_MS = 10_000
RECONNECT_MS_MAX = 1_000
"""With the client's default of 30 s, reading would stay silent for half a minute after a broker is back."""
METADATA_MS_MAX = 10_000
REPEAT_SECONDS = 10.0
"""The pause before the same message is logged again. In an outage the client repeats one up to 400 times a second. The pause doubles
each time, because a dozen such messages in turn still flood the log."""
REPEAT_SECONDS_MAX = 640.0
CALM_SECONDS = 60.0
"""A message that did not occur for this long is logged at once when it occurs again."""
SUMMARY = "Bootstrap failed"
"""The client's last message when it cannot start. It hides the cause, which was logged before it."""
CLOSED = "socket disconnected"
WITHOUT_CAUSE = (CLOSED, "RequestTimedOutError")
"""The client gives the reason for a refused login only once. For the next attempts it logs nothing but these."""
INTERNAL = ("blocking the event loop", "Failed to build connection log_prefix", "Metadata refresh: failed Cancelled")
"""Messages about the client's own internals, which are dropped: a busy machine, a connection that failed before it had a name, and a
metadata request that the client cancelled and repeats by itself."""
log = structlog.get_logger("streammetrics.kafka")


def connection_options(settings: KafkaSettings) -> dict[str, Any]:
    """Return the keyword arguments that consumer, producer and admin client share."""
    options: dict[str, Any] = {
        "bootstrap_servers": list(settings.bootstrap_servers),
        "client_id": CLIENT_ID,
        "request_timeout_ms": REQUEST_MS,
        "reconnect_backoff_max_ms": RECONNECT_MS_MAX,
        "metadata_max_age_ms": METADATA_MS_MAX,
        "bootstrap_timeout_ms": BOOTSTRAP_MS,
        "security_protocol": settings.security_protocol,
        "ssl_cafile": settings.ssl_cafile,
        "ssl_certfile": settings.ssl_certfile,
        "ssl_keyfile": settings.ssl_keyfile,
        "ssl_password": secret_text(settings.ssl_password),
    }
    if settings.sasl_mechanism:
        options |= {
            "sasl_mechanism": settings.sasl_mechanism,
            "sasl_plain_username": settings.sasl_username,
            "sasl_plain_password": secret_text(settings.sasl_password),
        }
    if settings.sasl_mechanism == "OAUTHBEARER":
        options["sasl_oauth_token_provider"] = provider_of(settings.sasl_oauth_token_provider)
    return options


def unreachable_reason(servers: Sequence[str], timeout_s: float = CONNECT_SECONDS) -> str | None:
    """Return None if one of the servers accepts a TCP connection, else the reason for each server.

    Call this before building a client, which fails without naming a cause, after five seconds.

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


def require_login(settings: KafkaSettings) -> None:
    """Raise ConfigError for files, packages and classes that cannot be used, and SourceError if the class gives no token.

    The client uses them on its own thread for every connection, and reports any failure as "no broker found".
    """
    if settings.sasl_mechanism == "OAUTHBEARER":
        provider_of(settings.sasl_oauth_token_provider).current()
    if settings.sasl_mechanism == "AWS_MSK_IAM":
        require_botocore()
    if "SSL" in settings.security_protocol:
        files = CertificateFiles(
            section="kafka",
            cafile=settings.ssl_cafile,
            certfile=settings.ssl_certfile,
            keyfile=settings.ssl_keyfile,
            password=secret_text(settings.ssl_password),
        )
        files.check()


def require_reachable(settings: KafkaSettings) -> None:
    """Raise ConfigError for unusable certificate files, and SourceError without a token or if no server accepts a TCP connection."""
    require_login(settings)
    if reason := unreachable_reason(settings.bootstrap_servers):
        raise SourceError(f"no Kafka broker can be reached ({reason})", "start it, or correct kafka.bootstrap_servers")


def describe_error(error: BaseException) -> str:
    """Return the text of a client's error, starting with the error's name.

    >>> from kafka.errors import KafkaTimeoutError, NotLeaderForPartitionError
    >>> [describe_error(error) for error in (KafkaTimeoutError("no answer"), AssertionError("no answer"), NotLeaderForPartitionError())]
    ['KafkaTimeoutError: no answer', 'AssertionError: no answer', 'NotLeaderForPartitionError']
    """
    name, text = type(error).__name__, str(error)
    return text[text.index(name) :] if name in text else f"{name}: {text}"


class Network:
    """Builds the network part of a client (its `kafka_client` setting) and keeps a reference, so that it can be closed."""

    def __init__(self) -> None:
        self.made: list[Any] = []

    def __call__(self, **options: Any) -> Any:
        client = KafkaNetClient(**options)
        failed_sockets.install(client)
        large_reads.install(client)
        limited_batches.install()
        self.made.append(client)
        return client

    @property
    def cluster(self) -> Any:
        """The client's own metadata of topics and brokers, which it keeps up to date."""
        return self.made[-1].cluster

    def held_back_seconds(self) -> float:
        """Return how long a quota of the brokers still holds the client back; 0 if none does. They read no request meanwhile."""
        client = self.made[-1]
        return max((client.throttle_delay(broker.node_id) for broker in client.cluster.brokers()), default=0.0) / 1_000

    def close(self) -> None:
        for client in self.made:
            with contextlib.suppress(KafkaError, RuntimeError):
                client.close()


@contextlib.contextmanager
def starting(what: str, settings: KafkaSettings) -> Iterator[Network]:
    """Turn a client's failure to start into a SourceError with the cause from the client's log.

    Pass the yielded Network to the client. Then a failed start leaves no thread and no descriptor behind.
    """
    messages, began, network = client_log(), time.time(), Network()
    try:
        with contextlib.ExitStack() as undo:
            undo.callback(network.close)
            yield network
            undo.pop_all()
    except (OSError, ValueError) as error:
        raise SourceError(f"{what} cannot be started: {error}") from error
    except KafkaError as error:
        cause = messages.last_error(began)
        hint = f": {cause}" if cause else ""
        # The client drops the broker's last reply before the connection closes, and a refused login is such a reply.
        login = "; the broker may have refused the login" if settings.sasl_mechanism and messages.was_closed(began) else ""
        raise SourceError(
            f"{what} cannot be started, though {', '.join(settings.bootstrap_servers)} accepts connections ({error}{hint}{login})",
            f"check kafka.security_protocol (now {settings.security_protocol}), certificates and credentials",
        ) from error


@contextlib.contextmanager
def asking(settings: KafkaSettings, what: str) -> Iterator[Any]:
    """Yield an admin client to ask a broker about `what`, such as "its topics".

    Raises SourceError when no broker answers, and ConfigError for unusable certificate files.
    """
    require_reachable(settings)
    with starting("the Kafka admin client", settings) as network:
        admin = KafkaAdminClient(**connection_options(settings), kafka_client=network)
    try:
        yield admin
    except KafkaError as error:
        raise SourceError(f"Kafka cannot describe {what}: {error}") from error
    finally:
        admin.close()


class LoggedMessage(NamedTuple):
    """One kind of message: when it was logged and last seen (epoch seconds), how many were held back since, and the pause in force."""

    at: float
    seen_at: float
    held_back: int
    pause_seconds: float


class ClientLog(logging.Handler):
    """Passes the client's warnings on with growing pauses, and remembers its last error.

    The client raises the same "Unable to bootstrap" for a wrong password, a wrong certificate authority and a plaintext port. Only its
    log has the cause. While `quiet` is set, an outage has already been reported, and messages are logged at debug level.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lock = threading.Lock()
        self._logged: dict[tuple[str, int], LoggedMessage] = {}
        self._last = self._last_cause = (0.0, "")
        self._last_closed = 0.0
        self.quiet = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = str(record.msg)
        if any(part in text for part in INTERNAL):
            return
        with self._lock:
            self._remember(record, text)
            key = (record.pathname, record.lineno)  # not the text, which may contain changing values
            now, last = record.created, self._logged.get(key)
            if last is None or now - last.seen_at > CALM_SECONDS:
                pause_seconds = REPEAT_SECONDS
            elif now - last.at < last.pause_seconds:
                self._logged[key] = last._replace(seen_at=now, held_back=last.held_back + 1)
                return
            else:
                pause_seconds = min(2 * last.pause_seconds, REPEAT_SECONDS_MAX)
            held_back = last.held_back if last is not None else 0
            self._logged[key] = LoggedMessage(now, now, 0, pause_seconds)
        write = log.debug if self.quiet else log.error if record.levelno >= logging.ERROR else log.warning
        write("kafka client", logger=record.name, message=text, held_back=held_back)

    def _remember(self, record: logging.LogRecord, text: str) -> None:
        if record.levelno < logging.ERROR or text.startswith(SUMMARY):
            return
        self._last = (record.created, text)
        if CLOSED in text:
            self._last_closed = record.created
        if not any(part in text for part in WITHOUT_CAUSE):
            self._last_cause = (record.created, text)

    def was_closed(self, since: float) -> bool:
        """Return whether a broker closed a connection at or after `since` (epoch seconds)."""
        with self._lock:
            return self._last_closed >= since

    def last_error(self, since: float) -> str | None:
        """Return the last error logged at or after `since` (epoch seconds), preferring one that names a cause."""
        with self._lock:
            return next((text for at, text in (self._last_cause, self._last) if text and at >= since), None)


@functools.cache
def client_log() -> ClientLog:
    """Return the process' only ClientLog. The first call attaches it, because the client logs through process-wide loggers."""
    handler = ClientLog()
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)  # below this level the admin client logs its whole configuration, with passwords
    logger.propagate = False
    return handler
