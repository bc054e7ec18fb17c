"""Connections to the HTTP port: their number, their time, and their certificate. Requests are handled elsewhere.

Handshakes, incomplete requests, unread responses and idle connections all time out. So slow clients cannot use up the file
descriptors that the consumer needs. A renewed certificate is used from the next connection on, without a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import time
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import ConfigError

IDLE_SECONDS_MAX = 5.0
"""Time after which a connection without a request is closed."""
GOODBYE_SECONDS = 1.0
"""Time that a client has to read the end of its connection."""
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
log = structlog.get_logger("streammetrics.http")


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


class LimitedListener(socket.socket):
    """A listening socket with at most `connections_max` connections.

    A further connection takes the place of the one that has waited longest for its client: for the rest of a handshake or of a
    request, for the next request, or until the client reads. So half-open connections cannot keep out probes and scrapes. A
    connection whose request is being handled keeps its place. Over `descriptors_max` a new connection is closed at once.
    The log says once when the limit is reached, and once when it is over.
    """

    connections_max = 200
    descriptors_max = 250
    quiet_seconds = 10.0
    """Time below the limit after which it counts as over. Shorter breaks are not logged."""
    _full_at: float | None = None
    _is_evicting = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.protocols: dict[int, TimedProtocol] = {}
        """The connections after their handshake, by file descriptor."""
        self._accepted_at: weakref.WeakKeyDictionary[socket.socket, float] = weakref.WeakKeyDictionary()
        self._evicted: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection. Raises ConnectionAbortedError if it has no place; asyncio treats that like a client that has left."""
        if self._is_evicting:  # asyncio accepts in a loop; the evicted connection must get its turn to close first
            self._is_evicting = False
            raise BlockingIOError
        connection, address = super().accept()
        existing = [one for one in self._accepted_at if one.fileno() >= 0]
        served = [one for one in existing if one not in self._evicted]
        self._log_limit(len(served))
        if len(existing) >= self.descriptors_max:
            connection.close()
            raise ConnectionAbortedError("too many connections")
        if len(served) >= self.connections_max:
            self._evict_one(served)
        self._accepted_at[connection] = time.monotonic()
        return connection, address

    def _evict_one(self, served: Iterable[socket.socket]) -> None:
        """Close the connection that has waited longest for its client. Its transport notices the end, and closes it too."""
        waiting = [(since, one) for one in served if (since := self._waiting_since(one)) is not None]
        if waiting:
            _, longest = min(waiting, key=lambda waiter: waiter[0])
            self._evicted.add(longest)
            self._is_evicting = True
            with contextlib.suppress(OSError):
                longest.shutdown(socket.SHUT_RDWR)

    def _waiting_since(self, connection: socket.socket) -> float | None:
        """Since when the server has waited for this client (monotonic seconds); None while a request is handled."""
        protocol = self.protocols.get(connection.fileno())
        if protocol is None:
            return self._accepted_at[connection]
        return None if protocol.is_server_busy else protocol.waiting_since

    def _log_limit(self, served_count: int) -> None:
        now = time.monotonic()
        if served_count >= self.connections_max:
            if self._full_at is None:
                log.warning(
                    "http.connections_max is reached: each further connection closes the one that has waited longest for its client",
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
    protocols: dict[int, TimedProtocol]
    """Those of the listener."""
    waiting_since = 0.0
    """Since when the server waits for the client, when it does (monotonic seconds)."""
    _timer: asyncio.TimerHandle | None = None
    _descriptor = -1

    @property
    def is_server_busy(self) -> bool:
        """Whether the client waits for the server. Otherwise the server waits for a request or for a reader."""
        return self.cycle is not None and not (self.cycle.response_complete or self.flow.write_paused)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # the signature of the base class
        super().connection_made(transport)
        self._descriptor = transport.get_extra_info("socket").fileno()
        self.protocols[self._descriptor] = self
        self._restart_timer()

    def on_response_complete(self) -> None:
        self._restart_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than the server writes."""
        self.waiting_since = self.loop.time()
        super().pause_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.protocols.get(self._descriptor) is self:
            del self.protocols[self._descriptor]
        super().connection_lost(exc)

    def _restart_timer(self) -> None:
        self.waiting_since = self.loop.time()
        if self._timer is None:
            self._timer = self.loop.call_later(self.request_seconds, self._check_timeout)

    def _check_timeout(self) -> None:
        """Close the connection if the server has waited for the client for too long."""
        self._timer = None
        seconds_left = self.waiting_since + self.request_seconds - self.loop.time()
        if self.is_server_busy or seconds_left > 0:
            self._timer = self.loop.call_later(self.request_seconds if self.is_server_busy else seconds_left, self._check_timeout)
        else:
            self._close()

    def _close(self) -> None:
        """Close the connection. A client with an incomplete request gets status 408."""
        is_head_cut = self.conn.our_state is h11.IDLE and bool(self.conn.trailing_data[0])
        if is_head_cut and not self.transport.is_closing():
            self.transport.write(TOO_SLOW)
            self.transport.close()
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)
        else:
            with contextlib.suppress(OSError):
                self.transport.abort()


def tls_context(rules: HttpRules) -> ssl.SSLContext | None:
    """Return the TLS context of the port; None without a certificate. Raises ConfigError with the name of an unusable file."""
    return None if rules.ssl_certfile is None else _Certificate(rules).context


class _Certificate:
    """The files of a certificate. `context` looks at them in each handshake and reads them again if they have changed."""

    def __init__(self, rules: HttpRules) -> None:
        self._files = CertificateFiles(section="http", certfile=rules.ssl_certfile, keyfile=rules.ssl_keyfile, password=rules.ssl_password)
        self._seen = self._versions()
        self._current = self.context = self._loaded()
        self.context.sni_callback = self._renew

    def _renew(self, connection: ssl.SSLObject, name: str | None, context: Any) -> None:
        """Give a new connection the certificate that is in the files now. Files that do not fit yet leave the former one."""
        if (seen := self._versions()) != self._seen:
            self._seen = seen
            try:
                self._current = self._loaded()
            except ConfigError as error:
                log.warning("the renewed certificate cannot be used; the former one stays in use", reason=str(error))
            else:
                log.info("the certificate was renewed", file=self._files.certfile)
        connection.context = self._current

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2  # some distributions leave it to the configuration of OpenSSL
        self._files.load_into(context)
        return context

    def _versions(self) -> list[tuple[int, int] | None]:
        """Return what changes when a file is replaced or written; None for a file that cannot be looked at."""
        return [_version(path) for path in (self._files.certfile, self._files.keyfile) if path is not None]


def _version(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
