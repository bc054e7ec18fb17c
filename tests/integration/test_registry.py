"""Avro, Protobuf and JSON behind a real schema registry, read by a reader, through a real Kafka and a real Redis, to exact numbers."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from streammetrics.errors import MalformedEvent
from streammetrics.events import EventLimits, Feedback, Impression, native_decoder
from streammetrics.readers import Later, Record, registry
from tests.support.command_line import streammetrics
from tests.support.native_json import native_json
from tests.support.real_pipeline import Pipeline, Service, start_ms
from tests.support.registry import (
    AVRO_FEEDBACK,
    AVRO_IMPRESSION,
    FEEDBACK,
    IMPRESSION,
    JSON_SCHEMA,
    PROTO_FILE,
    OfficialSerializers,
    proto_message,
)
from tests.support.registry_gate import RegistryGate
from tests.tools.servers.certificates import Authority
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.product import as_flags
from tests.tools.servers.redis import RedisServer
from tests.tools.servers.registry import SchemaRegistry

JOIN = {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000, "support_users": 1}
Write = Callable[[dict[str, Any]], bytes]

native = native_decoder(EventLimits())

READER = """
from google.protobuf import descriptor_pool, message_factory

from streammetrics.readers import registry

pool = descriptor_pool.DescriptorPool()
pool.AddSerializedFile({file!r})
Feedback = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Feedback"))
decode = registry.decoder({url!r}, timeout=0.5, messages=[Feedback])


def read(record):
    event = decode(record)
    if isinstance(event, Feedback):
        event = {{field.name: value for field, value in event.ListFields()}}
    yield event
