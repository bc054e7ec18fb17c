"""`streammetrics run` as users start it: a process with flags and its own port."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.tools.servers.process import LOOPBACK, Host, NotReadyError, Server, free_port


class Answer(NamedTuple):
    status: int
    text: str


class Product(Server):
    """One `streammetrics run`, ready when /readyz returns 200. `flags` apply at the next start. `context` is for a port with TLS."""

    name = "streammetrics"
    context: ssl.SSLContext | None = None

    def __init__(self, *flags: str | Path, host: Host = LOOPBACK) -> None:
        super().__init__(host)
        self.port = free_port()
        self.flags = flags

    @property
    def target(self) -> str:
        return f"{self.host.address}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'http' if self.context is None else 'https'}://{self.target}/"

    def request(self, path: str) -> urllib.request.Request:
        return urllib.request.Request(self.url + path.removeprefix("/"))

    def command(self) -> Sequence[str | Path]:
        return [sys.executable, "-m", "streammetrics", "run", "--port", str(self.port), *self.flags]

    def check_ready(self) -> None:
        answer = self.get("/readyz")
        if answer.status != 200:
            raise NotReadyError(answer.text)

    def get(self, path: str) -> Answer:
        """Get a path. Raises OSError if the port does not accept connections."""
        try:
            with urllib.request.urlopen(self.request(path), timeout=60, context=self.context) as answer:
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode())

    def report(self) -> dict[str, Any]:
        """Return the report, or {} while there is none."""
        answer = self.get("/api/report")
        return dict(json.loads(answer.text)) if answer.status == 200 else {}


def as_flags(settings: Mapping[str, str]) -> list[str]:
    """Turn settings by dotted key into flags.

    >>> as_flags({"join.gap_ms": "5", "metrics.names": "mrr"})
    ['--set', 'join.gap_ms=5', '--set', 'metrics.names=mrr']
    """
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
