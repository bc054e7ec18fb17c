"""The cost of decoding an event in each encoding, next to the same event as native JSON. All must give equal events.

Run it alone: `python -m tests.bench.decoding_encoded`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from streammetrics.connectors.registry.protoc import compiled
from streammetrics.connectors.registry.readers import registered_reader
from streammetrics.events import decoder, topic_decoder
from streammetrics.events.encodings.decoder import encoded
from streammetrics.events.encodings.frames import SchemaRef
from streammetrics.events.encodings.schema_text import SchemaText
from streammetrics.events.envelopes import without_envelope
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.sent_value import SentValue
from tests.bench.decoding import LIMITS, MAPPED, MAPPED_LIST, NATIVE_FEEDBACK, NATIVE_LIST, RULES, cost_of
from tests.bench.parts import WrongAnswerError
from tests.fuzz.topics import avro_bytes, frame, proto_bytes
from tests.support.registry import AVRO_FEEDBACK, JSON_SCHEMA

ITEMS: Final = [f"item-{number:05}" for number in range(12)]


def _record(name: str, **types: object) -> dict[str, object]:
    """Return the Avro schema of a record with these fields."""
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in types.items()]}


_TEXT: Final = "string"
_TEXTS: Final = {"type": "map", "values": _TEXT}
_IDS: Final = {"type": "array", "items": _TEXT}
_TIME: Final = {"type": "long", "logicalType": "timestamp-millis"}
_USER: Final = _record("User", id=_TEXT)
AVRO_LIST: Final = _record(
    "Impression", type=_TEXT, impression_id=_TEXT, user_id=_TEXT, ts=_TIME, items=_IDS, experiments=_TEXTS, segments=_TEXTS
)
AVRO_MAPPED: Final = _record(
    "Results", event=_TEXT, list=_TEXT, user=_USER, time="long", results=_IDS, ab=_record("Test", ranker=_TEXT), surface=_TEXT
)
AVRO_MAPPED_FEEDBACK: Final = _record("Watch", event=_TEXT, list=_TEXT, user=_USER, time="long", item=_TEXT, seconds="double")
PROTO: Final = """
syntax = "proto3"; package shop;
message Impression {
  string type = 1; string impression_id = 2; string user_id = 3; int64 ts = 4; repeated string items = 5;
  map<string, string> experiments = 6; map<string, string> segments = 7;
}
message Feedback {
  string type = 1; string user_id = 2; int64 ts = 3; string impression_id = 4; string item_id = 5; string action = 6;
  optional double value = 7;
}
"""


class EncodedCost(NamedTuple):
    """Microseconds of processor time for a list of twelve items and for a feedback, and their sizes in bytes."""

    name: str
    of_list: float
    of_feedback: float
    list_bytes: int
    feedback_bytes: int


def costs() -> list[EncodedCost]:
    """Measure every encoding. Raises WrongAnswerError if one gives other events than native JSON."""
    shown, watched = NATIVE_LIST | {"items": ITEMS}, dict(NATIVE_FEEDBACK)
    native = decoder("native", LIMITS)
    mapped = topic_decoder("events", "native", parse_mappings(RULES), LIMITS)
    expected = [list(native(_json(event))) for event in (shown, watched)]
    avro_list, avro_feedback = avro_bytes(AVRO_LIST), avro_bytes(AVRO_FEEDBACK)
    proto_text = SchemaText("PROTOBUF", PROTO)
    proto = proto_bytes(compiled(proto_text))
    list_schema, feedback_schema = (SchemaText("AVRO", json.dumps(each)) for each in (AVRO_LIST, AVRO_FEEDBACK))
    json_schema = SchemaText("JSON", json.dumps(JSON_SCHEMA))
    mapped_schemas = [SchemaText("AVRO", json.dumps(each)) for each in (AVRO_MAPPED, AVRO_MAPPED_FEEDBACK)]
    mapped_list = MAPPED_LIST | {"event": "results", "results": ITEMS}
    mapped_feedback = MAPPED | {"event": "watch", "item": ITEMS[3], "seconds": 48.0}
    unframed, framed = encoded(native, LIMITS), encoded(mapped, LIMITS)
    cloud = without_envelope("cloudevents", native)
    attributes = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "shop.event", "time": "2026-03-01T12:00:00Z"}
    headers = {f"ce_{name}": value.encode() for name, value in attributes.items()}
    binary = without_envelope("cloudevents", mapped, with_attributes=True)
    cases: Mapping[str, tuple[Callable[[bytes], Any], bytes, bytes]] = {
        "native JSON": (native, _json(shown), _json(watched)),
        "mapped JSON": (mapped, _json(mapped_list), _json(mapped_feedback)),
        "Avro": (unframed, _framed(list_schema, avro_list(shown)), _framed(feedback_schema, avro_feedback(watched))),
        "Avro, mapped": (
            framed,
            _framed(mapped_schemas[0], avro_bytes(AVRO_MAPPED)(mapped_list)),
            _framed(mapped_schemas[1], avro_bytes(AVRO_MAPPED_FEEDBACK)(mapped_feedback)),
        ),
        "Protobuf": (unframed, _framed(proto_text, b"\x00" + proto(shown)), _framed(proto_text, b"\x02\x02" + proto(watched))),
        "JSON in a frame": (unframed, _framed(json_schema, _json(shown)), _framed(json_schema, _json(watched))),
        "JSON, checked by its schema": (
            unframed,
            _framed(json_schema, _json(shown), check=True),
            _framed(json_schema, _json(watched), check=True),
        ),
        "CloudEvents, structured": (cloud, _json(attributes | {"data": shown}), _json(attributes | {"data": watched})),
        "CloudEvents, binary, mapped": (binary, SentValue.of(_json(mapped_list), headers), SentValue.of(_json(mapped_feedback), headers)),
    }
    found = []
    for name, (decode, sent_list, sent_feedback) in cases.items():
        if [list(decode(sent_list)), list(decode(sent_feedback))] != expected:
            raise WrongAnswerError(f"{name}: the events differ")
        found.append(EncodedCost(name, cost_of(decode, sent_list), cost_of(decode, sent_feedback), len(sent_list), len(sent_feedback)))
    return found


def _json(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def _framed(schema: SchemaText, body: bytes, check: bool = False) -> bytes:
    reader = registered_reader(schema, SchemaRef("schema_id", "7", 5), check)
    return SentValue.of(frame(7) + body, to_json=reader)


if __name__ == "__main__":
    for each in costs():
        sizes = f"list {each.of_list:6.2f} us, {each.list_bytes} B   feedback {each.of_feedback:6.2f} us, {each.feedback_bytes} B"
        print(f"{each.name:28} {sizes}")
