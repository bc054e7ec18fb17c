"""Tests of the settings of Kafka, Redis and the HTTP port."""

from __future__ import annotations

import pytest

from streammetrics.errors import Problem
from streammetrics.exporters.http.views import STUCK_SECONDS
from tests.support.settings import PASSWORD_HASH, SASL, SECRET, by_flags, problem_of, problems_of


@pytest.mark.parametrize(
    "server", ["kafka", "kafka:", "kafka:0", "kafka:65536", "http://kafka:9092", "::1:9092", "user@kafka:1", "a b:1", ":1", "a\x00:1"]
)
def test_a_server_without_host_and_port_is_rejected(server):
    problem = problem_of(kafka__bootstrap_servers=["ok:9092", server])
    assert problem.key == "kafka.bootstrap_servers"
    assert "host:port" in problem.allowed


def test_servers_can_be_names_or_addresses():
    servers = ("kafka:1", "10.0.0.1:65535", "[::1]:9092")
    assert by_flags({"kafka.bootstrap_servers": list(servers)}).settings.kafka.bootstrap_servers == servers


@pytest.mark.parametrize("topics", ["", [], "a,,b", "a,a", [".."], ["a b"], ["ä"], ["x" * 250], ["a\n"], [1], '["a"', {"a": 1}])
def test_topics_must_be_distinct_valid_names(topics):
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


def test_sentinels_need_the_name_of_a_service():
    given = {"redis.sentinels": "a:26379,b:26379", "redis.url": "redis://MyMaster/3"}
    loaded = by_flags(given | {"redis.sentinel_password": SECRET})
    assert (loaded.settings.redis.sentinels, loaded.warnings) == (("a:26379", "b:26379"), ())
    for url in ("redis://cache:6379/0", "unix:///run/redis.sock"):
        (problem,) = problems_of(flags=given | {"redis.url": url})
        assert "the name of the service" in problem.allowed
    (problem,) = problems_of(flags=given | {"redis.url": "redis://m/0", "redis.cluster": "true"})
    assert problem.key == "redis.sentinels"
    (warning,) = by_flags({"redis.sentinel_password": SECRET}).warnings
    assert warning == "redis.sentinel_password: ignored, because redis.sentinels is empty"


OAUTH = {"kafka.security_protocol": "SASL_SSL", "kafka.sasl_mechanism": "OAUTHBEARER"}
ENDPOINT = {"kafka.oauth_token_url": "https://sso.test/token", "kafka.oauth_client_id": "sm", "kafka.oauth_client_secret": SECRET}


@pytest.mark.parametrize("source", [ENDPOINT, {"kafka.oauth_token_file": "/run/token"}, {"kafka.oauth_aws_region": "eu-west-1"}])
def test_oauth_needs_one_source_of_tokens_and_no_password(source):
    loaded = by_flags(OAUTH | source | {"kafka.oauth_extensions": "logicalCluster=lkc-1,identityPoolId=pool-x"})
    assert loaded.settings.kafka.oauth_extensions == ("logicalCluster=lkc-1", "identityPoolId=pool-x")
    assert loaded.warnings == ()
    rule = "OAUTHBEARER needs exactly one of kafka.oauth_token_url, kafka.oauth_token_file, kafka.oauth_aws_region"
    for wrong in ({}, source | {"kafka.oauth_token_file": "/a", "kafka.oauth_aws_region": "b"}):
        assert rule in [problem.allowed for problem in problems_of(flags=OAUTH | wrong)]


@pytest.mark.parametrize("missing", ["oauth_client_id", "oauth_client_secret"])
def test_a_token_endpoint_needs_credentials(missing):
    (problem,) = problems_of(flags={key: value for key, value in (OAUTH | ENDPOINT).items() if key != f"kafka.{missing}"})
    assert (problem.key, problem.allowed) == (f"kafka.{missing}", "is required with kafka.oauth_token_url")


