"""Mutated records of every encoding, envelope and some formats through the whole worker, in one task with one topic for each.

    python -m tests.bench.fuzz 1000000 --seed 1

Nothing may raise, and the counts must add up: every record is read, every event that its decoder returns is counted once, every refusal
is a dead letter. The schemas come through the cache and the source of a registry, from a client in memory.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast

import fastavro
import fastavro.schema
import structlog
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streammetrics.config import Settings
from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.memory import MemoryStore
from streammetrics.connectors.registry.client import RegistryClient, UnknownSchemaError
from streammetrics.connectors.registry.protoc import compiled
from streammetrics.connectors.registry.schemas import Schemas
from streammetrics.connectors.registry.source import SchemaSource
from streammetrics.connectors.source import Input, PollResult, Record, SourceHealth
from streammetrics.errors import MalformedEvent
from streammetrics.events.encodings.frames import SchemaRef
from streammetrics.events.encodings.schema_text import SchemaText
from streammetrics.events.encodings.sent_value import SentValue
from streammetrics.events.model import PartsDecoder
from streammetrics.events.outcomes import IGNORED, MALFORMED, OUTCOMES
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_topic_decoders
from streammetrics.wiring.engine import build_engine, build_worker_rules
from streammetrics.wiring.reports import build_report_builder
from tests.bench.parts import WrongAnswerError
from tests.support.registry import AVRO_FEEDBACK, AVRO_IMPRESSION, JSON_SCHEMA, PROTO

CHUNK: Final = 500
START_MS: Final = 1_772_366_400_000
USERS: Final = 200
AVRO_LIST_ID, AVRO_CLICK_ID, PROTO_ID, JSON_ID = 7, 8, 9, 10
Event = dict[str, Any]
Encode = Callable[[Event], bytes]


def frame(number: int) -> bytes:
    return b"\x00" + number.to_bytes(4)


def avro_bytes(schema: Any) -> Encode:
    parsed = fastavro.parse_schema(schema)

    def encode(event: Event) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, event)
        return out.getvalue()

    return encode


def proto_bytes(files: bytes) -> Encode:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(files).file:
        pool.Add(file)
    kinds = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name.title()}")) for name in ("impression", "feedback")
    }
    return lambda event: kinds[event["type"]](**event).SerializeToString()


def json_bytes(event: Event) -> bytes:
    return json.dumps(event).encode()


class Formats:
    """A topic for each form of a record: its settings, and how it is written."""

    def __init__(self, folder: Path) -> None:
        avro_list, avro_click = avro_bytes(AVRO_IMPRESSION), avro_bytes(AVRO_FEEDBACK)
        files = compiled(SchemaText("PROTOBUF", PROTO))
        proto = proto_bytes(files)
        (folder / "click.avsc").write_text(json.dumps(AVRO_FEEDBACK))
        (folder / "event.desc").write_bytes(files)
        (folder / "event.json").write_text(json.dumps(JSON_SCHEMA))
        self.schemas = {
            str(AVRO_LIST_ID): SchemaText("AVRO", json.dumps(AVRO_IMPRESSION)),
            str(AVRO_CLICK_ID): SchemaText("AVRO", json.dumps(AVRO_FEEDBACK)),
            str(PROTO_ID): SchemaText("PROTOBUF", PROTO),
            str(JSON_ID): SchemaText("JSON", json.dumps(JSON_SCHEMA)),
        }
        marker = b"\xc3\x01" + bytes.fromhex(
            fastavro.schema.fingerprint(fastavro.schema.to_parsing_canonical_form(cast(dict[str, Any], AVRO_FEEDBACK)), "CRC-64-AVRO")
        )

        def avro(event: Event) -> bytes:
            is_list = event["type"] == "impression"
            return frame(AVRO_LIST_ID) + avro_list(event) if is_list else frame(AVRO_CLICK_ID) + avro_click(event)

        def as_feedback(event: Event) -> Event:
            return event if event["type"] == "feedback" else {**event, "type": "feedback", "item_id": event["items"][0], "action": "click"}

        def in_headers(event: Event) -> bytes:
            number = AVRO_LIST_ID if event["type"] == "impression" else AVRO_CLICK_ID
            return SentValue.of(avro(event)[5:], {"apicurio.value.globalId": number.to_bytes(8)})

        def proto_framed(event: Event) -> bytes:
            return frame(PROTO_ID) + (b"\x02\x02" if event["type"] == "impression" else b"\x02\x04") + proto(event)

        def binary_cloud(event: Event) -> bytes:
            return SentValue.of(json_bytes(event), {"ce_specversion": b"1.0", "ce_type": event["type"].encode(), "ce_id": b"1"})

        self.topics: dict[str, tuple[dict[str, Any], Encode]] = {
            "native": ({}, json_bytes),
            "segment": ({"format": "segment"}, lambda event: json_bytes(segment(event))),
            "ubi": ({"format": "ubi"}, lambda event: json_bytes(ubi(event))),
            "connect": ({"envelope": "connect"}, lambda event: json_bytes({"schema": None, "payload": event})),
            "debezium": ({"envelope": "debezium"}, lambda event: json_bytes({"before": None, "after": event, "op": "c"})),
            "kcat": ({"envelope": "kcat"}, lambda event: json_bytes({"topic": "t", "payload": json.dumps(event)})),
            "cloud": ({"envelope": "cloudevents"}, lambda event: json_bytes(cloud(event))),
            "cloud-binary": ({"envelope": "cloudevents"}, binary_cloud),
            "avro": ({}, avro),
            "avro-8": ({}, lambda event: b"\x00" + int.from_bytes(avro(event)[1:5]).to_bytes(8) + avro(event)[5:]),
            "avro-headers": ({}, in_headers),
            "avro-connect": ({"format": "segment"}, avro),
            "protobuf": ({}, proto_framed),
            "json-schema": ({}, lambda event: frame(JSON_ID) + json_bytes(event)),
            "avro-file": (
                {"encoding": "avro", "schema_file": str(folder / "click.avsc")},
                lambda event: avro_click(as_feedback(event)),
            ),
            "avro-single": (
                {"encoding": "avro", "schema_file": str(folder / "click.avsc"), "frame": "single_object"},
                lambda event: marker + avro_click(as_feedback(event)),
            ),
            "protobuf-file": (
                {"encoding": "protobuf", "schema_file": str(folder / "event.desc"), "schema_message": "shop.Feedback"},
                lambda event: proto(as_feedback_only(as_feedback(event))),
            ),
            "json-file": ({"schema_file": str(folder / "event.json")}, json_bytes),
        }

    def settings(self) -> Settings:
        return Settings.model_validate(
            {
                "kafka": {"topics": list(self.topics)},
                "registry": {"url": "http://memory", "headers": True, "check_json": True},
                "events": {"topics": {name: own for name, (own, _) in self.topics.items() if own}},
                "join": {"gap_ms": 60_000, "attribution_ms": 60_000},
                "worker": {"commit_ms": 0, "commit_behind_ms": 0},
            }
        )


def as_feedback_only(event: Event) -> Event:
    names = ("type", "user_id", "ts", "impression_id", "item_id", "action", "value")
    return {name: value for name, value in event.items() if name in names}


def segment(event: Event) -> Event:
    shared = {"type": "track", "messageId": "m", "anonymousId": event["user_id"], "timestamp": event["ts"]}
    if event["type"] == "feedback":
        return {**shared, "event": "Product Clicked", "properties": {"product_id": event["item_id"]}}
    products = [{"product_id": item, "position": at} for at, item in enumerate(event["items"], 1)]
    return {**shared, "event": "Product List Viewed", "properties": {"list_id": event["impression_id"], "products": products}}


def ubi(event: Event) -> Event:
    is_list = event["type"] == "impression"
    item = event["items"][0] if is_list else event["item_id"]
    return {
        "action_name": "impression" if is_list else "click",
        "client_id": event["user_id"],
        "query_id": event["impression_id"],
        "timestamp": event["ts"],
        "event_attributes": {"object": {"object_id": item}, "position": {"ordinal": 1}},
    }


def cloud(event: Event) -> Event:
    return {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data_base64": base64.b64encode(json_bytes(event)).decode()}


def events(random: Random, count: int) -> Iterable[Event]:
    """Yield lists and feedback in order of time."""
    for number in range(count):
        user, ts = f"u{random.randrange(USERS)}", START_MS + number * 20
        list_id = f"r{user}{ts // 5_000}"
        if random.random() < 0.5:
            yield {"type": "impression", "impression_id": list_id, "user_id": user, "ts": ts, "items": [f"i{at}" for at in range(3)]}
        else:
            item = f"i{random.randrange(4)}"
            yield {
                "type": "feedback",
                "user_id": user,
                "ts": ts,
                "impression_id": list_id,
                "item_id": item,
                "action": "click",
                "value": 1.5,
            }


def mutated(random: Random, value: bytes, other: bytes) -> bytes | None:
    """Return a record with a few random changes; one in ten stays as it is."""
    headers = dict(value.headers) if isinstance(value, SentValue) else {}
    changed = bytearray(value)
    for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 5, 8, 20))):
        kind, at = random.randrange(8), random.randrange(len(changed) + 1)
        if kind <= 2 and at < len(changed):
            changed[at] = random.randrange(256)
        elif kind == 3 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif kind == 4:
            del changed[at : at + random.randrange(1, 6)]
        elif kind == 5:
            changed[at:at] = random.randbytes(random.randrange(1, 6))
        elif kind == 6:
            changed = changed[:at] + other[random.randrange(len(other) + 1) :]
        elif random.random() < 0.05:
            return None
    if headers and random.random() < 0.2:
        name = random.choice(list(headers))
        headers[name] = random.choice((None, b"", random.randbytes(8), bytes(7) + b"\x07"))
    return SentValue.of(bytes(changed), headers) if headers else bytes(changed)


class _Memory:
    """The client of a registry in memory."""

    def __init__(self, schemas: Mapping[str, SchemaText]) -> None:
        self.schemas = schemas
        self.settings = SimpleNamespace(place="memory", id_kind="schema_id")

    def fetch(self, ref: SchemaRef) -> SchemaText:
        if ref.id not in self.schemas:
            raise UnknownSchemaError
        return self.schemas[ref.id]


class _Logs:
    """A source of one task that hands out records, a chunk of each topic in turn."""

    health = SourceHealth()

    def __init__(self, topics: Sequence[str], values: Callable[[str, int], list[bytes | None]], count: int) -> None:
        self.topics, self._values, self.count = topics, values, count
        self.written = dict.fromkeys(topics, 0)
        self.paused: set[Input] = set()
        self._assigned = False

    def poll(self, timeout_s: float) -> PollResult:
        if not self._assigned:
            self._assigned = True
            return PollResult(assigned=frozenset({0}))
        records = {}
        for topic in self.topics:
            size = min(CHUNK, self.count - sum(self.written.values()))
            if size and Input(topic, 0) not in self.paused:
                first = self.written[topic]
                values = self._values(topic, size)
                records[Input(topic, 0)] = [Record(first + at, -1, value) for at, value in enumerate(values)]
                self.written[topic] += size
        return PollResult(records)

    def inputs_of(self, task: int) -> tuple[Input, ...]:
        return tuple(Input(topic, 0) for topic in self.topics)

    def start(self, task: int, offsets: Mapping[Input, int]) -> Mapping[Input, int]:
        return dict.fromkeys(self.inputs_of(task), 0)

    def pause(self, inputs: Collection[Input]) -> None:
        self.paused.update(inputs)

    def resume(self, inputs: Collection[Input]) -> None:
        self.paused.difference_update(inputs)

    def ends(self) -> Mapping[Input, int]:
        return {Input(topic, 0): count for topic, count in self.written.items()}

    def acknowledge(self, offsets: Mapping[Input, int]) -> None:
        pass

    def close(self) -> None:
        pass


class _Letters:
    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()

    def write(self, letters: Iterable[DeadLetter]) -> None:
        self.reasons.update(letter.reason for letter in letters)

    def close(self) -> None:
        pass


def _counting(decode: PartsDecoder, decoded: Counter[str]) -> PartsDecoder:
    """Return a decoder that counts its records, events and reasons."""

    def read(value: bytes | None) -> Any:
        found = decode(value)
        decoded["records"] += 1
        for event in found:
            decoded[event.reason if type(event) is MalformedEvent else "events"] += 1
        return found

    return read


def run(count: int, seed: int) -> Counter[str]:
    """Run `count` records through a worker. Returns the counters. Raises WrongAnswerError if they do not add up."""
    random = Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        formats = Formats(Path(scratch))
        settings = formats.settings()
        decoded: Counter[str] = Counter()
        streams = {topic: iter(events(Random(seed + at), count)) for at, topic in enumerate(formats.topics)}
        last = dict.fromkeys(formats.topics, b"")

        def values(topic: str, size: int) -> list[bytes | None]:
            encode, made = formats.topics[topic][1], []
            for _ in range(size):
                sent = encode(next(streams[topic]))
                made.append(mutated(random, sent, last[topic]))
                last[topic] = bytes(sent)
            return made

        logs, letters, status = _Logs(list(formats.topics), values, count), _Letters(), ProcessStatus()
        schemas = Schemas(cast(RegistryClient, _Memory(formats.schemas)), check_json=True)
        names_schemas = [topic for topic, (own, _) in formats.topics.items() if "schema_file" not in own]
        source, store = SchemaSource(logs, schemas, names_schemas), MemoryStore()
        engine = build_engine(settings, settings.kafka.topics)
        decoders = {topic: _counting(decode, decoded) for topic, decode in build_topic_decoders(settings, settings.kafka.topics).items()}
        worker = Worker(
            TaskRunner(
                engine=engine,
                decode=decoders["native"],
                topic_decoders=decoders,
                source=source,
                store=store,
                letters=letters,
                rules=build_worker_rules(settings),
                clock=SystemClock(),
                status=status,
            )
        )
        while sum(status.records.values()) < count:
            worker.turn(timeout_s=0)
        worker.drain(flush=True)
        builder = build_report_builder(settings, engine)
        builder.update(0, store.view([0], {})[0])
        worker.finish()
    counts: Counter[str] = Counter()
    for (reason, _), number in builder.report(1).counts.items():
        counts[reason] += number
    _check(counts, decoded, letters.reasons, count)
    return Counter({"records": decoded["records"], **counts})


def _check(counts: Counter[str], decoded: Counter[str], letters: Counter[str], count: int) -> None:
    problems = []
    if decoded["records"] != count:
        problems.append(f"{decoded['records']} records were decoded, not {count}")
    if counts["events"] != sum(decoded.values()) - decoded["records"]:
        problems.append(f"{counts['events']} events were counted, and decoders returned {sum(decoded.values()) - decoded['records']}")
    problems += [
        f"{reason}: {counts[reason]} counted, {decoded[reason]} returned"
        for reason in (*MALFORMED, IGNORED)
        if reason != "too_many_items" and counts[reason] != decoded[reason]
    ]
    if unknown := decoded.keys() - {"records", "events", IGNORED, *MALFORMED}:
        problems.append(f"reasons that are in no table: {sorted(unknown)}")
    kept = {outcome.name for outcome in OUTCOMES if outcome.is_dead_lettered} - {"too_many_items"}
    if any(letters[reason] > counts[reason] or (counts[reason] and not letters[reason]) for reason in kept):
        problems.append(f"dead letters {dict(letters)} do not match the counters {dict(counts)}")
    if problems:
        raise WrongAnswerError("; ".join(problems))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=int, nargs="?", default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))  # the log lines of wrong times would hide the result
    began = time.monotonic()
    counts = run(given.records, given.seed)
    print(f"{given.records:,} mutated records in {time.monotonic() - began:.0f} s, seed {given.seed}:")
    print(", ".join(f"{name} {number:,}" for name, number in counts.most_common() if number))


if __name__ == "__main__":
    main()
