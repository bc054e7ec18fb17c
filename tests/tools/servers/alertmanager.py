"""A real Alertmanager on a loopback port, and a receiver that keeps its notifications."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.tools.servers.process import HOST, NotReadyError, Server, free_port
from tests.tools.servers.tools import find_tool


class AlertmanagerServer(Server):
    """One Alertmanager. `config` is its configuration as plain values."""

    name = "alertmanager"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._program = find_tool("prometheus-alertmanager")
        super().__init__()
        self.port = free_port()
        self.config = config

    @property
    def address(self) -> str:
        """The address for Prometheus' alertmanager targets."""
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def prepare(self) -> None:
        """Write the configuration as JSON, which is valid YAML."""
        (self.directory / "alertmanager.yml").write_text(json.dumps(self.config, indent=1), encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        return [
            self._program,
            f"--config.file={self.directory / 'alertmanager.yml'}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address={self.address}",
            "--cluster.listen-address=",
        ]

    def check_ready(self) -> None:
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=2).close()
        except urllib.error.HTTPError as error:
            error.close()
            raise NotReadyError(str(error)) from error

    def alerts(self) -> list[dict[str, Any]]:
        """Return the current alerts, including silenced and inhibited ones."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=10) as answer:
            return list(json.load(answer))


class ReceivedAlert(NamedTuple):
    """One alert in a notification. `path` is where Alertmanager sent it."""

    path: str
    status: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.labels["alertname"]


class Webhook:
    """An HTTP receiver of notifications. `alerts` grows, and `on_alert` is called with each alert in the receiver's thread."""

    def __init__(self, on_alert: Callable[[ReceivedAlert], None] = lambda alert: None, port: int = 0) -> None:
        self._alerts: list[ReceivedAlert] = []
        self._on_alert = on_alert
        self._server = ThreadingHTTPServer((HOST, port or free_port()), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook", daemon=True)

    @property
    def alerts(self) -> list[ReceivedAlert]:
        """Return all alerts so far, in order of arrival. A repeated alert is here several times."""
        return list(self._alerts)

    def url(self, path: str) -> str:
        return f"http://{HOST}:{self._server.server_port}/{path}"

    def receivers(self, *names: str) -> list[dict[str, Any]]:
        """Return receivers for Alertmanager's configuration, each with its own path. They also get resolved alerts."""
        return [{"name": name, "webhook_configs": [{"url": self.url(name), "send_resolved": True}]} for name in names]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receive = self._receive

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receive(self.path.strip("/"), json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler

    def _receive(self, path: str, body: Mapping[str, Any]) -> None:
        for alert in body["alerts"]:
            received = ReceivedAlert(path, alert["status"], alert["labels"], alert["annotations"])
            self._alerts.append(received)
            self._on_alert(received)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
