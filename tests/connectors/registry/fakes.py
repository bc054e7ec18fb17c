"""A registry in memory that can be away, and a source of records in memory."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from streammetrics.connectors.registry.client import RegistryError, UnknownSchemaError
from streammetrics.connectors.source import Input, InputRecord, PollResult, SourceHealth
from streammetrics.events.encodings.frames import SchemaRef
from streammetrics.events.encodings.schema_text import SchemaText

CLICK = SchemaText("AVRO", json.dumps({"type": "record", "name": "Click", "fields": [{"name": "n", "type": "long"}]}))


class FakeRegistry:
    """The client of a registry in memory."""

    def __init__(self, schemas: Mapping[str, SchemaText]) -> None:
        self.schemas = dict(schemas)
        self.away = False
        self.asked: list[str] = []
        self.settings: Any = SimpleNamespace(place="http://registry", id_kind="schema_id")

    def fetch(self, ref: SchemaRef) -> SchemaText:
        self.asked.append(ref.id)
        if self.away:
            raise RegistryError("the schema registry at http://registry does not answer", "start it")
        if ref.id not in self.schemas:
            raise UnknownSchemaError
        return self.schemas[ref.id]


class FakeSource:
    """A source that returns what the test puts into `results`, and knows which inputs are paused."""

    def __init__(self) -> None:
        self.results: list[PollResult] = []
        self.paused: set[Input] = set()
        self.started: list[int] = []
        self.health = SourceHealth()

    def poll(self, timeout_s: float) -> PollResult:
        return self.results.pop(0) if self.results else PollResult()

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return (Input("a", task), Input("b", task))

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        self.started.append(task)
        return offsets

    def pause(self, inputs: Collection[Input]) -> None:
        self.paused.update(inputs)

    def resume(self, inputs: Collection[Input]) -> None:
        self.paused.difference_update(inputs)

    def ends(self) -> Mapping[Input, int]:
        return {}

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        pass

    def close(self) -> None:
        pass


def framed(number: int, body: bytes = b"\x02") -> bytes:
    return b"\x00" + number.to_bytes(4) + body


def records(first: int, values: Sequence[bytes | None]) -> list[InputRecord]:
    return [InputRecord(first + at, 0, value) for at, value in enumerate(values)]
