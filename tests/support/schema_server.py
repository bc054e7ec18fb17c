"""A server with the one page of a schema registry that readers need: schemas by id. It counts requests. A test decides what it answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.tools.servers.process import HOST


class SchemaServer:
    """`schemas` holds what is served, by path after /schemas/ids/ or /subjects/. `answer` replaces all answers."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, Any]] = {}
        self.requests: list[str] = []
        self.answer: tuple[int, bytes] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                status, content = server.answer or server.found(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer((HOST, 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.server_address[1]}"

    def add(self, number: int, schema: object, kind: str = "AVRO", references: Sequence[dict[str, Any]] = ()) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[f"/schemas/ids/{number}"] = {"schema": text, "schemaType": kind, "references": list(references)}

    def found(self, path: str) -> tuple[int, bytes]:
        if path in self.schemas:
            return 200, json.dumps(self.schemas[path]).encode()
        return 404, b'{"error_code":40403,"message":"Schema not found"}'

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
