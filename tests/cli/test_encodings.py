"""Records with a schema file go through `decode`, `check-config` and the decoders of topics, without a registry."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from streammetrics.config import Settings
from streammetrics.connectors.registry.protoc import compiled
from streammetrics.errors import ConfigError, MalformedEvent
from streammetrics.events import Feedback, Impression
from streammetrics.events.encodings.schema_text import SchemaText
from streammetrics.wiring.decoders import build_decoder, build_topic_decoders, decoding_settings
from streammetrics.wiring.encodings import missing_packages, reads_headers, require_encodings
from tests.support.command_line import streammetrics
from tests.support.registry import AVRO_FEEDBACK, FEEDBACK, IMPRESSION, JSON_SCHEMA, PROTO, proto_messages

CLICK = Feedback("u7", 1732183231877, "b", "watch", 48.0, "r-81")


def avro(event: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO_FEEDBACK), event)
    return out.getvalue()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "click.avsc").write_text(json.dumps(AVRO_FEEDBACK))
    (tmp_path / "shop.proto").write_text(PROTO)
    (tmp_path / "shop.desc").write_bytes(compiled(SchemaText("PROTOBUF", PROTO)))
    (tmp_path / "event.json").write_text(json.dumps(JSON_SCHEMA))
    topics = {
        "avro": {"encoding": "avro", "schema_file": str(tmp_path / "click.avsc")},
        "framed": {"encoding": "avro", "schema_file": str(tmp_path / "click.avsc"), "frame": "confluent"},
        "proto": {"encoding": "protobuf", "schema_file": str(tmp_path / "shop.proto"), "schema_message": "shop.Feedback"},
        "desc": {"encoding": "protobuf", "schema_file": str(tmp_path / "shop.desc"), "frame": "confluent"},
        "checked": {"schema_file": str(tmp_path / "event.json")},
        "skipped": {"frame": "apicurio"},
    }
    return Settings.model_validate({"kafka": {"topics": [*topics, "plain"]}, "events": {"topics": topics}})


def test_topics_with_different_encodings_have_their_own_decoders(settings: Settings) -> None:
    messages = proto_messages(compiled(SchemaText("PROTOBUF", PROTO)))
    body = messages["Feedback"](**FEEDBACK).SerializeToString()
    text = json.dumps(FEEDBACK).encode()
    decoders = build_topic_decoders(settings, settings.kafka.topics)
    sent = {
        "avro": avro(FEEDBACK),
        "framed": b"\x00\x00\x00\x00\x07" + avro(FEEDBACK),
        "proto": body,
        "desc": b"\x00\x00\x00\x00\x07\x02\x04" + body,
        "checked": text,
        "skipped": bytes(9) + text,
        "plain": text,
    }
    assert {topic: list(decoders[topic](value)) for topic, value in sent.items()} == {topic: [CLICK] for topic in sent}
    (refused,) = decoders["checked"](b'{"type":"page"}')
    assert isinstance(refused, MalformedEvent)
    assert refused.reason == "bad_encoding"
    require_encodings(settings)


def test_without_settings_a_decoder_is_that_of_the_format() -> None:
    (found,) = build_decoder(Settings(), "any")(json.dumps(IMPRESSION).encode())
    assert isinstance(found, Impression)


def test_a_moved_schema_file_is_no_other_decoding(settings: Settings, tmp_path: Path) -> None:
    moved = json.loads(json.dumps({name: own.model_dump(exclude_none=True) for name, own in settings.events.topics.items()}))
    moved["avro"]["schema_file"] = "elsewhere.avsc"
    assert decoding_settings(Settings.model_validate({"events": {"topics": moved}})) == decoding_settings(settings)
    moved["avro"]["frame"] = "apicurio"
    assert decoding_settings(Settings.model_validate({"events": {"topics": moved}})) != decoding_settings(settings)
    assert "topics" not in decoding_settings(Settings())


@pytest.mark.parametrize(
    ("name", "content", "own", "says"),
    [
        ("a.avsc", None, {"encoding": "avro"}, "events.topics.t.schema_file = "),
        ("a.avsc", "{", {"encoding": "avro"}, "cannot be used: it is not JSON"),
        ("a.avsc", '{"type":"record"}', {"encoding": "avro"}, "not a valid Avro schema"),
        ("a.proto", "message {", {"encoding": "protobuf"}, "a.proto:1"),
        ("a.desc", "text", {"encoding": "protobuf"}, "not a valid Protobuf schema"),
        ("a.proto", PROTO, {"encoding": "protobuf", "schema_message": "shop.Nothing"}, "no message shop.Nothing; it has shop.Other"),
        ("a.json", '{"type":"nothing"}', {}, "not a valid JSON Schema"),
    ],
)
def test_a_schema_file_that_cannot_be_used_is_a_problem(
    tmp_path: Path, name: str, content: str | None, own: dict[str, str], says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    given = Settings.model_validate({"events": {"topics": {"t": {"schema_file": str(tmp_path / name), **own}}}})
    with pytest.raises(ConfigError) as caught:
        require_encodings(given)
    assert says in str(caught.value)


def test_check_config_reports_schema_files_and_missing_packages(tmp_path: Path) -> None:
    words = ("--set", "events.encoding=avro", "--set", f"events.schema_file={tmp_path / 'none.avsc'}")
    done = streammetrics("check-config", *words)
    assert done.returncode == 2
    assert "must be a file that can be read (No such file or directory)" in done.stderr
    certificate = streammetrics("check-config", "--set", "registry.url=https://registry", "--set", "registry.ssl_cafile=/nowhere")
    assert certificate.returncode == 2
    assert "registry.ssl_cafile" in certificate.stderr


def test_packages_that_a_registry_may_need_are_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Settings.model_validate({"registry": {"url": "http://registry", "check_json": True}})
    assert list(missing_packages(given)) == []
    monkeypatch.setattr("streammetrics.wiring.encodings.find_spec", lambda module: None)
    assert len(list(missing_packages(given))) == 3
    assert all("pip install 'streammetrics[registry]'" in warning for warning in missing_packages(given))
    assert list(missing_packages(Settings())) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, False),
        ({"registry": {"url": "http://r"}}, False),
        ({"registry": {"url": "http://r", "headers": True}}, True),
        ({"events": {"envelope": "cloudevents"}}, False),
        ({"events": {"envelope": "cloudevents", "format": "segment"}}, True),
        ({"kafka": {"topics": ["a"]}, "events": {"format": "segment", "topics": {"a": {"envelope": "cloudevents"}}}}, True),
    ],
)
def test_headers_are_read_only_where_they_are_needed(given: dict[str, Any], expected: bool) -> None:
    assert reads_headers(Settings.model_validate(given)) is expected


def test_replay_reads_json_records_by_their_schema(tmp_path: Path) -> None:
    (tmp_path / "event.json").write_text(json.dumps(JSON_SCHEMA))
    (tmp_path / "events.ndjson").write_text("\n".join([json.dumps(IMPRESSION), json.dumps(FEEDBACK), '{"type":"page"}']))
    done = streammetrics(
        "replay",
        str(tmp_path / "events.ndjson"),
        "--set",
        f"events.schema_file={tmp_path / 'event.json'}",
        "--dead-letters",
        str(tmp_path / "out"),
    )
    assert "matched 1" in done.stdout
    assert json.loads((tmp_path / "out").read_text())["reason"] == "bad_encoding"


def test_a_record_in_a_frame_without_a_registry_says_what_to_set(tmp_path: Path) -> None:
    value = b"\x00\x00\x00\x00\x11" + avro(FEEDBACK)
    (found,) = build_decoder(Settings())(value)
    assert isinstance(found, MalformedEvent)
    assert found.detail.endswith("it looks like a Confluent-framed record with schema id 17 (Avro or Protobuf): set registry.url")
    mapped = Settings.model_validate({"events": {"format": "segment"}})
    (found,) = build_decoder(mapped)(value)
    assert isinstance(found, MalformedEvent)
    assert "schema id 17" in found.detail