@pytest.mark.parametrize(
    "url", ["http://sso.test/token", "https://sm:word@sso.test/token", "sso.test/token", "file:///etc/passwd", "https:///x"]
)
def test_the_client_secret_is_sent_over_tls_only(url):
    assert problem_of(kafka__oauth_token_url=url).key == "kafka.oauth_token_url"
    assert by_flags({"kafka.oauth_token_url": "http://127.0.0.1:1/token"}).settings.kafka.oauth_token_url == "http://127.0.0.1:1/token"


def test_oauth_settings_without_oauth_are_named():
    (warning,) = by_flags(SASL | ENDPOINT).warnings
    assert warning.endswith("ignored, because kafka.sasl_mechanism is not OAUTHBEARER")
    assert SECRET not in warning


@pytest.mark.parametrize("extension", ["lkc-1", "logical.cluster=x", "auth=", "a=\x01b"])
def test_a_malformed_oauth_extension_is_rejected(extension):
    assert problem_of(kafka__oauth_extensions=[extension]).key == "kafka.oauth_extensions"


@pytest.mark.parametrize("section", ["kafka", "redis"])
def test_a_client_key_requires_its_certificate(section):
    (problem,) = problems_of(flags={f"{section}.ssl_keyfile": "/key.pem"})
    assert problem.key == f"{section}.ssl_certfile"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cache",
        "http://cache",
        "redis://",
        "redis:///0",
        "redis://cache/x",
        "redis://cache:x/0",
        "redis://cache:70000",
        "unix://",
        "redis://[::1",
    ],
)
def test_an_invalid_redis_url_is_rejected(url):
    assert problem_of(redis__url=url).key == "redis.url"


@pytest.mark.parametrize("url", ["redis://cache", "redis://cache:1/15", "rediss://[::1]:6379/0", "unix:///run/redis.sock?db=1"])
def test_a_redis_url_can_name_a_host_or_a_socket(url):
    assert by_flags({"redis.url": url}).settings.redis.url.get_secret_value() == url


@pytest.mark.parametrize(
    ("query", "advice"),
    [
        ("foo=bar", "foo: remove it"),
        ("foo", "foo: remove it"),
        ("decode_responses=True&db=1", "decode_responses: remove it"),
        ("protocol=3", "protocol: remove it"),
        ("client_name=x", "client_name: remove it"),
        ("max_connections=abc", "max_connections: remove it"),
        ("socket_timeout=600", "socket_timeout: set redis.socket_timeout_ms instead"),
        ("socket_connect_timeout=600", "socket_connect_timeout: set redis.socket_timeout_ms instead"),
        ("ssl_cert_reqs=none", "ssl_cert_reqs: set redis.ssl_cafile instead"),
        ("ssl_check_hostname=false", "ssl_check_hostname: set redis.ssl_cafile instead"),
        ("ssl_ca_certs=/ca.pem", "ssl_ca_certs: set redis.ssl_cafile instead"),
        ("ssl_certfile=/own.pem", "ssl_certfile: set redis.ssl_certfile instead"),
        ("ssl_keyfile=/own.key", "ssl_keyfile: set redis.ssl_keyfile instead"),
        ("foo=1&bar=2", "foo: remove it; bar: remove it"),
        ("db=x", "db is a number of at most 5 digits"),
        ("db=", "db is a number of at most 5 digits"),
        ("db=1&db=2", "db is given twice"),
    ],
)
def test_options_in_the_query_of_a_redis_url_are_rejected_with_advice(query, advice):
    problem = problem_of(redis__url=f"rediss://cache?{query}")
    assert (problem.key, problem.value) == ("redis.url", "rediss://cache?***")
    assert problem.allowed.endswith(advice)


@pytest.mark.parametrize("url", ["redis://cache/1?db=2", "redis://u@cache?username=v", "redis://:p@cache?password=q"])
def test_a_redis_url_must_not_give_a_value_twice(url):
    assert problem_of(redis__url=url).allowed.endswith("is given twice")


@pytest.mark.parametrize("query", [f"{SECRET}", "pass=hunter2-тайна", "hunter2@cache", "a=b&hunter2=@cache", "password=p@ss&hunter2=1"])
def test_a_possible_part_of_a_password_is_not_shown_as_an_option_name(query):
    problem = problem_of(redis__url=f"redis://user:123?{query}")
    assert "hunter2" not in str(problem)
    assert "username and password" in problem.allowed


