"""Who may hold a connection of the HTTP port, for how long and under which certificate. What is said on one is not known here.

A slow client costs a socket until its time is over, too many cost each other, and none of them costs the consumer its
descriptors: handshakes, half requests, answers that nobody takes and idle connections all have an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from streammetrics.errors import ConfigError, Problem

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
    _require_files(rules)
    asked = []

    def password() -> str:  # without it, OpenSSL would ask on the terminal
        asked.append(True)
        return rules.ssl_password or ""

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(rules.ssl_certfile, rules.ssl_keyfile, password)
    except (ssl.SSLError, ValueError) as error:  # a ValueError is a password that is too long
        raise ConfigError([_misfit(rules, str(getattr(error, "reason", "") or ""), bool(asked))]) from None
    return context


def _require_files(rules: HttpRules) -> None:
    problems = []
    for name in ("ssl_certfile", "ssl_keyfile"):
        path = getattr(rules, name)
        if path is not None:
            try:
                Path(path).open("rb").close()
            except OSError as error:
                problems.append(Problem(f"http.{name}", path, f"must be a file that can be read ({error.strerror})"))
    if problems:
        raise ConfigError(problems)


def _misfit(rules: HttpRules, reason: str, password_asked: bool) -> Problem:
    """What is wrong with files that can be read and do not work together; nothing of the password or the files is repeated."""
    certfile = str(rules.ssl_certfile)
    name, path = ("ssl_keyfile", rules.ssl_keyfile) if rules.ssl_keyfile else ("ssl_certfile", certfile)
    if reason == "KEY_VALUES_MISMATCH":
        return Problem(
            f"http.{name}", path, f"must hold the key of the first certificate in http.ssl_certfile ({certfile}); it holds another"
        )
    if password_asked:
        told = "does not open" if rules.ssl_password else "is empty and must open"
        return Problem("http.ssl_password", "***" if rules.ssl_password else "(empty)", f"{told} the key in http.{name} ({path})")
    if not _holds_certificate(certfile):
        return Problem("http.ssl_certfile", certfile, "must hold a certificate in PEM (-----BEGIN CERTIFICATE-----)")
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL"):
        return Problem("http.ssl_certfile", certfile, f"must hold a certificate that is strong enough for today's clients ({reason})")
    also = "" if rules.ssl_keyfile else "; or name the file of the key in http.ssl_keyfile"
    return Problem(f"http.{name}", path, f"must hold the private key in PEM (-----BEGIN PRIVATE KEY-----){also}")


def _holds_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True


class Doors(socket.socket):
    """A listening socket that lets only so many in at once: a further one is closed as soon as it has come."""

    descriptors_max = 250

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._inside: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def accept(self) -> tuple[socket.socket, Any]:
        """As any socket's; raises ConnectionAbortedError for one too many, which whoever accepts takes for a client that has left."""
        connection, address = super().accept()
        if sum(one.fileno() >= 0 for one in self._inside) >= self.descriptors_max:
            connection.close()
            raise ConnectionAbortedError("too many connections")
        self._inside.add(connection)
        return connection, address


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
