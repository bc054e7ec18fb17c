"""Records behind a schema registry: frames, what bytes become, and schemas that are refused."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streammetrics.readers import Later, Record, registry
from tests.readers.reading import parts_of
from tests.support.registry import PROTO_FILE, proto_message
from tests.support.schema_server import SchemaServer

CLICK = {
    "type": "record",
    "name": "Click",
    "namespace": "shop",
    "fields": [{"name": "user_id", "type": "string"}, {"name": "ts", "type": "long"}],
}
SENT = {"user_id": "u7", "ts": 5}
BODY = bytes.fromhex("0475370a")


@pytest.fixture(scope="module")
def server() -> Iterator[SchemaServer]:
    with SchemaServer() as running:
        running.add(5, CLICK)
        running.add(6, PROTO_FILE.hex(), "PROTOBUF")
        running.add(7, {"type": "object"}, "JSON")
        yield running


def framed(number: int, body: bytes = BODY) -> Record:
    return Record(b"\x00" + number.to_bytes(4) + body)


def avro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def decoded(server: SchemaServer, schema: Any, body: bytes) -> Any:
    """Return what the bytes of an Avro record are by a schema."""
    server.add(9, schema)
    return registry.decoder(server.url)(framed(9, body))


class TestFrames:
    def test_avro_json_and_records_without_a_frame(self, server: SchemaServer) -> None:
        decode = registry.decoder(server.url)
        assert decode(framed(5)) == decode(framed(7, json.dumps(SENT).encode())) == decode(Record(json.dumps(SENT).encode())) == SENT

    def test_a_schema_is_asked_for_once(self, server: SchemaServer) -> None:
        decode = registry.decoder(server.url)
        server.requests.clear()
        assert [decode(framed(5)) for _ in range(3)] == [SENT] * 3
        assert len(server.requests) == 1

    def test_ids_of_eight_bytes_are_content_ids_if_the_reader_says_so(self, server: SchemaServer) -> None:
        sent = Record(b"\x00" + (5).to_bytes(8) + BODY)  # as AvroKafkaSerializer of Apicurio 2.6 writes it
        assert registry.decoder(server.url, content_ids=True)(sent) == SENT
        with pytest.raises(ValueError, match="if such ids are content ids, pass content_ids=True"):
            registry.decoder(server.url)(sent)

    @pytest.mark.parametrize(
        ("name", "place"),
        [
            ("Other", "00"),
            ("Other", "0200"),
            ("Impression", "0202"),
            ("Feedback", "0204"),
            ("Other.Inner", "040000"),
            ("Feedback", "0a0a08" + b"Feedback".hex()),
        ],
    )
    def test_a_message_of_protobuf_has_its_place_before_it(self, server: SchemaServer, name: str, place: str) -> None:
        classes = [proto_message(message_name) for message_name in ("Other", "Impression", "Feedback", "Other.Inner")]
        (kind,) = (message_class for message_class in classes if message_class.DESCRIPTOR.full_name == f"shop.{name}")
        sent = kind() if name == "Other" else kind(text="a") if name == "Other.Inner" else kind(user_id="u7", ts=5)
        events = registry.decoder(server.url, messages=classes)(framed(6, bytes.fromhex(place) + sent.SerializeToString()))
        assert (type(events), events) == (kind, sent)

    def test_a_message_without_a_class_is_refused(self, server: SchemaServer) -> None:
        decode = registry.decoder(server.url, messages=[proto_message("Feedback")])
        with pytest.raises(LookupError, match=r"no class for its Protobuf message \(02 02 08 05\); pass it: messages"):
            decode(framed(6, bytes.fromhex("02020805")))


class TestAvro:
    def test_a_schema_may_refer_to_others(self, server: SchemaServer) -> None:
        place = {"type": "record", "name": "shop.Place", "fields": [{"name": "page", "type": "int"}]}
        schema = {"type": "record", "name": "shop.Shown", "fields": [{"name": "place", "type": "shop.Place"}]}
        server.schemas["/subjects/place/versions/3"] = {"subject": "place", "version": 3, "id": 11, "schema": json.dumps(place)}
        server.add(10, schema, references=[{"name": "shop.Place", "subject": "place", "version": 3}])
        assert registry.decoder(server.url)(framed(10, b"\x04")) == {"place": {"page": 2}}

    def test_logical_types_are_values_of_python(self, server: SchemaServer) -> None:
        price = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
        assert decoded(server, price, avro(price, Decimal("3.50"))) == Decimal("3.50")

    @pytest.mark.parametrize("body", [BODY[:-1], BODY + b"\x00", b"", b"\xff" * 20])
    def test_bytes_that_do_not_fit_are_refused(self, server: SchemaServer, body: bytes) -> None:
        with pytest.raises((ValueError, EOFError, IndexError)):
            registry.decoder(server.url)(framed(5, body))

    @pytest.mark.parametrize(
        "items",
        ["null", {"type": "record", "name": "Nothing", "fields": []}, {"type": "fixed", "name": "None", "size": 0}],
    )
    def test_an_array_of_values_without_bytes_is_refused(self, server: SchemaServer, items: Any) -> None:
        nested = {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": ["null", {"type": "map", "values": {"type": "array", "items": items}}]}],
        }
        claims_billions = b"\x02\x02\x02k\xfe\xff\xff\xff\x0f\x00\x00"
        tracemalloc.start()
        with pytest.raises(ValueError, match="a short record could claim any number of them"):
            decoded(server, nested, claims_billions)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()

    def test_a_schema_that_contains_itself_is_refused(self, server: SchemaServer) -> None:
        with pytest.raises(ValueError, match="contains itself"):
            decoded(
                server,
                {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]},
                b"\x02" * 200_000 + b"\x00",
            )

    def test_a_type_may_be_used_twice(self, server: SchemaServer) -> None:
        place = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}
        twice = {
            "type": "record",
            "name": "R",
            "fields": [{"name": "a", "type": place}, {"name": "b", "type": {"type": "array", "items": "Place"}}],
        }
        assert decoded(server, twice, b"\x02\x02\x04\x00") == {"a": {"x": 1}, "b": [{"x": 2}]}

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(body=st.binary(max_size=60))
    def test_no_bytes_end_the_process(self, server: SchemaServer, body: bytes) -> None:
        kinds = [
            {"type": "array", "items": "string"},
            {"type": "map", "values": ["null", "double"]},
            "bytes",
            {"type": "enum", "name": "E", "symbols": ["a"]},
        ]
        schema = {"type": "record", "name": "All", "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(kinds)]}
        server.add(9, schema)
        decode = registry.decoder(server.url)
        assert len(parts_of(lambda record: [decode(record)], framed(9, body).value)) == 1

    def test_a_text_that_claims_any_length_takes_no_memory(self, server: SchemaServer) -> None:
        tracemalloc.start()
        with pytest.raises((ValueError, EOFError)):
            registry.decoder(server.url)(framed(5, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"))
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()


class TestTrouble:
    def test_an_unknown_id_is_refused_and_asked_for_once_in_a_minute(self, server: SchemaServer) -> None:
        decode = registry.decoder(server.url)
        server.requests.clear()
        for _ in range(3):
            with pytest.raises(LookupError, match="schema id 1000000 is not in the schema registry"):
                decode(framed(1_000_000))
        assert len(server.requests) == 1

    @pytest.mark.parametrize(
        ("status", "content", "words"),
        [
            (401, b'{"error_code":40101,"message":"Unauthorized"}', "answers Unauthorized (HTTP status code 401"),
            (500, b"", "answers Unknown Schema Registry Error"),
            (404, b"<html>", "answers Unknown Schema Registry Error"),
            (200, b"<html>", "does not answer: "),
        ],
    )
    def test_a_registry_that_gives_no_schema_makes_the_input_wait(
        self, server: SchemaServer, status: int, content: bytes, words: str
    ) -> None:
        decode = registry.decoder(server.url.replace("://", "://alice:secret@"))
        server.answer = (status, content)
        with pytest.raises(Later) as caught:
            decode(framed(5))
        server.answer = None
        assert f"the schema registry at {server.url} {words}" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert decode(framed(5)) == SENT

    def test_a_registry_that_is_away_makes_the_input_wait(self) -> None:
        with pytest.raises(Later, match=r"the schema registry at http://127\.0\.0\.1:1 does not answer: .*refused"):
            registry.decoder("http://127.0.0.1:1")(framed(5))

    def test_options_are_those_of_the_client(self) -> None:
        with pytest.raises(ValueError, match=r"Unrecognized properties: ssl\.ca\.place"):
            registry.decoder("http://127.0.0.1:1", ssl_ca_place="ca.pem")
