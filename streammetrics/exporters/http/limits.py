"""Limits on connections of the HTTP port: their number, their time, and their TLS. Requests are handled elsewhere.

Handshakes, incomplete requests, unread responses and idle connections all time out. So slow clients cannot use up the file
descriptors that the consumer needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
import weakref
from dataclasses import dataclass, field
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from streammetrics.connectors.tls import CertificateFiles

log = structlog.get_logger("streammetrics.http")

IDLE_SECONDS_MAX = 5.0
"""Time after which a connection without a request is closed."""
GOODBYE_SECONDS = 1.0
"""Time that a client has to read the end of its connection."""
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRules:
    """Limits and TLS files (PEM) of the port. `repr` shows no secrets.

    Up to `connections_max` connections are served, and `descriptors_max` exist at the same time, with handshakes. A client has
    `request_seconds` to send a request, and as long to read the response.
    """

    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    connections_max: int = 200
    request_seconds: float = 10.0

    @property
    def descriptors_max(self) -> int:
        return self.connections_max + self.connections_max // 4

    @property
    def idle_seconds(self) -> float:
        return min(IDLE_SECONDS_MAX, self.request_seconds)


def tls_context(rules: HttpRules) -> ssl.SSLContext | None:
    """Return the TLS context of the port; None without a certificate. Raises ConfigError with the name of an unusable file."""
    if rules.ssl_certfile is None:
        return None
    own = CertificateFiles(section="http", certfile=rules.ssl_certfile, keyfile=rules.ssl_keyfile, password=rules.ssl_password)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # some distributions leave it to the configuration of OpenSSL
    own.load_into(context)
    return context


class LimitedListener(socket.socket):
    """A listening socket that accepts at most `descriptors_max` connections and closes further ones at once.

    Connections over `connections_max` get status 503. The log says once when the limit is reached, and once when it is over.
    """

    connections_max = 200
    descriptors_max = 250
    quiet_seconds = 10.0
    """Time below the limit after which it counts as over. Shorter breaks are not logged."""
    _full_at: float | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises ConnectionAbortedError over the limit, which asyncio treats like a client that has left."""
        connection, address = super().accept()
        open_count = sum(one.fileno() >= 0 for one in self._connections)
        self._log_limit(open_count)
        if open_count >= self.descriptors_max:
            connection.close()
            raise ConnectionAbortedError("too many connections")
        self._connections.add(connection)
        return connection, address

    def _log_limit(self, open_count: int) -> None:
        now = time.monotonic()
        if open_count >= self.connections_max:
            if self._full_at is None:
                log.warning(
                    "http.connections_max is reached: further connections are refused, also scrapes and probes",
                    connections_max=self.connections_max,
                )
            self._full_at = now
        elif self._full_at is not None and now - self._full_at > self.quiet_seconds:
            log.info("connections are below http.connections_max again")
            self._full_at = None


class HandshakeTimeoutLoop(asyncio.SelectorEventLoop):
    """An event loop with short timeouts for TLS handshakes and shutdowns. The defaults are 60 s and 30 s."""

    handshake_seconds = 10.0

    async def create_server(self, *args: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": self.handshake_seconds, "ssl_shutdown_timeout": GOODBYE_SECONDS}
        return await super().create_server(*args, **options)


class TimedProtocol(H11Protocol):
    """One connection. The client has `request_seconds` to send each request, and as long to read the response. The server has no limit."""

    request_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None
    _waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # the signature of the base class
        super().connection_made(transport)
        self._restart_timer()

    def on_response_complete(self) -> None:
        self._restart_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        self._waiting_since = self.loop.time()
        super().pause_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().connection_lost(exc)

    def _restart_timer(self) -> None:
        self._waiting_since = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_later(self.request_seconds, self._check_timeout)

    def _check_timeout(self) -> None:
        """Close the connection if the server has waited for the client for too long."""
        self._timer = None
        seconds_left = self._waiting_since + self.request_seconds - self.loop.time()
        is_server_busy = self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused
        if is_server_busy or seconds_left > 0:
            self._timer = self.loop.call_later(self.request_seconds if is_server_busy else seconds_left, self._check_timeout)
        else:
            self._close()

    def _close(self) -> None:
        """Close the connection. A client with an incomplete request gets status 408."""
        waits_for_request = self.conn.our_state is h11.IDLE and not self.transport.is_closing()
        if waits_for_request and self.conn.trailing_data[0]:
            self.transport.write(TOO_SLOW)
            self.transport.close()
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)
        else:
            with contextlib.suppress(OSError):
                self.transport.abort()
