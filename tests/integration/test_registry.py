"""Avro, Protobuf and JSON behind a real schema registry, through a real Kafka and a real Redis, to the numbers of plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from streammetrics.connectors.registry.protoc import compiled
from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, Feedback, Impression, native_decoder
from streammetrics.events.encodings.schema_text import SchemaText
from tests.servers.kafka import KafkaBroker
from tests.servers.process import wait_until
from tests.servers.redis import RedisServer
from tests.servers.registry import SchemaRegistry
from tests.support.native_json import native_json
from tests.support.real_pipeline import Pipeline, Service, start_ms
from tests.support.registry import AVRO_FEEDBACK, AVRO_IMPRESSION, JSON_SCHEMA, PROTO, OfficialSerializers, proto_messages

JOIN = {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000, "support_users": 1}
Write = Callable[[dict[str, Any]], bytes]

native = native_decoder(EventLimits())


class EncodedPipeline(Pipeline):
    """A pipeline whose records are encoded. What each must become is known from the event that it was made from."""

    def __init__(self, broker: KafkaBroker, redis_url: str, name: str, registry_url: str) -> None:
        sections: dict[str, dict[str, object]] = {"join": JOIN, "registry": {"url": registry_url, "timeout_ms": 500}}
        super().__init__(broker, redis_url, name, ["shown", "clicked"], **sections)
        self.known: dict[bytes, Sequence[Any]] = {}
        self.decode = lambda value: self.known[value or b""]  # type: ignore[assignment]

    def send(self, records: Sequence[tuple[int, Impression | Feedback, bytes]]) -> None:
        """Send encoded events to the topics with these indexes."""
        with self.producer() as producer:
            for topic, event, value in records:
                self.known[value] = native(native_json(event))
                producer.send(self.topics[topic], value, key=event.user_id.encode(), timestamp_ms=event.ts)

    def send_refused(self, topic: int, value: bytes, reason: str) -> None:
        self.known[value] = (MalformedEvent(reason, ""),)
        with self.producer() as producer:
            producer.send(self.topics[topic], value, key=b"nobody", timestamp_ms=start_ms())

    def send_ends(self) -> None:
        """End all sessions, so that the numbers are complete. These events are plain JSON."""
        before = {kept.value for kept in self.records()}
        self.write_ends(start_ms() + 3_600_000)
        self.known |= {kept.value: native(kept.value) for kept in self.records() if kept.value is not None and kept.value not in before}


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_url: str, topic_name: str, schema_registry: SchemaRegistry) -> EncodedPipeline:
    return EncodedPipeline(kafka_broker, redis_url, topic_name, schema_registry.url)


def fields_of(event: Impression | Feedback) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(native_json(event))
    return found


def lists(first: int, count: int) -> list[Impression]:
    return [
        Impression(f"r{number}", f"u{number % 40}", start_ms() + 1_000 * number, (f"a{number}", "b", "c"), (("ranker", f"v{number % 2}"),))
        for number in range(first, first + count)
    ]


def clicks(shown: Sequence[Impression], action: str = "click") -> list[Feedback]:
    return [Feedback(each.user_id, each.ts + 5, each.items[1], action, None, each.impression_id) for each in shown]


class Writers:
    """The official serializers for the topics of a pipeline, each for one kind of schema."""

    def __init__(self, registry: SchemaRegistry, pipeline: EncodedPipeline) -> None:
        shown, clicked = (OfficialSerializers(registry, topic) for topic in pipeline.topics)
        own = OfficialSerializers(registry, f"{pipeline.name}-json")
        proto = OfficialSerializers(registry, f"{pipeline.name}-proto")
        self.messages = proto_messages(compiled(SchemaText("PROTOBUF", PROTO)))
        self.avro_list: Write = lambda event: shown.avro(AVRO_IMPRESSION, event)
        self.avro_click: Write = lambda event: clicked.avro(AVRO_FEEDBACK, event)
        self.json_click: Write = lambda event: own.json(JSON_SCHEMA, event)
        self.proto_click: Write = lambda event: proto.protobuf(self.messages["Feedback"](**event))
        self.wider_list: Write = lambda event: shown.avro(WIDER_IMPRESSION, {**event, "page": 2})


WIDER_IMPRESSION = {**AVRO_IMPRESSION, "fields": [*AVRO_IMPRESSION["fields"], {"name": "page", "type": ["null", "int"], "default": None}]}  # type: ignore[misc]


def answers(service: Service, path: str, status: int, *texts: str) -> bool:
    answer = service.get(path)
    return answer.status == status and all(text in answer.text for text in texts)


def test_all_encodings_and_a_schema_that_evolves_give_exact_numbers(pipeline: EncodedPipeline, schema_registry: SchemaRegistry) -> None:
    write = Writers(schema_registry, pipeline)
    first, second = lists(0, 80), lists(80, 40)
    click_writers = (write.avro_click, write.proto_click, write.json_click, lambda event: json.dumps(event).encode())
    with pipeline.service() as service:
        pipeline.send([(0, each, write.avro_list(fields_of(each))) for each in first])
        pipeline.send([(1, each, click_writers[at % 4](fields_of(each))) for at, each in enumerate(clicks(first))])
        good = write.avro_list(fields_of(first[0]))
        pipeline.send_refused(0, b"\x00\x00\x0f\x42\x40" + good[5:], "unknown_schema")
        pipeline.send_refused(0, good[:-2], "bad_encoding")
        pipeline.send_refused(0, good + b"\x01", "bad_encoding")
        pipeline.send_refused(1, b"\x00\x00\x00", "bad_json")
        pipeline.send([(0, each, write.wider_list(fields_of(each))) for each in second])
        pipeline.send([(1, each, write.avro_click(fields_of(each))) for each in clicks(second)])
        pipeline.send_ends()
        pipeline.assert_exact()
        letters = {headers["reason"]: (headers, value) for headers, value in pipeline.letters()}
        assert letters.keys() == {"unknown_schema", "bad_encoding", "bad_json"}
        headers, value = letters["unknown_schema"]
        assert "schema id 1000000 is not in the schema registry" in headers["detail"]
        assert value == b"\x00\x00\x0f\x42\x40" + good[5:]
        assert service.sample("streammetrics_registry_up") == 1
        assert answers(service, "/readyz", 200, "ok")


def test_a_registry_that_hangs_pauses_an_input_and_drops_nothing(
    kafka_broker: KafkaBroker, topic_name: str, schema_registry: SchemaRegistry
) -> None:
    with RedisServer() as redis:
        pipeline = EncodedPipeline(kafka_broker, redis.url, topic_name, schema_registry.url)
        write = Writers(schema_registry, pipeline)
        first, second = lists(0, 60), lists(60, 60)
        later = [(0, each, write.wider_list(fields_of(each))) for each in second]
        later += [(1, each, write.proto_click(fields_of(each))) for each in clicks(second)]
        behind = [(0, each, write.avro_list(fields_of(each))) for each in lists(120, 4)]  # a known schema, after an unknown one
        clicked = [(1, each, write.avro_click(fields_of(each))) for each in clicks(first)]
        with pipeline.service() as service:
            pipeline.send([(0, each, write.avro_list(fields_of(each))) for each in first])
            pipeline.send(clicked)
            wait_until(lambda: pipeline.committed() == 120, what="the first records are committed")
            schema_registry.hang()
            pipeline.send(later)
            wait_until(
                lambda: answers(service, "/readyz", 503, "registry: the schema registry at http://127.0.0.1:", "does not answer"),
                what="/readyz names the registry",
            )
            assert answers(service, "/healthz", 200, "ok")
            assert service.sample("streammetrics_registry_up") == 0
            assert (service.sample("streammetrics_source_up"), service.sample("streammetrics_store_up")) == (1, 1)
            pipeline.send(behind)
            redis.kill()
            redis.start()
            assert pipeline.committed() == 120
            schema_registry.resume()
            service.wait_ready()
            pipeline.send_ends()
            pipeline.assert_exact()
            assert pipeline.letters() == []
            wait_until(lambda: service.sample("streammetrics_registry_up") == 1, what="the page says that the registry is up")
            events = [line["event"] for line in map(json.loads, service.log.splitlines())]
            assert events.count("schema registry unavailable, trying again; inputs wait for it") == 1
            assert events.count("schema registry available again") == 1


def test_a_restart_during_an_outage_loses_nothing(pipeline: EncodedPipeline, schema_registry: SchemaRegistry) -> None:
    write = Writers(schema_registry, pipeline)
    shown = lists(0, 40)
    pipeline.send([(0, each, write.avro_list(fields_of(each))) for each in shown])
    pipeline.send([(1, each, write.proto_click(fields_of(each))) for each in clicks(shown)])
    schema_registry.hang()
    service = pipeline.service()
    try:
        service.launch()
        wait_until(lambda: refused(service, "registry: "), what="/readyz names the registry")
        service.kill()
        service.launch()
        wait_until(lambda: refused(service, "registry: "), what="/readyz names the registry again")
        schema_registry.resume()
        service.wait_ready()
        pipeline.send_ends()
        pipeline.assert_exact()
        assert pipeline.letters() == []
    finally:
        service.close()


def refused(service: Service, text: str) -> bool:
    try:
        return answers(service, "/readyz", 503, text)
    except OSError:
        return False
