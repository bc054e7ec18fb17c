"""The forms of records: a topic for each, with its settings and endless records of it, most of them damaged."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import fastavro
import fastavro.schema
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from streammetrics.config import Settings
from streammetrics.connectors.registry.protoc import compiled
from streammetrics.events.encodings.schema_text import SchemaText
from streammetrics.events.mappings.rules import PRESETS
from streammetrics.events.mappings.text_rows import SNOWPLOW_COLUMNS
from streammetrics.events.sent_value import SentValue
from tests.events.mappings.samples import ECOMMERCE, ISO, NOON, PRODUCTS, RECORDS, TABLES
from tests.fuzz.mutations import damaged_record, with_odd_values
from tests.support.registry import AVRO_FEEDBACK, AVRO_IMPRESSION, JSON_SCHEMA, PROTO

USERS: Final = 200
STEP_MS: Final = 20
AVRO_LIST_ID, AVRO_CLICK_ID, PROTO_ID, JSON_ID = 7, 8, 9, 10
Event = dict[str, Any]
Own = dict[str, Any]
"""The settings of one topic."""
Encode = Callable[[Event], bytes]
_TIME = re.compile(r"1772366400(000)?")
"""The time of samples, in milliseconds or seconds."""

NATIVE_FIELDS: Final = [
    {"kind": "impression", "when": {"type": "impression"}, "user_id": "user_id", "ts": "ts", "impression_id": "impression_id"}
    | {"items": "items", "item_separator": "|"},
    {"kind": "feedback", "user_id": "user_id", "ts": "ts", "item_id": "item_id", "action": "action", "value": "value"},
]
"""Mappings that read the fields of native events."""
_MAPPED: Final = {**{f"mapped-{name}": tables for name, tables in TABLES.items()}, "avro-mapped": NATIVE_FIELDS}


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


def json_bytes(record: Any, *, ensure_ascii: bool = True) -> bytes:
    return json.dumps(record, ensure_ascii=ensure_ascii).encode()


class Topics:
    """A topic for each form of a record: its settings, and how it is written. `objects` are written as JSON, `bytes` by themselves."""

    def __init__(self, folder: Path) -> None:
        (folder / "click.avsc").write_text(json.dumps(AVRO_FEEDBACK))
        (folder / "event.desc").write_bytes(compiled(SchemaText("PROTOBUF", PROTO)))
        (folder / "event.json").write_text(json.dumps(JSON_SCHEMA))
        self.schemas = {
            str(AVRO_LIST_ID): SchemaText("AVRO", json.dumps(AVRO_IMPRESSION)),
            str(AVRO_CLICK_ID): SchemaText("AVRO", json.dumps(AVRO_FEEDBACK)),
            str(PROTO_ID): SchemaText("PROTOBUF", PROTO),
            str(JSON_ID): SchemaText("JSON", json.dumps(JSON_SCHEMA)),
        }
        self.objects: dict[str, tuple[Own, Callable[[Event], Any]]] = {
            "native": ({}, native),
            "ubi": ({"format": "ubi"}, ubi),
            "json-file": ({"schema_file": str(folder / "event.json")}, native),
            "connect": ({"envelope": "connect"}, lambda event: {"schema": None, "payload": event}),
            "debezium": ({"envelope": "debezium"}, lambda event: {"before": None, "after": event, "op": "c"}),
            "kcat": ({"envelope": "kcat"}, lambda event: {"topic": "t", "payload": json.dumps(event)}),
            "batch": ({"envelope": "batch"}, lambda event: {"batch": [native(event), event]}),
            "cloud": ({"envelope": "cloudevents"}, cloud),
            **{name: ({"format": name}, partial(sampled, name)) for name in PRESETS},
            **{f"mapped-{name}": ({}, partial(sampled, name)) for name in TABLES},
        }
        self.bytes: dict[str, tuple[Own, Encode]] = {**_encoded(folder), **_LINES}
        self.own = {name: own for name, (own, _) in (*self.objects.items(), *self.bytes.items())}

    def settings(self, random: Random) -> Settings:
        """Return the settings of all topics. What concerns all of them is drawn."""
        by_hits = random.random() < 0.5
        drawn = {
            "numeric_ids": random.random() < 0.5,
            "positions": random.choice(("order", "absolute", "absolute_from_0")),
            "ubi_lists": "hit_ids" if by_hits else "impressions",
            "ubi_empty_lists": random.random() < 0.5,
            "ubi_page_start": random.choice((None, "from")) if by_hits else None,
            "ubi_experiment": random.choice((None, "ab")),
            "ubi_value": random.choice((None, "seconds")),
        }
        return Settings.model_validate(
            {
                "kafka": {"topics": list(self.own)},
                "registry": {"url": "http://memory", "headers": True, "check_json": True},
                "events": {
                    "topics": {name: own for name, own in self.own.items() if own},
                    "mappings": [table | {"topics": [name]} for name, tables in _MAPPED.items() for table in tables],
                    **drawn,
                },
                "exposures": {"enabled": True},
                "join": {"gap_ms": 60_000, "attribution_ms": 60_000, "idle_ms": 1},
                "worker": {"commit_ms": 0, "commit_behind_ms": 0},
            }
        )

    def records(self, name: str, random: Random) -> Iterator[bytes | None]:
        """Yield records of a topic in order of time, most of them with odd values or damaged bytes."""
        last = b"{}"
        for event in events(random):
            is_odd = False
            if name in self.bytes:
                value = self.bytes[name][1](event)
            else:
                record = self.objects[name][1](event)
                is_odd = random.random() < 0.7
                value = json_bytes(with_odd_values(random, record) if is_odd else record, ensure_ascii=random.random() < 0.5)
            yield value if is_odd and random.random() < 0.8 else damaged_record(random, value, last)
            last = bytes(value)


def _encoded(folder: Path) -> dict[str, tuple[Own, Encode]]:
    avro_list, avro_click = avro_bytes(AVRO_IMPRESSION), avro_bytes(AVRO_FEEDBACK)
    proto = proto_bytes((folder / "event.desc").read_bytes())
    canonical = fastavro.schema.to_parsing_canonical_form(cast(dict[str, Any], AVRO_FEEDBACK))
    marker = b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    by_file = {"encoding": "avro", "schema_file": str(folder / "click.avsc")}

    def avro(event: Event) -> bytes:
        is_list = event["type"] == "impression"
        return frame(AVRO_LIST_ID) + avro_list(event) if is_list else frame(AVRO_CLICK_ID) + avro_click(event)

    def in_headers(event: Event) -> bytes:
        number = AVRO_LIST_ID if event["type"] == "impression" else AVRO_CLICK_ID
        return SentValue.of(avro(event)[5:], {"apicurio.value.globalId": number.to_bytes(8)})

    def proto_framed(event: Event) -> bytes:
        return frame(PROTO_ID) + (b"\x02\x02" if event["type"] == "impression" else b"\x02\x04") + proto(event)

    def binary_cloud(event: Event) -> bytes:
        return SentValue.of(json_bytes(event), {"ce_specversion": b"1.0", "ce_type": event["type"].encode(), "ce_id": b"1"})

    return {
        "cloud-binary": ({"envelope": "cloudevents"}, binary_cloud),
        "avro": ({}, avro),
        "avro-8": ({}, lambda event: b"\x00" + int.from_bytes(avro(event)[1:5]).to_bytes(8) + avro(event)[5:]),
        "avro-headers": ({}, in_headers),
        "avro-mapped": ({}, avro),
        "protobuf": ({}, proto_framed),
        "json-schema": ({}, lambda event: frame(JSON_ID) + json_bytes(event)),
        "avro-file": (by_file, lambda event: avro_click(as_feedback(event))),
        "avro-single": (by_file | {"frame": "single_object"}, lambda event: marker + avro_click(as_feedback(event))),
        "protobuf-file": (
            {"encoding": "protobuf", "schema_file": str(folder / "event.desc"), "schema_message": "shop.Feedback"},
            lambda event: proto(as_feedback(event)),
        ),
    }


def as_feedback(event: Event) -> Event:
    found = event if event["type"] == "feedback" else {**event, "type": "feedback", "item_id": event["items"][0], "action": "click"}
    names = ("type", "user_id", "ts", "impression_id", "item_id", "action", "value")
    return {name: value for name, value in found.items() if name in names}


def native(event: Event) -> Event | list[Event]:
    """Return an event in one of its forms: now and then with items as objects, labels, as an exposure, or in an array."""
    kind = event["ts"] // STEP_MS % 6
    if kind == 0:
        return [event, event | {"user_id": None}]
    if kind == 1:
        return {"type": "exposure", "user_id": event["user_id"], "ts": event["ts"], "experiment": "ranker", "variant": "new"}
    if kind in (2, 3) and event["type"] == "impression":
        items = [{"id": item, "position": 2 * at, "team": "ab"[at % 2]} for at, item in enumerate(event["items"])]
        return event | {"items": items, "fragment": kind == 2, "experiments": {"ranker": "new"}, "segments": {"page": "home"}}
    return event


def ubi(event: Event) -> Event | list[Event]:
    """Return an event or a query of UBI, now and then in an array or a search hit."""
    is_list, kind = event["type"] == "impression", event["ts"] // STEP_MS % 6
    shared = {"client_id": event["user_id"], "query_id": event["impression_id"], "timestamp": event["ts"], "ab": "new"}
    item = event["items"][0] if is_list else event["item_id"]
    attributes = {"object": {"object_id": item}, "position": {"ordinal": 1}, "seconds": 2.5}
    shown = shared | {"action_name": "impression" if is_list else "click", "event_attributes": attributes}
    if kind == 0:
        return [shown, shown | {"action_name": "search", "event_attributes": None}]
    if kind == 1:
        return {"_index": "ubi_events", "_id": "1", "_source": shown}
    if kind < 4 and is_list:
        return shared | {"user_query": "chair", "query_response_hit_ids": event["items"], "from": 3 * (kind - 2)}
    return shown


def cloud(event: Event) -> Event:
    return {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data_base64": base64.b64encode(json_bytes(event)).decode()}


def sampled(name: str, event: Event) -> Any:
    """Return an ordinary record of a mapping or a preset, with the user and the time of an event."""
    ts, samples = event["ts"], RECORDS[name]
    text = json.dumps(samples[ts // STEP_MS % len(samples)]).replace('"u"', f'"{event["user_id"]}"').replace(ISO, iso(ts))
    return json.loads(_TIME.sub(lambda found: str(ts if found[1] else ts // 1_000), text))


def iso(ts: int) -> str:
    return datetime.fromtimestamp(ts / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def mind_line(event: Event) -> bytes:
    time = datetime.fromtimestamp(event["ts"] // 1_000, UTC).strftime("%m/%d/%Y %I:%M:%S %p")
    items = event.get("items") or [event["item_id"]]
    shown = " ".join(f"{item}-{at % 2}" for at, item in enumerate(items))
    return "\t".join((event["impression_id"], event["user_id"], time, "", shown)).encode()


def snowplow_line(event: Event) -> bytes:
    record = sampled("snowplow", event)
    products = [_described("product", each) for each in record.pop(PRODUCTS)]
    action = _described("snowplow_ecommerce_action", record.pop(ECOMMERCE))
    record |= {"contexts": json.dumps({"data": products}), "unstruct_event": json.dumps({"data": action})}
    return "\t".join(record.get(name, "") for name in SNOWPLOW_COLUMNS).encode()


def _described(name: str, data: Any) -> dict[str, Any]:
    return {"schema": f"iglu:com.snowplowanalytics.snowplow.ecommerce/{name}/jsonschema/1-0-0", "data": data}


_LINES: Final[Mapping[str, tuple[Own, Encode]]] = {
    "mind-lines": ({"format": "mind"}, mind_line),
    "snowplow-lines": ({"format": "snowplow"}, snowplow_line),
}


def events(random: Random) -> Iterator[Event]:
    """Yield lists and feedback in order of time, without end."""
    for number in count():
        user, ts = f"u{random.randrange(USERS)}", NOON + number * STEP_MS
        shared = {"impression_id": f"r{user}{ts // 5_000}", "user_id": user, "ts": ts}
        if random.random() < 0.5:
            yield {"type": "impression", **shared, "items": [f"i{at}" for at in range(3)]}
        else:
            yield {"type": "feedback", **shared, "item_id": f"i{random.randrange(4)}", "action": "click", "value": 1.5}
