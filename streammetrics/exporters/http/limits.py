"""Who may hold a connection of the HTTP port, for how long and under which certificate. What is said on one is not known here.

A slow client costs a socket until its time is over, too many cost each other, and none of them costs the consumer its
descriptors: handshakes, half requests, answers that nobody takes and idle connections all have an end.
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
"""A connection without a question is closed after this long."""
GOODBYE_SECONDS = 1.0
"""How long a client may take to hear that its connection ends."""
TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRules:
    """How the port treats its clients; the files are PEM. Nothing secret shows in `repr`.

    Up to `connections_max` connections are answered, `descriptors_max` exist at once, handshakes included. A request, and the
    taking of an answer, may last `request_seconds` each.
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
    """What the port proves itself with; None without a certificate. Raises ConfigError that names the file which does not fit."""
    if rules.ssl_certfile is None:
        return None
    own = CertificateFiles(section="http", certfile=rules.ssl_certfile, keyfile=rules.ssl_keyfile, password=rules.ssl_password)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # some distributions' Python leaves it to OpenSSL's configuration
    own.load_into(context)
    return context


class LimitedListener(socket.socket):
    """A listening socket that lets only so many in at once: a further one is closed as soon as it has come.

    Who is beyond `connections_max` is not answered, but told so; that it has come to this, and that it is over, is logged once.
    """

    connections_max = 200
    descriptors_max = 250
    calm_seconds = 10.0
    """So long must there be room again before a crowd counts as over: one that comes and goes is one crowd."""
    _crowded_at: float | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inside: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """As any socket's; raises ConnectionAbortedError for one too many, which whoever accepts takes for a client that has left."""
        connection, address = super().accept()
        inside = sum(one.fileno() >= 0 for one in self._inside)
        self._tell(inside)
        if inside >= self.descriptors_max:
            connection.close()
            raise ConnectionAbortedError("too many connections")
        self._inside.add(connection)
        return connection, address

    def _tell(self, inside: int) -> None:
        now = time.monotonic()
        if inside >= self.connections_max:
            if self._crowded_at is None:
                log.warning(
                    "more connections than http.connections_max: further ones are refused, scrapes and probes too",
                    connections_max=self.connections_max,
                )
            self._crowded_at = now
        elif self._crowded_at is not None and now - self._crowded_at > self.calm_seconds:
            log.info("there is room for connections again")
            self._crowded_at = None


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose TLS handshakes and goodbyes have an end; the usual ones last a minute and half a minute."""

    handshake_seconds = 10.0

    async def create_server(self, *args: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options |= {"ssl_handshake_timeout": self.handshake_seconds, "ssl_shutdown_timeout": GOODBYE_SECONDS}
        return await super().create_server(*args, **options)


class TimedProtocol(H11Protocol):
    """One connection. Its client has `request_seconds` for each request, and as long to take the answer; the answer has all its time."""

    request_seconds = 10.0
    _watch: asyncio.TimerHandle | None = None
    _began = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the class above has it
        super().connection_made(transport)
        self._begin()

    def on_response_complete(self) -> None:
        self._begin()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        self._began = self.loop.time()
        super().pause_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._began = self.loop.time()
        if self._watch is None:
            self._watch = self.loop.call_later(self.request_seconds, self._look)

    def _look(self) -> None:
        """Whether it is the client's turn, and has been for too long."""
        self._watch = None
        left = self._began + self.request_seconds - self.loop.time()
        is_ours = self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused
        if is_ours or left > 0:
            self._watch = self.loop.call_later(self.request_seconds if is_ours else left, self._look)
        else:
            self._end()

    def _end(self) -> None:
        """Close for good; who sent half a request is told why."""
        waits_for_request = self.conn.our_state is h11.IDLE and not self.transport.is_closing()
        if waits_for_request and self.conn.trailing_data[0]:
            self.transport.write(TOO_SLOW)
            self.transport.close()
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)
        else:
            with contextlib.suppress(OSError):
                self.transport.abort()
