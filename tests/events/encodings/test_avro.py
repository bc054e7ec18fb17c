"""Avro records become JSON, whatever their schema; damaged ones are refused."""

from __future__ import annotations

import contextlib
import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import MalformedEvent
from streammetrics.events.encodings.avro import avro_reader, single_object_reader
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText
from tests.support.tables import for_each

CLICK: dict[str, Any] = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "user_id", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "value", "type": ["null", "double"], "default": None},
    ],
}


def schema(content: object, **references: object) -> SchemaText:
    return SchemaText("AVRO", json.dumps(content), {name: json.dumps(text) for name, text in references.items()})


def written(content: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(content), value)
    return out.getvalue()


def read(content: Any, value: Any) -> Any:
    return json.loads(avro_reader(schema(content))(written(content, value)))


def test_a_record_is_an_object() -> None:
    event = {"user_id": "u7", "ts": 1732183200123, "value": 48.0}
    assert read(CLICK, event) == event


def test_a_field_also_has_its_former_names_wherever_it_is() -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string", "aliases": ["item_id"]}]}
    fields = [
        {"name": "query_id", "type": "string", "aliases": ["search_id", "q"]},
        {"name": "q", "type": "string"},
        {"name": "hits", "type": ["null", {"type": "array", "items": item}]},
        {"name": "best", "type": ["null", "Item"]},
        {"name": "by_place", "type": {"type": "map", "values": "Item"}},
        {"name": "inner", "type": ["null", "List"], "default": None},
    ]
    value = {"query_id": "x", "q": "own", "hits": [{"sku": "a"}], "best": {"sku": "b"}, "by_place": {"1": {"sku": "c"}}}
    whole = value | {"inner": value | {"inner": None, "hits": None, "best": None, "by_place": {}}}
    found = read({"type": "record", "name": "List", "fields": fields}, whole)
    assert (found["search_id"], found["q"], found["inner"]["search_id"]) == ("x", "own", "x")
    assert [each["item_id"] for each in (*found["hits"], found["best"], found["by_place"]["1"])] == ["a", "b", "c"]


def test_the_body_begins_after_the_frame() -> None:
    event = {"user_id": "u7", "ts": 5, "value": None}
    assert json.loads(avro_reader(schema(CLICK), 5)(b"\x00\x00\x00\x00\x07" + written(CLICK, event))) == event


@for_each(
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, 1732183200123, 1732183200123),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1732183200123456, "2024-11-21T10:00:00.123456Z"),
        ({"type": "int", "logicalType": "date"}, 20_000, "2024-10-04"),
        ({"type": "string", "logicalType": "uuid"}, "8b9a2e0a-9a5e-4b4b-9d5e-3f2b1a0c9d8e", "8b9a2e0a-9a5e-4b4b-9d5e-3f2b1a0c9d8e"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.50"), 12.5),
        ({"type": "enum", "name": "Kind", "symbols": ["shown", "clicked"]}, "clicked", "clicked"),
        ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
        ({"type": "fixed", "name": "Two", "size": 2}, b"\xff\x00", "/wA="),
        ("long", 2**63 - 1, 2**63 - 1),
        ("string", 'ü"\\\n', 'ü"\\\n'),
        ("double", math.nan, "NaN"),
        (["null", "float"], -math.inf, "-Infinity"),
    ]
)
def test_values_become_what_mappings_expect(case: tuple[Any, Any, Any]) -> None:
    kind, value, expected = case
    assert read({"type": "record", "name": "R", "fields": [{"name": "field", "type": kind}]}, {"field": value}) == {"field": expected}


def test_records_may_refer_to_other_schemas() -> None:
    user = {"type": "record", "name": "shop.User", "fields": [{"name": "id", "type": "string"}]}
    click = {"type": "record", "name": "shop.Click", "fields": [{"name": "user", "type": "shop.User"}]}
    whole = {**click, "fields": [{"name": "user", "type": user}]}
    value = written(whole, {"user": {"id": "u7"}})
    assert json.loads(avro_reader(schema(click, **{"shop.User": user}))(value)) == {"user": {"id": "u7"}}


CHAIN = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}


def test_a_schema_may_contain_itself() -> None:
    assert read(CHAIN, {"next": {"next": None}}) == {"next": {"next": None}}


@pytest.mark.parametrize("levels", [2_000, 100_000])
def test_deep_data_is_refused_and_does_not_end_the_process(levels: int) -> None:
    with pytest.raises(MalformedEvent, match="bad_encoding"):
        avro_reader(schema(CHAIN))(b"\x02" * levels + b"\x00")


@pytest.mark.parametrize(
    "items", ["null", {"type": "fixed", "name": "Nothing", "size": 0}, {"type": "record", "name": "Empty", "fields": []}]
)
def test_a_schema_whose_arrays_could_claim_any_length_is_refused(items: Any) -> None:
    with pytest.raises(SchemaProblemError, match="without bytes"):
        avro_reader(schema({"type": "record", "name": "R", "fields": [{"name": "all", "type": {"type": "array", "items": items}}]}))


@pytest.mark.parametrize("text", ["{", '"Unknown"', '{"type": "record"}', "7", '{"type":"enum","name":"E"}', "[" * 100_000])
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SchemaProblemError):
        avro_reader(SchemaText("AVRO", text))


@given(st.data())
def test_damaged_records_are_refused_or_read_and_never_raise_anything_else(data: st.DataObject) -> None:
    sent = bytearray(written(CLICK, {"user_id": data.draw(st.text(max_size=20)), "ts": data.draw(st.integers(0, 2**62)), "value": 1.5}))
    for _ in range(data.draw(st.integers(1, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    sent = sent[: data.draw(st.integers(0, len(sent)))] + data.draw(st.binary(max_size=3))
    with contextlib.suppress(MalformedEvent):
        assert json.loads(avro_reader(schema(CLICK))(bytes(sent))).keys() == {"user_id", "ts", "value"}


def test_bytes_after_the_record_are_refused() -> None:
    with pytest.raises(MalformedEvent, match="1 bytes follow"):
        avro_reader(schema(CLICK))(written(CLICK, {"user_id": "u", "ts": 1, "value": None}) + b"\x00")


EVENT = {"user_id": "u7", "ts": 5, "value": None}


class TestSingleObject:
    def sent(self) -> bytes:
        canonical = fastavro.schema.to_parsing_canonical_form(CLICK)
        return b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")) + written(CLICK, EVENT)

    def test_it_is_read(self) -> None:
        assert json.loads(single_object_reader(schema(CLICK))(self.sent())) == EVENT

    def test_the_fingerprint_of_the_specification_is_little_endian(self) -> None:
        """The specification's own example: the schema "int" has the CRC-64-AVRO 7275d51a3f395c8f."""
        assert single_object_reader(SchemaText("AVRO", '"int"'))(bytes.fromhex("c3018f5c393f1ad5757206")) == b"3"

    @pytest.mark.parametrize("damage", [lambda sent: sent[1:], lambda sent: sent[:3] + b"\x00" + sent[4:], lambda sent: b""])
    def test_another_marker_or_fingerprint_is_refused(self, damage: Any) -> None:
        with pytest.raises(MalformedEvent, match="bad_encoding"):
            single_object_reader(schema(CLICK))(damage(self.sent()))
