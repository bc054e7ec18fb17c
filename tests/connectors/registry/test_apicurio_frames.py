"""Records of Apicurio's own serializers for Java (2.6.13) are read.

The bytes were written by `AvroKafkaSerializer` and `ProtobufKafkaSerializer` of io.apicurio:apicurio-registry-serdes-*, for the Avro record
{user_id: "u7", ts: 5} with the global and content id 5, and the Protobuf message Click {user_id: "u7"}, the second of its file, with the
id 6.
"""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from streammetrics.connectors.registry.schemas import Schemas
from streammetrics.connectors.registry.source import loaded
from streammetrics.events.encodings.schema_text import SchemaText
from streammetrics.events.sent_value import SentValue
from tests.connectors.registry.fakes import FakeRegistry

AVRO = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [{"name": "user_id", "type": "string"}, {"name": "ts", "type": "long"}],
}
PROTO = 'syntax = "proto3"; package shop; message First {} message Click { string user_id = 1; }'
SCHEMAS = {"5": SchemaText("AVRO", json.dumps(AVRO)), "6": SchemaText("PROTOBUF", PROTO)}
ID_5, ID_6 = (5).to_bytes(8), (6).to_bytes(8)


@pytest.mark.parametrize(
    ("sent", "headers", "expected"),
    [
        ("0000000000000000050475370a", {}, {"user_id": "u7", "ts": 5}),
        ("00000000050475370a", {}, {"user_id": "u7", "ts": 5}),
        ("0475370a", {"apicurio.value.globalId": ID_5, "apicurio.value.encoding": b"BINARY"}, {"user_id": "u7", "ts": 5}),
        ("0475370a", {"apicurio.value.contentId": ID_5, "apicurio.value.encoding": b"BINARY"}, {"user_id": "u7", "ts": 5}),
        ("000000000000000006070a05436c69636b0a027537", {}, {"user_id": "u7"}),
        (
            "0a027537",
            {
                "apicurio.value.globalId": ID_6,
                "apicurio.value.msgType": b"com.google.protobuf.DynamicMessage",
                "apicurio.protobuf.type": b"Click",
            },
            {"user_id": "u7"},
        ),
    ],
)
def test_a_record_of_apicurio_is_read(sent: str, headers: dict[str, bytes], expected: dict[str, Any]) -> None:
    schemas = Schemas(cast(Any, FakeRegistry(SCHEMAS)))
    value = loaded(SentValue.of(bytes.fromhex(sent), headers), schemas)
    assert isinstance(value, SentValue)
    assert value.to_json is not None
    assert json.loads(value.to_json(value)) == expected
