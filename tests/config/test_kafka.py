"""Tests of the settings of Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from streammetrics.errors import Problem
from tests.support.settings import SASL, by_flags, problem_of, problems_of
from tests.support.tables import for_each


@for_each(["kafka", "kafka:", "kafka:0", "kafka:65536", "http://kafka:9092", "::1:9092", "user@kafka:1", "a b:1", ":1", "a\x00:1"])
def test_a_server_without_host_and_port_is_rejected(server: Any) -> None:
    problem = problem_of(kafka__bootstrap_servers=["ok:9092", server])
    assert problem.key == "kafka.bootstrap_servers"
    assert "host:port" in problem.allowed


@pytest.mark.parametrize("server", ["kafka..internal:9092", ".kafka:9092", f"{64 * 'a'}:9092"])
def test_a_server_that_cannot_be_looked_up_is_rejected(server):
    problem = problem_of(kafka__bootstrap_servers=[server])
    assert "a part of the host's name is empty or too long" in problem.allowed


def test_servers_can_be_names_or_addresses():
    servers = ("kafka:1", "10.0.0.1:65535", "[::1]:9092")
    assert by_flags({"kafka.bootstrap_servers": list(servers)}).settings.kafka.bootstrap_servers == servers


@for_each(["", [], "a,,b", "a,a", [".."], ["a b"], ["ä"], ["x" * 250], ["a\n"], [1], '["a"', {"a": 1}])
def test_topics_must_be_distinct_valid_names(topics: Any) -> None:
    assert problem_of(kafka__topics=topics).key == "kafka.topics"


def test_the_dead_letter_topic_must_not_be_an_input_topic():
    problem = problem_of(kafka__dead_letter_topic="feedback")
    assert (problem.key, problem.value) == ("kafka.dead_letter_topic", "feedback")


@pytest.mark.parametrize("missing", ["sasl_mechanism", "sasl_username", "sasl_password"])
def test_sasl_requires_mechanism_user_and_password(missing):
    assert by_flags(SASL).settings.kafka.sasl_username == "sm"
    (problem,) = problems_of(flags={key: value for key, value in SASL.items() if key != f"kafka.{missing}"})
    assert problem == Problem(f"kafka.{missing}", "(empty)", "is required with security_protocol SASL_SSL", "default")


def test_all_missing_sasl_settings_are_reported_together():
    assert len(problems_of(flags={"kafka.security_protocol": "SASL_PLAINTEXT"})) == 3


OAUTH = {"kafka.security_protocol": "SASL_SSL", "kafka.sasl_mechanism": "OAUTHBEARER"}
PROVIDER = {"kafka.sasl_oauth_token_provider": "tokens:Endpoint"}


def test_oauth_needs_a_class_and_no_password():
    loaded = by_flags(OAUTH | PROVIDER)
    assert loaded.settings.kafka.sasl_oauth_token_provider == "tokens:Endpoint"
    assert loaded.warnings == ()
    (problem,) = problems_of(flags=OAUTH)
    assert (problem.key, problem.allowed) == ("kafka.sasl_oauth_token_provider", "is required with sasl_mechanism OAUTHBEARER")


def test_a_class_without_oauth_is_named():
    (warning,) = by_flags(SASL | PROVIDER).warnings
    assert warning == "kafka.sasl_oauth_token_provider: ignored, because kafka.sasl_mechanism is not OAUTHBEARER"


@pytest.mark.parametrize("name", ["tokens", "tokens:", ":Endpoint", "tokens.Endpoint", "tokens:End point", "a-b:Endpoint"])
def test_another_name_of_a_class_is_rejected(name):
    problem = problem_of(kafka__sasl_oauth_token_provider=name)
    assert (problem.key, problem.allowed) == ("kafka.sasl_oauth_token_provider", "must be module:Class, or empty for none")


def test_aws_needs_tls_and_no_password():
    aws = {"kafka.sasl_mechanism": "AWS_MSK_IAM"}
    assert by_flags(aws | {"kafka.security_protocol": "SASL_SSL"}).warnings == ()
    (problem,) = problems_of(flags=aws | {"kafka.security_protocol": "SASL_PLAINTEXT"})
    assert (problem.key, problem.allowed) == ("kafka.security_protocol", "must be SASL_SSL with sasl_mechanism AWS_MSK_IAM")


def test_a_client_key_requires_its_certificate():
    (problem,) = problems_of(flags={"kafka.ssl_keyfile": "/key.pem"})
    assert problem.key == "kafka.ssl_certfile"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka.sasl_username": "u", "kafka.ssl_cafile": "/ca"}, ["kafka.sasl_username: ignored", "kafka.ssl_cafile: ignored"]),
        ({**SASL, "kafka.security_protocol": "SSL"}, ["kafka.sasl_mechanism, kafka.sasl_username, kafka.sasl_password: ignored"]),
        ({**SASL, "kafka.ssl_cafile": "/ca"}, []),
    ],
)
def test_unused_or_risky_settings_are_warnings(given, expected):
    warnings = by_flags(given).warnings
    assert len(warnings) == len(expected)
    assert all(warning.startswith(start) for warning, start in zip(warnings, expected, strict=True))
