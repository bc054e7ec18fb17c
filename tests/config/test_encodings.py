"""Settings of the registry, of encodings, and of single topics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streammetrics.config import Settings
from tests.support.settings import SECRET, by_flags, problems_of


def of_topic(topic: str, **flags: object) -> Any:
    return by_flags({key.replace("__", "."): value for key, value in flags.items()}).settings.events.of_topic(topic)


class TestRegistry:
    @pytest.mark.parametrize(
        "url", ["http://registry:8081", "https://registry/apis/ccompat/v7", "http://[::1]:8081/", "http://127.0.0.1:1"]
    )
    def test_an_address_is_taken_as_it_is(self, url: str) -> None:
        assert by_flags({"registry.url": url}).settings.registry.url == url

    @pytest.mark.parametrize(
        ("url", "says"),
        [
            ("registry:8081", "http:// or https://"),
            ("ftp://registry", "http:// or https://"),
            ("http://", "a host"),
            ("http://registry?x=1", "a host"),
            ("http://registry:port", "not a URL"),
            ("http://alice:hunter2@registry", "set registry.username and registry.password"),
        ],
    )
    def test_any_other_address_is_a_problem(self, url: str, says: str) -> None:
        (problem,) = problems_of(flags={"registry.url": url})
        assert (problem.key, "hunter2" in problem.allowed) == ("registry.url", False)
        assert says in problem.allowed

    @pytest.mark.parametrize("token", ["t0k\nen", "tök"])
    def test_a_token_that_no_header_can_have_is_a_problem(self, token: str) -> None:
        (problem,) = problems_of(flags={"registry.url": "http://r", "registry.token": token})
        assert (problem.key, problem.value) == ("registry.token", "***")

    def test_two_logins_contradict_each_other(self) -> None:
        (problem,) = problems_of(flags={"registry.url": "http://r", "registry.token": "t0ken", "registry.username": "a"})
        assert (problem.key, "t0ken" in str(problem)) == ("registry.token", False)

    @pytest.mark.parametrize(
        ("flags", "warning"),
        [
            ({"registry.username": "a"}, "registry.url is empty"),
            ({"registry.url": "http://registry", "registry.token": "t0ken"}, "sent to registry unencrypted"),
            ({"registry.url": "http://127.0.0.1.shop.test", "registry.token": "t0ken"}, "sent to 127.0.0.1.shop.test unencrypted"),
            ({"registry.url": "http://127.0.0.1:1", "registry.password": SECRET}, "registry.password: ignored"),
        ],
    )
    def test_what_is_probably_not_intended_is_a_warning(self, flags: dict[str, object], warning: str) -> None:
        assert [warning in text for text in by_flags(flags).warnings] == [True]

    def test_a_login_to_this_machine_or_over_tls_is_no_warning(self) -> None:
        for url in ("https://registry", "http://localhost:1", "http://127.0.0.1:1"):
            assert by_flags({"registry.url": url, "registry.username": "a", "registry.password": SECRET}).warnings == ()


class TestTopics:
    TOPICS = json.dumps({"clicks": {"encoding": "avro", "schema_file": "c.avsc"}, "shown": {"format": "segment", "envelope": "debezium"}})

    def test_a_topic_has_its_own_settings_and_otherwise_those_of_all(self) -> None:
        flags = {"events__topics": self.TOPICS, "events__envelope": "connect", "events__format": "ubi"}
        clicks, shown, other = (of_topic(topic, **flags) for topic in ("clicks", "shown", "other"))
        assert (clicks.encoding, clicks.schema_file, clicks.envelope, clicks.format) == ("avro", "c.avsc", "connect", "ubi")
        assert (shown.encoding, shown.envelope, shown.format) == ("json", "debezium", "segment")
        assert (other.encoding, other.envelope, other.format) == ("json", "connect", "ubi")

    def test_a_file_has_the_topic_that_its_name_begins_with(self) -> None:
        assert of_topic("logs/shown.2026.ndjson.gz", events__topics=self.TOPICS).format == "segment"

    @pytest.mark.parametrize(
        ("topics", "says"),
        [
            ({"a": {"encoding": "avro"}}, "a: schema_file: encoding = avro needs schema_file, or set registry.url"),
            ({"a": {"frame": "single_object", "schema_file": "x"}}, "a: frame: single_object is a form of Avro"),
            ({"a": {"schema_message": "M"}}, "a: schema_message: names a message of Protobuf"),
            (
                {"a": {"encoding": "protobuf", "schema_file": "x", "frame": "confluent", "schema_message": "M"}},
                "the frame of each record names",
            ),
            ({"a": {"encode": "avro"}}, "did you mean encoding?"),
            ({"a": {"format": "segments"}}, "a.format"),
            ({"a": 1}, "a: must be a table"),
            ({"": {}}, "must not be empty"),
        ],
    )
    def test_problems_name_the_topic(self, topics: dict[str, object], says: str) -> None:
        found = problems_of(flags={"events.topics": json.dumps(topics)})
        assert {problem.key for problem in found} == {"events.topics"}
        assert any(says in problem.allowed for problem in found), found

    def test_the_encoding_of_all_topics_is_checked_too(self) -> None:
        assert [problem.key for problem in problems_of(flags={"events.encoding": "protobuf"})] == ["events.schema_file"]


def test_a_toml_file_has_a_table_for_each_topic(tmp_path: Path) -> None:
    from tests.support.settings import configured  # noqa: PLC0415

    text = '[events.topics.clicks]\nencoding = "avro"\nschema_file = "c.avsc"\n'
    assert configured(tmp_path, text).settings.events.of_topic("clicks").schema_file == "c.avsc"


def test_nothing_is_encoded_by_default() -> None:
    events = Settings().events
    assert (events.encoding, events.frame, events.schema_file, Settings().registry.url) == ("json", "none", None, None)