@pytest.mark.parametrize("url", ["redis://cache/1", "unix:///run/redis.sock", "redis://cache?db=1"])
def test_a_cluster_allows_only_database_0_and_no_socket(url):
    assert problem_of(redis__url=url, redis__cluster=True).key == "redis.url"
    assert by_flags({"redis.url": "redis://cache/0", "redis.cluster": True}).settings.redis.cluster


@pytest.mark.parametrize("url", ["redis://u:p@cache", "redis://cache?password=p&username=u"])
def test_user_and_password_must_not_be_given_twice(url):
    problems = problems_of(flags={"redis.url": url, "redis.username": "u", "redis.password": "p"})
    assert {problem.key for problem in problems} == {"redis.username", "redis.password"}


@pytest.mark.parametrize("namespace", ["", "a{b", "a}b", "a b", "x" * 65, "a\n"])
def test_a_namespace_rejects_characters_that_would_change_the_hash_slot(namespace):
    assert problem_of(redis__namespace=namespace).key == "redis.namespace"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka.sasl_username": "u", "kafka.ssl_cafile": "/ca"}, ["kafka.sasl_username: ignored", "kafka.ssl_cafile: ignored"]),
        ({**SASL, "kafka.security_protocol": "SSL"}, ["kafka.sasl_mechanism, kafka.sasl_username, kafka.sasl_password: ignored"]),
        ({**SASL, "kafka.ssl_cafile": "/ca"}, []),
        ({"redis.ssl_cafile": "/ca"}, ["redis.ssl_cafile: ignored"]),
        ({"redis.ssl_cafile": "/ca", "redis.url": "rediss://cache"}, []),
        ({"redis.allow_eviction": True}, ["redis.allow_eviction is true"]),
        ({"redis.socket_timeout_ms": 9_000}, []),
        ({"worker.role": "exporter", "worker.processes": 2}, ["worker.processes: ignored"]),
        ({"worker.role": "worker", "worker.processes": 2}, []),
        ({"redis.socket_timeout_ms": 5_000, "redis.cluster": True}, []),
        ({"redis.socket_timeout_ms": 5_001, "redis.cluster": True}, ["redis.socket_timeout_ms (5001) is more than 5000"]),
    ],
)
def test_unused_or_risky_settings_are_warnings(given, expected):
    warnings = by_flags(given).warnings
    assert len(warnings) == len(expected)
    assert all(warning.startswith(start) for warning, start in zip(warnings, expected, strict=True))


def test_the_http_user_and_the_password_hash_require_each_other():
    assert problem_of(http__username="u").key == "http.password_hash"
    assert problem_of(http__password_hash=PASSWORD_HASH).key == "http.username"
    assert "a colon" in problem_of(http__username="a:b", http__password_hash=PASSWORD_HASH).allowed


def test_an_http_key_requires_its_certificate():
    assert problem_of(http__ssl_keyfile="/key").allowed == "is required with http.ssl_keyfile: a key needs its certificate"


@pytest.mark.parametrize(
    ("flags", "count"),
    [
        ({"http.host": "127.0.0.1"}, 0),
        ({"http.host": "localhost"}, 0),
        ({"http.host": "::1"}, 0),
        ({"http.host": "0.0.0.0"}, 1),
        ({"http.host": "0.0.0.0", "http.ssl_certfile": "/certificate"}, 0),
    ],
)
def test_an_unencrypted_http_password_is_a_warning(flags, count):
    warnings = by_flags({"http.username": "u", "http.password_hash": PASSWORD_HASH, **flags}).warnings
    assert len([warning for warning in warnings if "the password is sent" in warning]) == count


def test_the_longest_redis_timeout_does_not_make_the_loop_look_stuck():
    most_ms = by_flags({"redis.socket_timeout_ms": 9_000}).settings.redis.socket_timeout_ms
    assert problem_of(redis__socket_timeout_ms=most_ms + 1).key == "redis.socket_timeout_ms"
    assert 3 * most_ms < STUCK_SECONDS * 1_000, "one turn may wait for several slow replies"
