"""Logins, TLS, `doctor`, `decode` and missing packages with a real schema registry; ids and CloudEvents in headers of a real Kafka."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, to_binary_event
from cloudevents.core.v1.event import CloudEvent
from kafka import KafkaProducer

from streammetrics.connectors.registry.client import RegistryClient, RegistryConnection, RegistryError
from streammetrics.errors import ConfigError
from streammetrics.events.encodings.frames import SchemaRef
from tests.servers.certificates import Authority
from tests.servers.kafka import KafkaBroker
from tests.servers.product import as_flags
from tests.servers.registry import SchemaRegistry
from tests.support.command_line import streammetrics
from tests.support.registry import AVRO_FEEDBACK, AVRO_IMPRESSION, FEEDBACK, IMPRESSION, OfficialSerializers
from tests.support.registry_gate import RegistryGate

BASIC = "Basic " + base64.b64encode(b"alice:open sesame").decode()


@pytest.fixture
def avro_id(schema_registry: SchemaRegistry, topic_name: str) -> str:
    return str(schema_registry.register(f"{topic_name}-value", AVRO_FEEDBACK))


LOGINS = [(BASIC, {"username": "alice", "password": "open sesame"}), ("Bearer t0ken", {"token": "t0ken"})]


@pytest.mark.parametrize(("login", "given"), LOGINS)
def test_a_login_is_sent_and_a_wrong_one_is_named(schema_registry: SchemaRegistry, avro_id: str, login: str, given: dict[str, str]) -> None:
    with RegistryGate(f"http://127.0.0.1:{schema_registry.port}", {login}) as gate:
        url = f"{gate.url}/apis/ccompat/v7"
        assert RegistryClient(RegistryConnection(url=url, **given)).fetch(SchemaRef("schema_id", avro_id, 5)).type == "AVRO"  # type: ignore[arg-type]
        for wrong in ({}, {"username": "alice", "password": "hunter2"}, {"token": "another"}):
            client = RegistryClient(RegistryConnection(url=url, **wrong))  # type: ignore[arg-type]
            with pytest.raises(RegistryError, match=r"refuses the login \(HTTP 401\); set registry\.username") as caught:
                client.fetch(SchemaRef("schema_id", avro_id, 5))
            assert "hunter2" not in str(caught.value)


def test_tls_needs_the_right_authority_and_a_client_certificate(schema_registry: SchemaRegistry, avro_id: str, tmp_path: Path) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    ref = SchemaRef("schema_id", avro_id, 5)
    target = f"http://127.0.0.1:{schema_registry.port}"
    with RegistryGate(target, {BASIC}, ours.server(), str(ours.cafile)) as gate:
        login: Any = {"url": f"{gate.url}/apis/ccompat/v7", "username": "alice", "password": "open sesame"}
        own = ours.client("worker")
        files: Any = {"ssl_cafile": str(ours.cafile), "ssl_certfile": str(own.certfile), "ssl_keyfile": str(own.locked_keyfile)}
        assert RegistryClient(RegistryConnection(**login, **files, ssl_password=ours.key_password)).fetch(ref).type == "AVRO"
        with pytest.raises(RegistryError, match="its certificate is not trusted"):
            RegistryClient(RegistryConnection(**login, ssl_cafile=str(other.cafile))).fetch(ref)
        with pytest.raises(RegistryError):
            RegistryClient(RegistryConnection(**login, ssl_cafile=str(ours.cafile))).fetch(ref)
        with pytest.raises(ConfigError, match=r"registry\.ssl_password"):
            RegistryClient(RegistryConnection(**login, **files, ssl_password="wrong"))


class Commands:
    """`doctor` and `decode` over two topics with records behind the registry."""

    def __init__(self, broker: KafkaBroker, redis_url: str, registry: SchemaRegistry, name: str) -> None:
        self.broker, self.registry = broker, registry
        self.topics = [f"{name}-shown", f"{name}-clicked"]
        for topic in (*self.topics, f"{name}-refused"):
            broker.create_topic(topic)
        self.given = {
            "kafka.bootstrap_servers": broker.bootstrap,
            "kafka.topics": ",".join(self.topics),
            "kafka.dead_letter_topic": f"{name}-refused",
            "kafka.group_id": name,
            "redis.url": redis_url,
            "redis.namespace": name,
            "http.port": "0",
            "registry.url": registry.url,
        }

    def send(self, topic: int, value: bytes, headers: Mapping[str, bytes] | None = None) -> None:
        producer = KafkaProducer(bootstrap_servers=self.broker.bootstrap)
        producer.send(self.topics[topic], value, key=b"u7", headers=list((headers or {}).items()))
        producer.flush()
        producer.close()

    def run(self, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        given = self.given | {name.replace("__", "."): value for name, value in settings.items()}
        return streammetrics(*words, *as_flags({name: value for name, value in given.items() if value}))


@pytest.fixture
def commands(kafka_broker: KafkaBroker, redis_url: str, schema_registry: SchemaRegistry, topic_name: str) -> Iterator[Commands]:
    return Commands(kafka_broker, redis_url, schema_registry, topic_name)  # type: ignore[return-value]


def test_decode_and_doctor_know_the_registry(commands: Commands) -> None:
    serializers = OfficialSerializers(commands.registry, commands.topics[0])
    sent = serializers.avro(AVRO_IMPRESSION, IMPRESSION)
    commands.send(0, sent)
    commands.send(1, OfficialSerializers(commands.registry, commands.topics[1]).avro(AVRO_FEEDBACK, FEEDBACK))
    number = int.from_bytes(sent[1:5])

    shown = commands.run("decode", commands.topics[0])
    assert shown.returncode == 0, shown.stderr
    assert "list r-81 of [a, b, c], ranker-v7=treatment, user u7" in shown.stdout
    suggested = commands.run("decode", commands.topics[1], "--suggest")
    assert suggested.stdout == "# 1 record read, and all are lists or feedback already: no mapping is needed.\n"

    without = commands.run("decode", commands.topics[0], registry__url="")
    assert without.returncode == 1
    assert f"it looks like a Confluent-framed record with schema id {number} (Avro or Protobuf): set registry.url" in without.stdout

    sound = commands.run("doctor")
    assert f"Schema registry at {commands.registry.url}\n  ok    answers, with no login" in sound.stdout
    assert f"topic {commands.topics[0]}: schemas of recent records: schema id {number} (1)" in sound.stdout
    assert f"topic {commands.topics[0]}: 1 of 1 recent record usable: 1 list" in sound.stdout

    commands.registry.hang()
    away = commands.run("doctor")
    assert away.returncode == 1
    assert f"fail  the schema registry at {commands.registry.url} does not answer" in away.stdout
    assert f"topic {commands.topics[0]}: its records were not checked: the schema registry at" in away.stdout
    decoded = commands.run("decode", commands.topics[0], registry__timeout_ms="500")
    assert (decoded.returncode, decoded.stdout) == (1, "")
    assert "does not answer" in decoded.stderr
    commands.registry.resume()


def test_an_unknown_schema_id_is_shown(commands: Commands) -> None:
    commands.send(0, b"\x00\x00\x0f\x42\x41rest")
    shown = commands.run("decode", commands.topics[0])
    assert shown.returncode == 1
    assert "refused as unknown_schema: schema id 1000001 is not in the schema registry at" in shown.stdout


def test_a_wrong_address_drops_nothing_and_is_named(commands: Commands) -> None:
    commands.send(0, b"\x00\x00\x0f\x42\x41rest")
    wrong = commands.run("decode", commands.topics[0], registry__url=f"http://127.0.0.1:{commands.registry.port}/api")
    assert wrong.returncode == 1
    assert "is no schema registry (HTTP 404); correct registry.url" in wrong.stderr


def test_ids_in_headers_are_read(commands: Commands) -> None:
    number = commands.registry.register(f"{commands.topics[1]}-value", AVRO_FEEDBACK)
    body = OfficialSerializers(commands.registry, commands.topics[1]).avro(AVRO_FEEDBACK, FEEDBACK)[5:]
    commands.send(1, body, {"apicurio.value.globalId": number.to_bytes(8), "apicurio.value.encoding": b"BINARY"})
    shown = commands.run("decode", commands.topics[1], registry__headers="true")
    assert "feedback watch = 48 on b in list r-81, user u7" in shown.stdout


def test_cloudevents_in_binary_mode_give_their_attributes_to_mappings(commands: Commands) -> None:
    attributes = {"id": "1", "source": "/shop", "type": "com.shop.click", "specversion": "1.0", "subject": "u7"}
    message: KafkaMessage = to_binary_event(CloudEvent(attributes, {"sku": "b", "at": 1732183231877}))
    commands.send(1, bytes(message.value or b""), message.headers)
    mapping = {
        "kind": "feedback",
        "when": {"ce.type": "com.shop.click"},
        "user_id": "ce.subject",
        "ts": "at",
        "item_id": "sku",
        "action": {"value": "click"},
    }
    settings = {"events__envelope": "cloudevents", "events__mappings": json.dumps([mapping])}
    shown = commands.run("decode", commands.topics[1], **settings)
    assert "feedback click on b in any list, user u7" in shown.stdout, shown


def test_a_missing_package_ends_the_process_with_the_line_for_pip(commands: Commands, tmp_path: Path) -> None:
    (tmp_path / "fastavro.py").write_text("raise ImportError('not installed')\n")
    commands.send(0, OfficialSerializers(commands.registry, commands.topics[0]).avro(AVRO_IMPRESSION, IMPRESSION))
    command = [sys.executable, "-m", "streammetrics", "run", *as_flags(commands.given)]
    around = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, env=around, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert "Avro needs the package fastavro: pip install 'streammetrics[avro]'" in done.stderr
