"""A source that hands out records only when their schemas are there. Decoding never waits for a registry.

An input whose next record has a schema that is not there yet is paused. Its records wait here, in order; other inputs go on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from streammetrics.connectors.registry.schemas import SchemaKey, Schemas
from streammetrics.connectors.source import Input, InputRecord, PollResult, Source, SourceHealth
from streammetrics.events.encodings.frames import IdKind, SchemaRef, frame_key, framed_ref, header_key, header_ref
from streammetrics.events.encodings.schema_text import of_unusable_schema
from streammetrics.events.sent_value import SentValue, ToJson

WAITING_POLL_SECONDS: Final = 0.02
"""Longest poll while records wait for a schema: most registries answer within that time."""
_BAD_HEADER: Final = of_unusable_schema("the header that names the schema is damaged; send the record again")


def schema_named(value: bytes, id_kind: IdKind) -> tuple[SchemaKey, SchemaRef | None] | None:
    """Return the key that a record has for its schema, and the schema (None if the key is damaged). None if the record has no key."""
    if type(value) is SentValue and value.headers and (named := header_key(value.headers)) is not None:
        return named, header_ref(*named)
    key = frame_key(value)
    return None if key is None else (key, framed_ref(key, id_kind))


def loaded(value: bytes | None, schemas: Schemas) -> bytes | None:
    """Return a value with the reader of its schema, waiting for the registry. Raises RegistryError and ConfigError."""
    named = None if value is None else schema_named(value, schemas.client.settings.id_kind)
    if named is None or value is None:
        return value
    key, ref = named
    return _with(value, _BAD_HEADER if ref is None else schemas.load(key, ref))


def _with(value: bytes, to_json: ToJson) -> SentValue:
    if type(value) is SentValue:
        value.to_json = to_json
        return value
    return SentValue.of(value, to_json=to_json)


class SchemaSource:
    """The `Source` around another one. `topics` are those whose records may name a schema."""

    def __init__(self, inner: Source, schemas: Schemas, topics: Collection[str]) -> None:
        self.inner, self.schemas, self._topics = inner, schemas, frozenset(topics)
        self._id_kind = schemas.client.settings.id_kind
        self._held: dict[Input, list[InputRecord]] = {}
        self._paused: set[Input] = set()
        """Inputs that the caller has paused."""

    @property
    def health(self) -> SourceHealth:
        return replace(self.inner.health, schemas=self.schemas.wait_of(len(self._held)))

    def poll(self, timeout_s: float) -> PollResult:
        """Return records whose schemas are there. Raises as the inner source, and ConfigError for a missing package."""
        polled = self.inner.poll(min(timeout_s, WAITING_POLL_SECONDS) if self._held else timeout_s)
        changed = polled.assigned | polled.revoked
        self._drop(changed)
        records: dict[Input, Sequence[InputRecord]] = {}
        waited_for: set[SchemaKey] = set()
        for place in {**self._held, **polled.records}:
            batch = polled.records.get(place, ())
            if place.topic not in self._topics:
                records[place] = batch
                continue
            ready = self._take(place, [*self._held.pop(place, ()), *batch], waited_for)
            if ready:
                records[place] = ready
        self.schemas.forget(waited_for)
        return PollResult(records, polled.assigned, polled.revoked)

    def _take(self, place: Input, records: list[InputRecord], waited_for: set[SchemaKey]) -> list[InputRecord]:
        """Return the records before the first one whose schema is not there. Hold the others, and pause their input."""
        ready: list[InputRecord] = []
        readers: dict[SchemaKey, ToJson | None] = {}
        for at, record in enumerate(records):
            value = record.value
            named = None if not value else schema_named(value, self._id_kind)
            if named is None or value is None:
                ready.append(record)
                continue
            key, ref = named
            if key not in readers:
                readers[key] = _BAD_HEADER if ref is None else self.schemas.find(key, ref)
            to_json = readers[key]
            if to_json is None:
                self._held[place] = records[at:]
                waited_for.add(key)
                self.inner.pause([place])
                return ready
            ready.append(InputRecord(record.offset, record.timestamp_ms, _with(value, to_json)))
        if place not in self._paused:
            self.inner.resume([place])
        return ready

    def _drop(self, tasks: AbstractSet[int]) -> None:
        """Drop what is held for tasks that changed hands: they are read again from their next start."""
        for place in [place for place in self._held if place.partition in tasks]:
            del self._held[place]
        self._paused = {place for place in self._paused if place.partition not in tasks}

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return self.inner.inputs_of(task)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        self._drop({task})
        return self.inner.start(task, offsets)

    def pause(self, inputs: Collection[Input]) -> None:
        self._paused.update(inputs)
        self.inner.pause(inputs)

    def resume(self, inputs: Collection[Input]) -> None:
        self._paused.difference_update(inputs)
        self.inner.resume([place for place in inputs if place not in self._held])

    def ends(self) -> Mapping[Input, int]:
        return self.inner.ends()

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        self.inner.acknowledge(offsets)

    def close(self) -> None:
        self.schemas.close()
        self.inner.close()
