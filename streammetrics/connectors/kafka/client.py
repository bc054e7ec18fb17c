"""Connect to Kafka: settings, certificates, reachability, and errors that name the cause. Reads and writes no record."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from streammetrics.connectors.kafka.client_log import client_log
from streammetrics.connectors.kafka.oauth import OAuthLogin, tokens_of
from streammetrics.connectors.kafka.patches import failed_sockets, large_reads, limited_batches
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import SourceError

CONNECT_SECONDS = 3.0
BOOTSTRAP_MS = 5_000
REQUEST_MS = 10_000
RECONNECT_MS_MAX = 1_000
"""With the client's default of 30 s, reading would stay silent for half a minute after a broker is back."""
METADATA_MS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnection:
    """How to reach Kafka and what to read. `repr` hides the passwords.

    `start` is where an input without a stored offset begins; a number is a record timestamp (epoch ms).
    `linger_ms` is how long a broker collects records before it answers a fetch that has few.
    `bootstrap_servers` are `host:port`, with IPv6 hosts in brackets.
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
    linger_ms: int = 100
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
    oauth: OAuthLogin | None = None
    whole_records: bool = False
    """Whether records are read with key, headers and timestamp, as `SentValue`."""

    @property
    def start_text(self) -> str:
        """`start` as text: a timestamp is shown in ISO-8601."""
        start = self.start
        return start if isinstance(start, str) else datetime.fromtimestamp(start / 1_000, UTC).isoformat(timespec="milliseconds")


def connection_options(settings: KafkaConnection) -> dict[str, Any]:
    """Return the keyword arguments that consumer, producer and admin client share."""
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
    if settings.oauth is not None:
        options["sasl_oauth_token_provider"] = tokens_of(settings.oauth)
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


def require_login(settings: KafkaConnection) -> None:
    """Raise ConfigError for certificate files that cannot be read or do not match each other, and SourceError without an OAuth token.

    The client reads them on its own thread for every connection, and reports any mismatch as "no broker found".
    """
    if settings.oauth is not None:
        tokens_of(settings.oauth).current()
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
def starting(what: str, settings: KafkaConnection) -> Iterator[Network]:
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
def asking(settings: KafkaConnection, what: str) -> Iterator[Any]:
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
