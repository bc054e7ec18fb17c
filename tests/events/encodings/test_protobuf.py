"""Protobuf records become JSON with the names of the .proto file; damaged ones are refused."""

from __future__ import annotations

import base64
import contextlib
import json
from functools import cache
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, json_format
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.connectors.registry.protoc import compiled
from streammetrics.errors import MalformedEvent
from streammetrics.events.encodings.protobuf import ProtobufSchema, descriptor_set
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText
from tests.support.registry import proto_messages

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "confluent/meta.proto";
enum Action { CLICK = 0; BUY = 1; }
message Click {
  option (confluent.message_meta).doc = "a click";
  message Item { string sku = 1; int32 place = 2; }
  string user_id = 1;
  optional string list_id = 2;
  int64 ts = 3;
  Action action = 4;
  double value = 5;
  repeated Item items = 6;
  repeated string tags = 7;
  map<int32, string> labels = 8;
  map<string, Item> by_name = 9;
  google.protobuf.Timestamp at = 10;
  google.protobuf.DoubleValue price = 11;
  google.protobuf.Struct more = 12;
  bytes raw = 13;
  Click before = 14;
  bool seen = 15;
  uint64 big = 16;
  oneof either { string left = 17; int32 right = 18; }
  repeated Action actions = 19;
}
message Second { string text = 1; }
"""


@cache
def files() -> bytes:
    return compiled(SchemaText("PROTOBUF", PROTO))


@cache
def kinds() -> dict[str, Any]:
    return proto_messages(files())


def read(message: Any) -> Any:
    return json.loads(ProtobufSchema(files()).reader("shop.Click")(message.SerializeToString()))


EMPTY = {
    "ts": 0,
    "action": "CLICK",
    "value": 0.0,
    "items": [],
    "tags": [],
    "labels": {},
    "by_name": {},
    "seen": False,
    "big": 0,
    "actions": [],
}


def test_an_empty_message_has_its_numbers_and_no_empty_texts() -> None:
    assert read(kinds()["Click"]()) == EMPTY


def test_every_kind_of_field_is_read() -> None:
    message = kinds()["Click"](
        user_id="u7", list_id="", ts=5, action=1, value=float("nan"), tags=["a"], raw=b"\xff", big=2**64 - 1, right=0
    )
    message.items.add(sku="a", place=1)
    message.labels[3] = "x"
    message.by_name["n"].sku = "b"
    message.at.FromJsonString("2026-03-01T12:00:00.5Z")
    message.price.value = 9.5
    message.more.update({"k": [1, None]})
    message.before.user_id = "earlier"
    message.actions.extend([0, 1, 7])
    assert read(message) == {
        **EMPTY,
        "user_id": "u7",
        "list_id": "",
        "ts": 5,
        "action": "BUY",
        "value": "NaN",
        "items": [{"sku": "a", "place": 1}],
        "tags": ["a"],
        "labels": {"3": "x"},
        "by_name": {"n": {"sku": "b", "place": 0}},
        "at": "2026-03-01T12:00:00.500Z",
        "price": 9.5,
        "more": {"k": [1, None]},
        "raw": "/w==",
        "before": {**EMPTY, "user_id": "earlier"},
        "big": 2**64 - 1,
        "right": 0,
        "actions": ["CLICK", "BUY", 7],
    }


messages = st.builds(
    lambda user, ts, tags, place: kinds()["Click"](user_id=user, ts=ts, tags=tags, items=[kinds()["Click"].Item(sku="s", place=place)]),
    st.text(max_size=9), st.integers(-(2**63), 2**63 - 1), st.lists(st.text(max_size=5), max_size=3), st.integers(-9, 9),
)  # fmt: skip


@given(messages)
def test_what_is_set_equals_the_official_json(message: Any) -> None:
    official = json_format.MessageToDict(message, preserving_proto_field_name=True)
    found = read(message)
    assert {name: found[name] for name in official if name not in ("ts", "items")} == {
        name: value for name, value in official.items() if name not in ("ts", "items")
    }
    assert found["ts"] == int(official.get("ts", 0))


@given(messages, st.data())
def test_damaged_messages_are_refused_or_read(message: Any, data: st.DataObject) -> None:
    sent = bytearray(message.SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(MalformedEvent):
        json.loads(ProtobufSchema(files()).reader("shop.Click")(bytes(sent)))


class TestFrames:
    def test_indexes_choose_the_message(self) -> None:
        schema = ProtobufSchema(files())
        body = kinds()["Second"](text="x").SerializeToString()
        assert json.loads(schema.framed_reader(5)(b"\x00\x00\x00\x00\x07\x02\x02" + body)) == {"text": "x"}
        assert json.loads(schema.framed_reader(5)(b"\x00\x00\x00\x00\x07\x04\x00\x00" + b"\x0a\x01s")) == {"sku": "s", "place": 0}
        assert json.loads(schema.reader_at((1,))(body)) == {"text": "x"}

    def test_the_name_of_the_message_chooses_it(self) -> None:
        """Apicurio writes a message with the name, and its length before it."""
        body = kinds()["Second"](text="x").SerializeToString()
        assert json.loads(ProtobufSchema(files()).framed_reader(9)(bytes(8) + b"\x07" + b"\x08\x0a\x06Second" + body)) == {"text": "x"}

    @pytest.mark.parametrize("indexes", [b"", b"\x01", b"\x02\x0c", b"\x04\x02\x00", b"\xff\xff\xff\xff\xff\xff\xff"])
    def test_damaged_or_wrong_indexes_are_refused(self, indexes: bytes) -> None:
        with pytest.raises(MalformedEvent, match="bad_encoding"):
            ProtobufSchema(files()).framed_reader(5)(b"\x00\x00\x00\x00\x07" + indexes)


class TestSchemas:
    def test_a_descriptor_in_base64_with_its_imports_is_read(self) -> None:
        """Confluent's Python client registers schemas so."""
        common = descriptor_pb2.FileDescriptorProto(name="common.proto", package="common", syntax="proto3")
        common.message_type.add(name="User").field.add(name="id", number=1, type=9, label=1)
        main = descriptor_pb2.FileDescriptorProto(name="main.proto", package="ev", syntax="proto3")
        main.dependency.extend(["common.proto", "google/protobuf/timestamp.proto"])
        main.message_type.add(name="Click").field.add(name="user", number=1, type=11, label=1, type_name=".common.User")
        text = {file.name: base64.b64encode(file.SerializeToString()).decode() for file in (common, main)}
        schema = SchemaText("PROTOBUF", text["main.proto"], {"common.proto": text["common.proto"]})
        assert ProtobufSchema(compiled(schema)).reader()(b"\x0a\x04\x0a\x02u7") == b'{"user":{"id":"u7"}}'

    @pytest.mark.parametrize(
        ("text", "references", "says"),
        [
            ('syntax = "proto3"; message {', {}, "streammetrics_schema.proto"),
            ('syntax = "proto3"; import "other.proto"; message A {}', {}, "other.proto"),
            ('syntax = "proto3"; message A {}', {"../evil.proto": 'syntax = "proto3";'}, "not a path inside a folder"),
            ('syntax = "proto3"; message A {}', {"/etc/evil.proto": 'syntax = "proto3";'}, "not a path inside a folder"),
            ("AAAA", {}, "descriptor"),
        ],
    )
    def test_what_is_no_schema_is_refused(self, text: str, references: dict[str, str], says: str) -> None:
        with pytest.raises(SchemaProblemError, match=says):
            ProtobufSchema(compiled(SchemaText("PROTOBUF", text, references)))

    def test_a_message_that_is_not_there_is_named_with_those_that_are(self) -> None:
        with pytest.raises(SchemaProblemError, match=r"no message shop.Clock; it has shop.Click, shop.Second"):
            ProtobufSchema(files()).reader("shop.Clock")

    def test_a_file_without_messages_has_none(self) -> None:
        with pytest.raises(SchemaProblemError, match="no message"):
            ProtobufSchema(compiled(SchemaText("PROTOBUF", 'syntax = "proto3"; enum E { A = 0; }'))).reader()

    def test_messages_that_hold_each_other_too_deeply_are_refused_in_a_schema_and_in_a_frame(self) -> None:
        chain = "".join(f"message M{at} {{ M{at + 1} a = 1; }} " for at in range(3_000)) + "message M3000 { int32 a = 1; }"
        found = ProtobufSchema(compiled(SchemaText("PROTOBUF", f'syntax = "proto3"; {chain}')))
        with pytest.raises(SchemaProblemError, match=r"the messages inside M0 are nested too deeply"):
            found.reader()
        with pytest.raises(MalformedEvent, match=r"the messages inside M0 are nested too deeply"):
            found.framed_reader(5)(b"\x00\x00\x00\x00\x07\x00")
        assert found.reader("M2999")(b"") == b"{}"

    def test_data_that_are_nested_too_deeply_are_refused(self) -> None:
        read = ProtobufSchema(compiled(SchemaText("PROTOBUF", 'syntax = "proto3"; message M { M m = 1; }'))).reader()
        with pytest.raises(MalformedEvent, match=r"bad_encoding"):
            read(b"\x0b" * 1_000_000)
        inner = b""
        for _ in range(200):
            inner = b"\x0a" + bytes([len(inner) & 127 | 128, len(inner) >> 7]) + inner
        with pytest.raises(MalformedEvent, match=r"bad_encoding"):
            read(inner)

    def test_a_missing_import_is_named(self) -> None:
        file = descriptor_pb2.FileDescriptorProto(name="main.proto", syntax="proto3")
        file.dependency.append("other.proto")
        with pytest.raises(SchemaProblemError, match=r"it imports other.proto, which is not among its references"):
            ProtobufSchema(descriptor_set({"": base64.b64encode(file.SerializeToString()).decode()}))
