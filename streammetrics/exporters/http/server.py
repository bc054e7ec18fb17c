"""The HTTP port: `HttpViews` behind six paths, in a thread of its own. No number is computed here, and nobody else is asked.

Without a login the port is for the inside of a network: whoever reaches it may read everything.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streammetrics.errors import ConfigError, Problem
from streammetrics.exporters.http.auth import KNOWN, Login, requiring_login
from streammetrics.exporters.http.etag import tagged
from streammetrics.exporters.http.limits import HttpRules, LimitedListener, Loop, TimedProtocol, tls_context
from streammetrics.exporters.http.routes import page_routes
from streammetrics.exporters.http.views import HttpViews, ReadinessFinding

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]

HEADER_BYTES_MAX = 16_384
"""Most bytes of a request's first line and headers; it has no more, because a body is refused."""
STOP_SECONDS = 2
START_SECONDS = 30.0
COMPRESS_BYTES_MIN = 1_024
COMPRESS_LEVEL = 1
"""Numbers in text get seven times as short at the cheapest level already, a page of 300 kB in 1 ms."""

_FAULTS_OF_HOST = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})
"""An address of another machine, of a protocol that this one does not speak, or that lacks its interface (fe80::1)."""

_NOT_STORED = (b"cache-control", b"no-store")
"""What holds for every answer that does not say otherwise."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""For probes, which have no password. Without one they learn whether all is well, but not what is not."""

_HELP = (
    "paths: / (a page for people), /metrics (for Prometheus), /api/report (JSON), "
    "/healthz (does the process move), /readyz (is everything there)\n"
)
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    ),
]


class _Server(uvicorn.Server):
    """Hangs up, when it closes, on who does not take his answer in time. By itself it would leave his connection open, served by nobody."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(STOP_SECONDS, self._hang_up)
        await super().shutdown(sockets)

    def _hang_up(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class HttpServer:
    """Listens from the moment it is made (port 0: any free one), answers from `start` to `stop`, below `url`.

    With a certificate in the rules it speaks HTTPS only; with a login it asks for it. Raises ConfigError where the address cannot
    be listened on, or the certificate cannot be used.
    """

    def __init__(self, views: HttpViews, host: str, port: int, rules: HttpRules | None = None, login: Login | None = None) -> None:
        rules = rules or HttpRules()
        tls = tls_context(rules)
        self._socket = _listen(host, port, rules)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self.url = f"http{'' if tls is None else 's'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        config = uvicorn.Config(
            application(views, login),
            http=type("Connection", (TimedProtocol,), {"request_seconds": rules.request_seconds}),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=rules.connections_max + 1,
            timeout_keep_alive=rules.idle_seconds,  # type: ignore[arg-type]  # it is only added to a time
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            timeout_graceful_shutdown=STOP_SECONDS + 1,
        )
        config.load()
        config.ssl = tls
        self._server = _Server(config)
        self._loop = type("TimedLoop", (Loop,), {"handshake_seconds": rules.request_seconds})
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._loop) as runner:
            runner.run(self._server.serve(sockets=[self._socket]))

    def start(self) -> None:
        """Answer from now on; returns once it does."""
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the HTTP server did not start; its log says why")
            time.sleep(0.005)

    def stop(self) -> None:
        """Answer what is under way and close the port; may be called twice, and without `start`."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS + 3)
        self._socket.close()


def application(views: HttpViews, login: Login | None = None) -> ASGIApp:
    """The six paths as an ASGI application, for everybody or for who has logged in."""

    async def metrics(request: Request) -> Response:
        content, content_type = views.metrics(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    async def report(request: Request) -> Response:
        content = views.report_json()
        if content is None:
            return JSONResponse({"error": views.why_no_report}, 503)
        return tagged(request, content, "application/json")

    routes = [
        Route("/metrics", metrics),
        Route("/healthz", _finding(views.health)),
        Route("/readyz", _finding(views.readiness)),
        Route("/api/report", report),
        *page_routes(views),
    ]
    gzip = Middleware(GZipMiddleware, minimum_size=COMPRESS_BYTES_MIN, compresslevel=COMPRESS_LEVEL)
    app = Starlette(routes=routes, middleware=[gzip], exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return _with_security_headers(_without_bodies(app if login is None else requiring_login(app, login, OPEN_PATHS)))


def _finding(ask: Callable[[], ReadinessFinding]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        finding = ask()
        if finding.is_well or request.scope.get(KNOWN, True):
            return PlainTextResponse(finding.text, 200 if finding.is_well else 503)
        return PlainTextResponse("not well; log in to read why\n", 503)

    return answer


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = _HELP if error.status_code == 404 else f"{error.detail}\n"
    return PlainTextResponse(text, error.status_code, headers=dict(error.headers or {}))


def _without_bodies(app: ASGIApp) -> ASGIApp:
    """Nothing here takes a body: a request that has one is refused before it is read, and one whose head is beyond the limit, too.

    A head that comes in pieces is refused as soon as it is too long; what came at once is known only here.
    """
    body = PlainTextResponse("no path here takes a body\n", 413, headers={"connection": "close"})
    head = PlainTextResponse(f"the first line and headers are longer than {HEADER_BYTES_MAX} bytes\n", 431, headers={"connection": "close"})

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0").strip(b"0")
        answering = body if has_body else head if _head_bytes(scope) > HEADER_BYTES_MAX else app
        await answering(scope, receive, send)

    return wrapped


def _head_bytes(scope: Scope) -> int:
    """How long the first line and the headers are, without what parts them."""
    return len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(name) + len(value) for name, value in scope["headers"])


def _with_security_headers(app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message["headers"]
                usual = [] if any(name == _NOT_STORED[0] for name, _ in own) else [_NOT_STORED]
                message["headers"] = [*own, *_SECURITY_HEADERS, *usual]
            await send(message)

        await app(scope, receive, send_more)

    return wrapped


def resolved(host: str, port: int) -> AddressInfo:
    """The first address of that name, as `socket.getaddrinfo` says it. Raises socket.gaierror, whatever is wrong with the name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except ValueError:  # such as a part that is empty: nobody was asked for it
        raise socket.gaierror(socket.EAI_NONAME, "not the name of a host") from None


def _listen(host: str, port: int, rules: HttpRules) -> LimitedListener:
    """A socket that listens already: a port that is taken must be known before anything else starts."""
    with contextlib.ExitStack() as on_failure:
        try:
            family, kind, protocol, _, address = resolved(host, port)
            listening = on_failure.enter_context(LimitedListener(family, kind, protocol))
            listening.connections_max, listening.descriptors_max = rules.connections_max, rules.descriptors_max
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(rules.connections_max)
        except OSError as error:
            raise ConfigError([why_not_listened_on(error, host, port)]) from None
        on_failure.pop_all()
        return listening


def why_not_listened_on(error: OSError, host: str, port: int) -> Problem:
    """Whose fault it is that nobody can listen there, and what to set instead."""
    where = f"cannot listen on {host} port {port}: {error.strerror or error}"
    if isinstance(error, socket.gaierror) or error.errno in _FAULTS_OF_HOST:
        allowed = "name an address of this machine: 127.0.0.1 for itself alone, 0.0.0.0 for every network"
        return Problem("http.host", host, f"{where}; {allowed}")
    return Problem("http.port", str(port), f"{where}; choose another port, 0 for any free one, or another http.host")
