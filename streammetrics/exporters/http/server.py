"""The HTTP server: serves `HttpAnswers` in a thread of its own.

Without a login every client that reaches the port can read everything, so keep it inside a trusted network.
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
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streammetrics.errors import ConfigError, Problem
from streammetrics.exporters.http.answers import HttpAnswers, ReadinessFinding
from streammetrics.exporters.http.auth import LOGGED_IN, Login, requiring_login
from streammetrics.exporters.http.connections import HandshakeTimeoutLoop, HttpRules, LimitedListener, TimedProtocol, tls_context
from streammetrics.exporters.http.etag import tagged
from streammetrics.exporters.http.routes import gate_route, page_routes

AddressInfo: TypeAlias = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]

HEADER_BYTES_MAX = 16_384
"""Most bytes of the first line and headers of a request. Bodies are refused."""
HOOK_BYTES_MAX = 65_536
"""Most bytes of the body of a hook. They are not read."""
STOP_SECONDS = 2
START_SECONDS = 30.0
COMPRESS_BYTES_MIN = 1_024
COMPRESS_LEVEL = 1
"""The fastest level makes numbers in text seven times smaller: 300 kB in 1 ms."""

_HOST_ERRORS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL})
"""The address belongs to another machine, uses an unsupported protocol, or lacks its interface (fe80::1)."""

_NOT_STORED = (b"cache-control", b"no-store")
"""The default for responses without their own cache-control."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths for probes, which have no password. Without a login they get the status only, not the reasons."""

