"""Sends one HTTP request and returns the answer, within one deadline for all of it. Follows no redirect and uses no proxy.

A receiver that accepts a connection and then sends nothing, or one byte at a time, must not hold the caller. So a timer closes the
connection at the deadline. A redirect could pass a password or a signed message to another host.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import StreammetricsError

ANSWER_BYTES_MAX: Final = 64 << 20
"""Most bytes of an answer. A report of 50,000 series has about 20 MB."""


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

    def reach(self, url: str) -> None:
        """Connect to a receiver, with its certificate checked, and send nothing. Raises HttpError, and ConfigError for wrong files."""
        connection = self._connection(url)
        try:
            _connect(connection)
        except OSError as error:
            raise HttpError(_text(error), server_of(url)) from error
        finally:
            connection.close()

    def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None) -> HttpAnswer:
        """Send a request to an http or https URL. Any status is an answer. Raises HttpError, and ConfigError for wrong files."""
        parts, place = urlsplit(url), server_of(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        late = HttpError(f"no answer within {self.timeout_seconds:g} s", place)
        connection = self._connection(url)
        is_late = threading.Event()
        timer = threading.Timer(self.timeout_seconds, _end, (connection, is_late))
        timer.daemon = True
        timer.start()
        try:
            _connect(connection)
            if is_late.is_set():  # the timer found no connection to close
                raise late
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            content = answer.read(ANSWER_BYTES_MAX + 1)
        except (OSError, http.client.HTTPException) as error:
            raise (late if is_late.is_set() or isinstance(error, TimeoutError) else HttpError(_text(error), place)) from error
        finally:
            timer.cancel()
            connection.close()
        if is_late.is_set():
            raise late
        if len(content) > ANSWER_BYTES_MAX:
            raise HttpError(f"the answer has more than {ANSWER_BYTES_MAX >> 20} MiB", place)
        return HttpAnswer(answer.status, content, {name.lower(): value for name, value in answer.getheaders()})

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


def _connect(connection: http.client.HTTPConnection) -> None:
    try:
        connection.connect()
    except UnicodeError:  # such as an empty part, which is refused without a look-up
        raise socket.gaierror(socket.EAI_NONAME, "it is not the name of a host") from None


def server_of(url: str) -> str:
    """Return scheme, host and port of a URL, for messages: its path may be secret.

    >>> server_of("https://hooks.example/services/secret"), server_of("http://[::1]:8080/?key=secret")
    ('https://hooks.example', 'http://[::1]:8080')
    """
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{'' if parts.port is None else f':{parts.port}'}"


def _end(connection: http.client.HTTPConnection, is_late: threading.Event) -> None:
    """Close the connection under a request that takes too long. Its thread then gets an error."""
    is_late.set()
    sock: socket.socket | None = connection.sock
    if sock is not None:
        with contextlib.suppress(OSError):  # it was closed already
            sock.shutdown(socket.SHUT_RDWR)


def _text(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
