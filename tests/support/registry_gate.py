"""A proxy in front of a test registry that asks for a login, and may use TLS: the registry itself has neither."""

from __future__ import annotations

import ssl
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.tools.servers.certificates import Identity
from tests.tools.servers.process import HOST


class RegistryGate:
    """Passes requests on whose Authorization is one of `logins`, and refuses the others with 401. It counts all requests."""

    def __init__(self, target: str, logins: set[str], identity: Identity | None = None, client_authority: str | None = None) -> None:
        self.requests: list[str] = []
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gate.requests.append(self.path)
                if self.headers.get("Authorization") not in logins:
                    self.reply(401, b'{"error_code":40101,"message":"Unauthorized"}')
                    return
                try:
                    with urllib.request.urlopen(target + self.path, timeout=10) as answer:
                        self.reply(answer.status, answer.read())
                except urllib.error.HTTPError as error:
                    with error:
                        self.reply(error.code, error.read())

            def reply(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self.scheme = "http"
        if identity is not None:
            self.scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.certfile, identity.keyfile)
            if client_authority is not None:
                context.load_verify_locations(client_authority)
                context.verify_mode = ssl.CERT_REQUIRED
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"{self.scheme}://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