"""


def reader_file(folder: Path, url: str) -> Path:
    """Write a reader of native events behind the registry. The first lines of its Protobuf part are what protoc generates."""
    file = folder / "reader.py"
    file.write_text(READER.format(url=url, file=PROTO_FILE), encoding="utf-8")
    return file


class EncodedPipeline(Pipeline):
    """A pipeline whose records are encoded. What each must become is known from the event that it was made from."""

    def __init__(self, broker: KafkaBroker, redis_url: str, name: str, registry_url: str, folder: Path) -> None:
        sections: dict[str, dict[str, object]] = {"join": JOIN, "events": {"reader": f"{reader_file(folder, registry_url)}:read"}}
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
def pipeline(
    kafka_broker: KafkaBroker, redis_url: str, topic_name: str, schema_registry: SchemaRegistry, tmp_path: Path
) -> EncodedPipeline:
    return EncodedPipeline(kafka_broker, redis_url, topic_name, schema_registry.url, tmp_path)


def fields_of(event: Impression | Feedback) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(native_json(event))
    return document


def lists(first: int, count: int) -> list[Impression]:
    return [
        Impression(f"r{number}", f"u{number % 40}", start_ms() + 1_000 * number, (f"a{number}", "b", "c"), (("ranker", f"v{number % 2}"),))
        for number in range(first, first + count)
    ]


def clicks(impressions: Sequence[Impression], action: str = "click") -> list[Feedback]:
    return [
        Feedback(impression.user_id, impression.ts + 5, impression.items[1], action, None, impression.impression_id)
        for impression in impressions
    ]


class Writers:
    """The official serializers for the topics of a pipeline, each for one kind of schema."""

    def __init__(self, registry: SchemaRegistry, pipeline: EncodedPipeline) -> None:
        list_serializers, clicked = (OfficialSerializers(registry, topic) for topic in pipeline.topics)
        serializers = OfficialSerializers(registry, f"{pipeline.name}-json")
        proto = OfficialSerializers(registry, f"{pipeline.name}-proto")
        feedback = proto_message("Feedback")
        self.avro_list: Write = lambda event: list_serializers.avro(AVRO_IMPRESSION, event)
        self.avro_click: Write = lambda event: clicked.avro(AVRO_FEEDBACK, event)
        self.json_click: Write = lambda event: serializers.json(JSON_SCHEMA, event)
        self.proto_click: Write = lambda event: proto.protobuf(
            feedback(**{name: value for name, value in event.items() if value is not None})
        )
        self.wider_list: Write = lambda event: list_serializers.avro(WIDER_IMPRESSION, {**event, "page": 2})


WIDER_IMPRESSION = {**AVRO_IMPRESSION, "fields": [*AVRO_IMPRESSION["fields"], {"name": "page", "type": ["null", "int"], "default": None}]}  # type: ignore[misc]


def answers(service: Service, path: str, status: int, *texts: str) -> bool:
    answer = service.get(path)
    return answer.status == status and all(text in answer.text for text in texts)


def test_all_encodings_and_a_schema_that_evolves_give_exact_numbers(pipeline: EncodedPipeline, schema_registry: SchemaRegistry) -> None:
    write = Writers(schema_registry, pipeline)
    first, second = lists(0, 80), lists(80, 40)
    click_writers = (write.avro_click, write.proto_click, write.json_click, lambda event: json.dumps(event).encode())
    with pipeline.service() as service:
        pipeline.send([(0, impression, write.avro_list(fields_of(impression))) for impression in first])
        pipeline.send([(1, click, click_writers[at % 4](fields_of(click))) for at, click in enumerate(clicks(first))])
        good = write.avro_list(fields_of(first[0]))
        unknown = b"\x00\x00\x0f\x42\x40" + good[5:]
        for damaged in (unknown, good[:-2], good + b"\x01"):
            pipeline.send_refused(0, damaged, "reader")
        pipeline.send_refused(1, b"\x00\x00\x00", "bad_json")
        pipeline.send([(0, impression, write.wider_list(fields_of(impression))) for impression in second])
        pipeline.send([(1, click, write.avro_click(fields_of(click))) for click in clicks(second)])
        pipeline.send_ends()
        pipeline.assert_exact()
        letters = {value: headers for headers, value in pipeline.letters()}
        assert sorted(headers["reason"] for headers in letters.values()) == ["bad_json", "reader", "reader", "reader"]
        assert "LookupError: schema id 1000000 is not in the schema registry, reader.py:" in letters[unknown]["detail"]
        assert service.sample("streammetrics_readers_up") == 1
        assert answers(service, "/readyz", 200, "ok")


def test_a_registry_that_hangs_pauses_an_input_and_drops_nothing(
    kafka_broker: KafkaBroker, topic_name: str, schema_registry: SchemaRegistry, tmp_path: Path
) -> None:
    with RedisServer() as redis:
        pipeline = EncodedPipeline(kafka_broker, redis.url, topic_name, schema_registry.url, tmp_path)
        write = Writers(schema_registry, pipeline)
        first, second = lists(0, 60), lists(60, 60)
        later = [(0, impression, write.wider_list(fields_of(impression))) for impression in second]
        later += [(1, click, write.proto_click(fields_of(click))) for click in clicks(second)]
        behind = [
            (0, impression, write.avro_list(fields_of(impression))) for impression in lists(120, 4)
        ]  # a known schema, after an unknown one
        clicked = [(1, click, write.avro_click(fields_of(click))) for click in clicks(first)]
        with pipeline.service() as service:
            pipeline.send([(0, impression, write.avro_list(fields_of(impression))) for impression in first])
            pipeline.send(clicked)
            wait_until(lambda: pipeline.committed() == 120, what="the first records are committed")
            schema_registry.hang()
            pipeline.send(later)
            wait_until(
                lambda: answers(service, "/readyz", 503, "reader: ", "waits: the schema registry at http://127.0.0.1:", "does not answer"),
                what="/readyz names the registry",
            )
            assert answers(service, "/healthz", 200, "ok")
            assert service.sample("streammetrics_readers_up") == 0
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
            wait_until(lambda: service.sample("streammetrics_readers_up") == 1, what="the page says that the registry is up")


def test_a_restart_during_an_outage_loses_nothing(pipeline: EncodedPipeline, schema_registry: SchemaRegistry) -> None:
    write = Writers(schema_registry, pipeline)
    impressions = lists(0, 40)
    pipeline.send([(0, impression, write.avro_list(fields_of(impression))) for impression in impressions])
    pipeline.send([(1, click, write.proto_click(fields_of(click))) for click in clicks(impressions)])
    schema_registry.hang()
    service = pipeline.service()
    try:
        service.launch()
        wait_until(lambda: refused(service, "reader: "), what="/readyz names the registry")
        service.kill()
        service.launch()
        wait_until(lambda: refused(service, "reader: "), what="/readyz names the registry again")
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


BASIC = "Basic " + base64.b64encode(b"alice:open sesame").decode()


def framed(registry: SchemaRegistry, subject: str) -> Record:
    return Record(OfficialSerializers(registry, subject).avro(AVRO_FEEDBACK, FEEDBACK))


@pytest.mark.parametrize(
    ("login", "given"),
    [
        (BASIC, {"basic_auth_user_info": "alice:open sesame"}),
        (
            "Bearer t0ken",
            {
                "bearer_auth_credentials_source": "STATIC_TOKEN",
                "bearer_auth_token": "t0ken",
                "bearer_auth_logical_cluster": "lsrc-1",
                "bearer_auth_identity_pool_id": "pool-1",
            },
        ),
    ],
)
def test_a_login_is_sent_and_a_wrong_one_is_named(
    schema_registry: SchemaRegistry, topic_name: str, login: str, given: dict[str, str]
) -> None:
    record = framed(schema_registry, topic_name)
    with RegistryGate(f"http://127.0.0.1:{schema_registry.port}", {login}) as gate:
        url = f"{gate.url}/apis/ccompat/v7"
        assert registry.decoder(url, **given)(record) == FEEDBACK
        for wrong in ({}, {"basic_auth_user_info": "alice:hunter2"}):
            with pytest.raises(Later, match=r"answers Unauthorized \(HTTP status code 401") as caught:
                registry.decoder(url, **wrong)(record)
            assert "hunter2" not in str(caught.value)


def test_tls_needs_the_right_authority_and_a_client_certificate(schema_registry: SchemaRegistry, topic_name: str, tmp_path: Path) -> None:
    ours, other, record = Authority(tmp_path / "ours"), Authority(tmp_path / "other"), framed(schema_registry, topic_name)
    with RegistryGate(f"http://127.0.0.1:{schema_registry.port}", {BASIC}, ours.server(), str(ours.cafile)) as gate:
        url, login, client = f"{gate.url}/apis/ccompat/v7", {"basic_auth_user_info": "alice:open sesame"}, ours.client("worker")
        files = {"ssl_certificate_location": str(client.certfile), "ssl_key_location": str(client.keyfile)}
        assert registry.decoder(url, ssl_ca_location=str(ours.cafile), **files, **login)(record) == FEEDBACK
        with pytest.raises(Later, match=r"(?i)certificate verify failed"):
            registry.decoder(url, ssl_ca_location=str(other.cafile), **login)(record)
        with pytest.raises(Later):
            registry.decoder(url, ssl_ca_location=str(ours.cafile), **login)(record)


def test_decode_and_doctor_know_what_a_reader_reads_and_why_it_waits(
    pipeline: EncodedPipeline, schema_registry: SchemaRegistry, redis_url: str
) -> None:
    given = {
        "kafka.bootstrap_servers": pipeline.broker.bootstrap,
        "kafka.topics": ",".join(pipeline.topics),
        "kafka.dead_letter_topic": pipeline.dead_letters,
        "kafka.group_id": pipeline.name,
        "redis.url": redis_url,
        "redis.namespace": pipeline.name,
        "http.port": "0",
        "events.reader": str(pipeline.sections["events"]["reader"]),
    }
    with pipeline.producer() as producer:
        producer.send(
            pipeline.topics[0], OfficialSerializers(schema_registry, pipeline.topics[0]).avro(AVRO_IMPRESSION, IMPRESSION), key=b"u7"
        )
    flags = as_flags(given)
    done = streammetrics("decode", pipeline.topics[0], *flags)
    assert done.returncode == 0, done.stderr
    assert "list r-81 of [a, b, c], ranker-v7=treatment, user u7" in done.stdout
    assert f"topic {pipeline.topics[0]}: 1 of 1 recent record usable: 1 list" in streammetrics("doctor", *flags).stdout
    schema_registry.hang()
    try:
        away = streammetrics("doctor", *flags)
        assert away.returncode == 1
        assert "the schema registry at http://127.0.0.1:" in away.stdout
        decoded = streammetrics("decode", pipeline.topics[0], *flags)
        assert (decoded.returncode, decoded.stdout) == (1, "")
        assert "does not answer" in decoded.stderr
    finally:
        schema_registry.resume()