_HELP = (
    "paths: / (live page), /metrics (for Prometheus), /api/report (JSON), /api/gate/EXPERIMENT (pass, wait or fail), "
    "/api/openapi.json (describes /api), /help/glossary and /help/ALERT (terms and runbooks), "
    "/healthz (does the process work), /readyz (is everything available)\n"
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
    """Closes connections of clients that do not read their response in time when the server stops. uvicorn leaves them open."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().call_later(STOP_SECONDS, self._abort_connections)
        await super().shutdown(sockets)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class HttpServer:
    """Listens from its creation on (port 0: any free port) and responds between `start` and `stop`, at `url`.

    With a certificate in the rules it uses HTTPS only. Raises ConfigError if it cannot listen on the address or use the
    certificate.
    """

    def __init__(self, answers: HttpAnswers, host: str, port: int, rules: HttpRules | None = None, login: Login | None = None) -> None:
        rules = rules or HttpRules()
        tls = tls_context(rules)
        self._socket = _listen(host, port, rules)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self.url = f"http{'' if tls is None else 's'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        config = uvicorn.Config(
            application(answers, login),
            http=type("Connection", (TimedProtocol,), {"request_seconds": rules.request_seconds, "protocols": self._socket.protocols}),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            limit_concurrency=rules.connections_max + 1,
            timeout_keep_alive=rules.idle_seconds,  # type: ignore[arg-type]  # uvicorn only adds it to a time
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            timeout_graceful_shutdown=STOP_SECONDS + 1,
        )
        config.load()
        config.ssl = tls
        self._server = _Server(config)
        self._loop = type("TimedLoop", (HandshakeTimeoutLoop,), {"handshake_seconds": rules.request_seconds})
        self._thread = threading.Thread(target=self._run, name="http", daemon=True)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=self._loop) as runner:
            runner.run(self._server.serve(sockets=[self._socket]))

    def start(self) -> None:
        """Start to respond. Returns when the server is ready."""
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the HTTP server did not start; see the log for the reason")
            time.sleep(0.005)

    def stop(self) -> None:
        """Finish running requests and close the port. May be called twice, and without `start`."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS + 3)
        self._socket.close()


def application(answers: HttpAnswers, login: Login | None = None) -> ASGIApp:
    """Return the ASGI application with all paths. With a login, clients must log in.

    Content that takes long to make is made in a thread of its own, so that probes get their answer meanwhile.
    """

    async def metrics(request: Request) -> Response:
        content, content_type = await run_in_threadpool(answers.metrics, request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    async def report(request: Request) -> Response:
        content = await run_in_threadpool(answers.report_json)
        if content is None:
            return JSONResponse({"error": answers.why_no_report}, 503)
        return tagged(request, content, "application/json")

    routes = [
        Route("/metrics", metrics),
        Route("/healthz", _finding(answers.health)),
        Route("/readyz", _finding(answers.readiness)),
        Route("/api/report", report),
        gate_route(answers),
        *page_routes(answers),
    ]
    gzip = Middleware(GZipMiddleware, minimum_size=COMPRESS_BYTES_MIN, compresslevel=COMPRESS_LEVEL)
    app = Starlette(routes=routes, middleware=[gzip], exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return _with_security_headers(_without_bodies(app if login is None else requiring_login(app, login, OPEN_PATHS)))


def _finding(check: Callable[[], ReadinessFinding]) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        finding = check()
        if finding.is_well or request.scope.get(LOGGED_IN, True):
            return PlainTextResponse(finding.text, 200 if finding.is_well else 503)
        return PlainTextResponse("not ok; log in to read the reason\n", 503)

    return respond


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = _HELP if error.status_code == 404 else f"{error.detail}\n"
    return PlainTextResponse(text, error.status_code, headers=dict(error.headers or {}))


def _without_bodies(app: ASGIApp) -> ASGIApp:
    """Refuse requests with a body before the body is read, and a head over the limit.

    h11 refuses a long head that arrives in pieces. A head that arrives at once is checked here.
    """

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _body_refusal(scope) or _head_refusal(scope)
        await (refusal or app)(scope, receive, send)

    return wrapped


def _body_refusal(scope: Scope) -> Response | None:
    """Return the answer to a request with a body, which is not read; None if there is no body, or a small one of a hook for the gate."""
    headers = dict(scope["headers"])
    length = int(headers.get(b"content-length", 0))  # h11 takes digits only
    is_of_hook = scope["method"] == "POST" and scope["path"].startswith("/api/gate/") and length <= HOOK_BYTES_MAX
    if (not length or is_of_hook) and b"transfer-encoding" not in headers:
        return None
    return PlainTextResponse("requests must not have a body\n", 413, headers={"connection": "close"})


def _head_refusal(scope: Scope) -> Response | None:
    """Return the answer to a head over the limit."""
    if _head_bytes(scope) <= HEADER_BYTES_MAX:
        return None
    return PlainTextResponse(f"the first line and headers are longer than {HEADER_BYTES_MAX} bytes\n", 431, headers={"connection": "close"})


def _head_bytes(scope: Scope) -> int:
    """Return the size of the first line and the headers, without separators."""
    return len(scope["raw_path"]) + len(scope["query_string"]) + sum(len(name) + len(value) for name, value in scope["headers"])


def _with_security_headers(app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message["headers"]
                cache = [] if any(name == _NOT_STORED[0] for name, _ in headers) else [_NOT_STORED]
                message["headers"] = [*headers, *_SECURITY_HEADERS, *cache]
            await send(message)

        await app(scope, receive, send_with_headers)

    return wrapped


def resolved(host: str, port: int) -> AddressInfo:
    """Return the first address of a name, as `socket.getaddrinfo` does. Raises socket.gaierror for every unusable name."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except ValueError:  # such as an empty part, which is rejected without a lookup
        raise socket.gaierror(socket.EAI_NONAME, "not the name of a host") from None


def _listen(host: str, port: int, rules: HttpRules) -> LimitedListener:
    """Return a socket that already listens. A port in use must be reported before anything else starts."""
    with contextlib.ExitStack() as on_failure:
        try:
            family, kind, protocol, _, address = resolved(host, port)
            listening = on_failure.enter_context(LimitedListener(family, kind, protocol))
            listening.connections_max, listening.descriptors_max = rules.connections_max, rules.descriptors_max
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(rules.connections_max)
        except OSError as error:
            raise ConfigError([listen_problem(error, host, port)]) from None
        on_failure.pop_all()
        return listening


def listen_problem(error: OSError, host: str, port: int) -> Problem:
    """Return the setting that caused the error, with advice."""
    where = f"cannot listen on {host} port {port}: {error.strerror or error}"
    if isinstance(error, socket.gaierror) or error.errno in _HOST_ERRORS:
        advice = "use an address of this machine: 127.0.0.1 for local clients only, 0.0.0.0 for every network"
        return Problem("http.host", host, f"{where}; {advice}")
    return Problem("http.port", str(port), f"{where}; choose another port, 0 for any free one, or another http.host")
