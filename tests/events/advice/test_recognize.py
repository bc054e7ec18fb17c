"""Tests of the recognizer: what bytes that are no events seem to be, and that it has an answer for any bytes."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, native_decoder, ubi_decoder
from streammetrics.events.advice.recognize import SAMPLE_BYTES, explained, recognize
from tests.support.tables import for_each

LIST = {"type": "impression", "impression_id": "r", "user_id": "u", "ts": 1_772_359_200_000, "items": ["a", "b"]}
CLICK = {"type": "feedback", "impression_id": "r", "user_id": "u", "ts": 1_772_359_201_000, "item_id": "a", "action": "click"}
UBI = {"action_name": "click", "client_id": "c", "query_id": "q", "timestamp": "2026-03-01T10:00:00Z"}
UBI_QUERY = {"user_query": "lamp", "query_id": "q", "client_id": "c", "query_response_id": "r", "query_response_hit_ids": ["a"]}


def written(*events: object) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


LINES = written(LIST, CLICK)
BYTES = {
    "gzip": gzip.compress(LINES),
    "bzip2": bz2.compress(LINES),
    "zstd": b"\x28\xb5\x2f\xfd\x04\x00rest",
    "xz": b"\xfd7zXZ\x00rest",
    "zip": b"PK\x03\x04rest",
    "parquet": b"PAR1\x15\x04rest",
    "avro": b"Obj\x01\x04\x16avro.schema",
    "registry_json": b"\x00\x00\x00\x00\x2a" + written(LIST),
    "registry_binary": b"\x00\x00\x00\x00\x2a\x02\x04r1",
    "msgpack": msgspec.msgpack.encode(LIST),
    "encoding": LINES.decode().encode("utf-16"),
    "binary": zlib.compress(LINES),
    "array": json.dumps([LIST, CLICK], indent=2).encode(),
    "array_lines": written([LIST], [CLICK]),
    "pretty": json.dumps(LIST | {"type": "other"}, indent=2).encode(),
    "python": repr(LIST).encode(),
    "concatenated": b'{"a":1}{"a":2}',
    "commas": b'{"a":1},\n{"a":2}\n',
    "report": b'{\n  "warnings": [],\n  "version": "1"',
    "table": b"type,impression_id,user_id,ts\nimpression,r,u,1\n",
    "markup": b"<html><body></body></html>",
    "encoded_twice": json.dumps(json.dumps(LIST)).encode(),
    "base64": base64.b64encode(written(LIST)) + b"\n",
    "prefixed": b"u\t" + written(LIST),
    "sequence": b"\x1e" + written(LIST),
    "text": b"hello there\n",
}
OBJECTS: dict[str, object] = {
    "cloudevents": {"specversion": "1.0", "type": "com.shop.search", "data": LIST},
    "debezium": {"schema": {}, "payload": {"before": None, "after": LIST, "op": "c"}},
    "connect": {"schema": {}, "payload": LIST},
    "kcat": {"topic": "t", "partition": 0, "offset": 1, "payload": json.dumps(LIST)},
    "hits": {"_index": "ubi_events", "_id": "1", "_source": UBI},
    "segment": {"type": "track", "event": "Product Clicked", "anonymousId": "a", "properties": {}},
    "ga4": {"event_name": "select_item", "event_timestamp": "1772359200000000", "user_pseudo_id": "1.2"},
    "metarank": {"event": "ranking", "id": "r", "timestamp": "1772359200000", "user": "u", "items": []},
    "algolia": {"eventType": "click", "eventName": "Clicked", "userToken": "u", "objectIDs": ["a"]},
    "ubi": UBI,
    "envelope": {"meta": {}, "event": LIST},
    "batch": {"sent_at": 1, "events": [LIST, CLICK]},
}


@for_each(BYTES)
def test_forms_of_files_are_recognized(name: str) -> None:
    found = recognize(BYTES[name])
    assert found is not None
    assert found.name == name
    assert found.what
    assert found.advice


@for_each(OBJECTS)
def test_envelopes_and_other_schemas_are_recognized_by_their_fields(name: str) -> None:
    found = recognize(written(OBJECTS[name]))
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("line", ["7\tU1\t11/11/2019 9:05:58 AM\t\tN1-1 N22-0", "7\tU1\t11/11/2019 9:05:58 AM\tN3\tN1 N22"])
def test_lines_of_mind_are_recognized(line: str) -> None:
    assert str(recognize(line.encode())) == 'lines of behaviors.tsv of MIND: set events.format = "mind"'


def test_lines_of_snowplow_are_recognized_although_they_contain_json() -> None:
    cells = ["web", *[""] * 51, '{"schema":"iglu:a/b/jsonschema/1-0-0"}', *[""] * 75, "1-0-0", "", ""]
    found = recognize("\t".join(cells).encode())
    assert str(found) == 'Snowplow enriched events as TSV: set events.format = "snowplow"'


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be", "utf-32"])
def test_wide_text_is_recognized_with_and_without_a_byte_order_mark(order: str) -> None:
    found = recognize(LINES.decode().encode(order))
    assert found is not None
    assert found.name == "encoding"
    assert "iconv" in found.advice


def test_text_in_another_encoding_is_recognized() -> None:
    found = recognize('{"item_id":"café au lait"}\n'.encode("latin-1"))
    assert found is not None
    assert found.name == "encoding"


def test_the_advice_names_where_the_event_is() -> None:
    cases = {
        "cloudevents": 'the event in data: set events.envelope = "cloudevents"',
        "debezium": 'the event in payload.after: set events.envelope = "debezium"',
        "kcat": 'the event in payload as text: set events.envelope = "kcat"',
        "hits": 'the event in _source: set events.envelope = "hits"',
        "envelope": "jq -c .event",
        "batch": 'events.envelope = "batch"',
    }
    for name, command in cases.items():
        assert command in str(recognize(written(OBJECTS[name])))


def test_the_columns_of_a_table_are_named() -> None:
    found = recognize(b"user\titem\tgrade\nu\ta\t1\n")
    assert found is not None
    assert found.what == "TSV with the columns user, item, grade"


def test_events_of_the_configured_schema_are_not_recognized_as_something_else() -> None:
    assert recognize(LINES) is None
    assert recognize(b"\xef\xbb\xbf" + LINES) is None
    assert recognize(written(UBI), "ubi") is None
    assert recognize(b"") is recognize(b"\n \n") is None


def test_events_of_the_other_schema_name_the_setting() -> None:
    assert 'events.format = "ubi"' in str(recognize(written(UBI)))
    assert 'events.format = "ubi"' in str(recognize(written(UBI_QUERY)))
    assert 'events.format = "native"' in str(recognize(LINES, "ubi"))
    assert "ubi_lists" in str(recognize(written(UBI_QUERY), "ubi"))


def test_a_sample_that_ends_within_a_line_is_enough() -> None:
    long = {"specversion": "1.0", "data": LIST}
    lines = written(*[long] * 2_000)
    assert len(lines) > SAMPLE_BYTES
    found = recognize(lines)
    assert found is not None
    assert found.name == "cloudevents"
    assert recognize(lines[:-40]) == found
    array = json.dumps([LIST] * 2_000).encode()
    assert recognize(array[:5_000]) == recognize(array)


@given(st.binary(max_size=300) | st.text(max_size=100).map(str.encode))
def test_any_bytes_get_an_answer(sample: bytes) -> None:
    for schema in ("native", "ubi"):
        found = recognize(sample, schema)  # type: ignore[arg-type]
        assert found is None or str(found).isprintable()


def test_the_detail_of_a_malformed_record_says_what_it_seems_to_be() -> None:
    for decode in (native_decoder(EventLimits()), ubi_decoder(EventLimits())):
        (found,) = decode(b"\x00\x00\x00\x00\x07" + written(LIST).strip())
        assert isinstance(found, MalformedEvent)
        assert found.reason == "bad_json"
        assert "; it looks like a Confluent-framed record with schema id 7 (" in found.detail
        assert found.detail.endswith(": set registry.url")
    (found,) = native_decoder(EventLimits())(written(OBJECTS["debezium"]))
    assert isinstance(found, MalformedEvent)
    assert "the event in payload.after" in found.detail


def test_other_errors_stay_as_they_are() -> None:
    error = MalformedEvent("bad_id", "user_id must be a string")
    assert explained(error, BYTES["gzip"], "native") is error
    assert explained(MalformedEvent("empty", "no value"), None, "native").detail == "no value"
