"""Sends one HTTP request and returns the answer, within one deadline for all of it. Follows no redirect and uses no proxy.

A receiver that accepts a connection and then sends nothing, or one byte at a time, must not hold the caller. Neither may a slow look-up of
its name. So a thread does the work, and the caller waits for it until the deadline. Then the connection is closed, which ends the thread.
A redirect could pass a password or a signed message to another host.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import urlsplit

from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import StreammetricsError

ANSWER_BYTES_MAX: Final = 64 << 20
"""Most bytes of an answer. A report of 50,000 series has about 20 MB."""


_Result = TypeVar("_Result")


class HttpError(StreammetricsError):
    """The receiver at `place` cannot be reached, or it did not answer in time. May be tried again."""

    def __init__(self, why: str, place: str = "") -> None:
        super().__init__(f"{place}: {why}" if place else why)
        self.args = (why, place)  # the constructor's arguments, for copying and pickling
        self.why = why


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The status, the body, and the headers by lower-case name."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClient:
    """How to reach receivers: the time for one whole request, and the authorities to trust beside those of the system."""

    timeout_seconds: float
    certificates: CertificateFiles

    def check(self) -> None:
        """Raise ConfigError if the certificate files cannot be used."""
        self._tls()

    def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """Send a request to an http or https URL. Any status is an answer. Raises HttpError, and ConfigError for wrong files."""
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        place, call = server_of(url), _Call(self._connection(url))
        try:
            return within(self.timeout_seconds, lambda: call.answer(method, path, headers, body), call.end)
        except TimeoutError as error:
            raise HttpError(f"no answer within {self.timeout_seconds:g} s", place) from error
        except (OSError, http.client.HTTPException) as error:
            raise HttpError(_text(error), place) from error
        except _TooLongError:
            raise HttpError(f"the answer has more than {ANSWER_BYTES_MAX >> 20} MiB", place) from None

    def _connection(self, url: str) -> http.client.HTTPConnection:
        """Return a connection that is not open yet."""
        parts = urlsplit(url)
        host, timeout = parts.hostname or "", self.timeout_seconds
        if parts.scheme == "https":
            return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=self._tls())
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.certificates.load_into(context)
        return context


class _TooLongError(Exception):
    """The answer has more bytes than `ANSWER_BYTES_MAX`."""


class _Call:
    """One connection, which `end` closes from another thread, whatever it is doing."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._socket: socket.socket | None = None
        """The socket of the connection, which forgets it before the end of an answer without a length."""
        self._ended = False

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> HttpAnswer:
        """Connect, send the request and return the answer. Raises OSError, HTTPException and _TooLongError."""
        try:
            self._connect()
            self._connection.request(method, path, body, dict(headers))
            answer = self._connection.getresponse()
            with answer:
                content = answer.read(ANSWER_BYTES_MAX + 1)
        finally:
            self._connection.close()
        if len(content) > ANSWER_BYTES_MAX:
            raise _TooLongError
        return HttpAnswer(answer.status, content, {name.lower(): value for name, value in answer.getheaders()})

    def end(self) -> None:
        """Close the connection under the thread that works with it. It then gets an error, and sends nothing more."""
        self._ended = True
        sock: socket.socket | None = self._socket or self._connection.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # it was closed already
                sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> None:
        try:
            self._connection.connect()
        except UnicodeError:  # such as an empty part, which is refused without a look-up
            raise socket.gaierror(socket.EAI_NONAME, "it is not the name of a host") from None
        self._socket = self._connection.sock
        if self._ended:  # `end` found no socket
            raise TimeoutError


def within(seconds: float, work: Callable[[], _Result], end: Callable[[], None] = lambda: None) -> _Result:
    """Return what `work` returns, or raise what it raises. After so many seconds, call `end` and raise TimeoutError.

    The work has a thread of its own, which is left alone at the deadline. `end` should make it end soon.
    """
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # the caller gets it
            done.set_exception(error)

    threading.Thread(target=run, name="streammetrics-request", daemon=True).start()
    try:
        return done.result(seconds)
    except TimeoutError:
        end()
        raise


def server_of(url: str) -> str:
    """Return scheme, host and port of a URL, for messages: its path may be secret.

    >>> server_of("https://hooks.example/services/secret"), server_of("http://[::1]:8080/?key=secret")
    ('https://hooks.example', 'http://[::1]:8080')
    """
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{'' if parts.port is None else f':{parts.port}'}"


def _text(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
