"""A real schema registry on a loopback port: Apicurio Registry, in memory, with Confluent's API and its own."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.tools.servers.process import HOST, Server, free_port
from tests.tools.servers.tools import find_java, find_registry


class SchemaRegistry(Server):
    """One registry. Its schemas are gone after `stop` and `kill`, but not after `hang`."""

    name = "registry"
    ready_seconds = 90

    def __init__(self) -> None:
        self._java, self._folder = find_java(), find_registry()
        super().__init__()
        self.port = free_port()

    @property
    def url(self) -> str:
        """The address of Confluent's API."""
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    def command(self) -> Sequence[str | Path]:
        (jar,) = self._folder.glob("*-runner.jar")
        memory = ["-Xms64m", "-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        settings = [f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self.port}"]
        return [self._java, *memory, *settings, "-jar", jar]

    def check_ready(self) -> None:
        self.get("/subjects")

    def get(self, path: str) -> Any:
        """Return the answer of Confluent's API."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=5) as answer:
            return json.load(answer)

    def register(self, subject: str, schema: object, kind: str = "AVRO", references: Sequence[Mapping[str, Any]] = ()) -> int:
        """Register a schema (text, or an object that is written as JSON) and return its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        content = {"schema": text, "schemaType": kind, "references": list(references)}
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            data=json.dumps(content).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(json.load(answer)["id"])
