"""Tests of the settings of Redis."""

from __future__ import annotations

from typing import Any

import pytest

from streammetrics.exporters.http.answers import STUCK_SECONDS
from tests.support.settings import SECRET, by_flags, problem_of, problems_of
from tests.support.tables import for_each


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


@for_each(
    [
        "",
        "cache",
        "http://cache",
        "redis://",
        "redis:///0",
        "redis://cache/x",
        "redis://cache:x/0",
        "redis://cache:70000",
        "redis://cache..internal:6379/0",
        "unix://",
        "redis://[::1",
    ]
)
def test_an_invalid_redis_url_is_rejected(url: Any) -> None:
    assert problem_of(redis__url=url).key == "redis.url"


@pytest.mark.parametrize("url", ["redis://cache", "redis://cache:1/15", "rediss://[::1]:6379/0", "unix:///run/redis.sock?db=1"])
def test_a_redis_url_can_name_a_host_or_a_socket(url):
    assert by_flags({"redis.url": url}).settings.redis.url.get_secret_value() == url


@for_each(
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
    ]
)
def test_options_in_the_query_of_a_redis_url_are_rejected_with_advice(case: tuple[Any, Any]) -> None:
    query, advice = case
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


def test_the_longest_redis_timeout_does_not_make_the_loop_look_stuck():
    most_ms = by_flags({"redis.socket_timeout_ms": 9_000}).settings.redis.socket_timeout_ms
    assert problem_of(redis__socket_timeout_ms=most_ms + 1).key == "redis.socket_timeout_ms"
    assert 3 * most_ms < STUCK_SECONDS * 1_000, "one turn may wait for several slow replies"


def test_a_client_key_requires_its_certificate():
    (problem,) = problems_of(flags={"redis.ssl_keyfile": "/key.pem"})
    assert problem.key == "redis.ssl_certfile"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"redis.ssl_cafile": "/ca"}, ["redis.ssl_cafile: ignored"]),
        ({"redis.ssl_cafile": "/ca", "redis.url": "rediss://cache"}, []),
        ({"redis.allow_eviction": True}, ["redis.allow_eviction is true"]),
        ({"redis.socket_timeout_ms": 9_000}, []),
        ({"redis.socket_timeout_ms": 5_000, "redis.cluster": True}, []),
        ({"redis.socket_timeout_ms": 5_001, "redis.cluster": True}, ["redis.socket_timeout_ms (5001) is more than 5000"]),
    ],
)
def test_unused_or_risky_settings_are_warnings(given, expected):
    warnings = by_flags(given).warnings
    assert len(warnings) == len(expected)
    assert all(warning.startswith(start) for warning, start in zip(warnings, expected, strict=True))
