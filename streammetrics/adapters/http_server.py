"""The HTTP port: an Exhibit behind six paths, in a thread of its own. No number is computed here, and nobody else is asked.

The port is for the inside of a network: whoever reaches it may read everything, and open connections are limited but not
closed for being slow.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streammetrics.adapters.exhibit import Exhibit, Finding
from streammetrics.adapters.page_routes import page_routes
from streammetrics.errors import ConfigError, Problem

CONNECTIONS_MAX = 200
"""Most open connections; above it everybody gets 503."""
HEADER_BYTES_MAX = 16_384
STOP_SECONDS = 2
START_SECONDS = 30.0

_HELP = (
    "paths: / (a page for people), /metrics (for Prometheus), /api/report (JSON), "
    "/healthz (does the process move), /readyz (is everything there)\n"
)
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class HttpServer:
    """Listens from the moment it is made (port 0: any free one), answers from `start` to `stop`.

    Raises ConfigError where the address cannot be listened on.
    """

    def __init__(self, exhibit: Exhibit, host: str, port: int) -> None:
        self._socket = _listen(host, port)
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._server = uvicorn.Server(
            uvicorn.Config(
                application(exhibit),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                limit_concurrency=CONNECTIONS_MAX,
                h11_max_incomplete_event_size=HEADER_BYTES_MAX,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
        )
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, name="http", daemon=True)

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


def application(exhibit: Exhibit) -> ASGIApp:
    """The six paths as an ASGI application."""

    async def metrics(request: Request) -> Response:
        content, content_type = exhibit.metrics(request.headers.get("accept", ""))
        return Response(content, headers={"content-type": content_type})

    async def report(request: Request) -> Response:
        content = exhibit.report_json()
        if content is None:
            return Response(b'{"error":"no committed state has been read yet"}', 503, media_type="application/json")
        return Response(content, media_type="application/json")

    routes = [
        Route("/metrics", metrics),
        Route("/healthz", _finding(exhibit.health)),
        Route("/readyz", _finding(exhibit.readiness)),
        Route("/api/report", report),
        *page_routes(exhibit),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return _with_security_headers(app)


def _finding(ask: Callable[[], Finding]) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        finding = ask()
        return PlainTextResponse(finding.text, 200 if finding.is_well else 503)

    return answer


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = _HELP if error.status_code == 404 else f"{error.detail}\n"
    return PlainTextResponse(text, error.status_code, headers=dict(error.headers or {}))


def _with_security_headers(app: ASGIApp) -> ASGIApp:
    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_more(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_SECURITY_HEADERS]
            await send(message)

        await app(scope, receive, send_more)

    return wrapped


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens already: a port that is taken must be known before anything else starts."""
    with contextlib.ExitStack() as on_failure:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
            listening = on_failure.enter_context(socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(CONNECTIONS_MAX)
        except OSError as error:
            where = f"cannot listen on {host} port {port}: {error.strerror or error}"
            raise ConfigError(
                [Problem("http.port", str(port), f"{where}; choose another port, 0 for any free one, or another http.host")]
            ) from None
        on_failure.pop_all()
        return listening
