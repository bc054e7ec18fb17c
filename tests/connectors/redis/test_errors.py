"""Tests of the advice in errors of Redis."""

from __future__ import annotations

import pytest
from redis.exceptions import AskError, DataError, InvalidResponse, MovedError, RedisClusterException, ResponseError, TryAgainError

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.errors import explain, explaining_errors
from streammetrics.errors import StateError, StoreError


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ResponseError("DB index is out of range"), "redis.url has a database number that the server does not have: use a smaller one"),
        (
            ResponseError("SELECT is not allowed in cluster mode"),
            "the server belongs to a cluster: set redis.cluster to true, and remove the database number from redis.url",
        ),
        (
            InvalidResponse('Protocol error, got "H" as reply type byte'),
            "the server is not Redis, or requires TLS: check redis.url, which must begin with rediss:// for TLS",
        ),
    ],
)
def test_an_error_for_every_command_has_advice(error: Exception, advice: str) -> None:
    found = explain(error, RedisSettings())
    assert (found.message, found.fix) == (f"Redis at 127.0.0.1:6379: {error}", advice)


WAIT = "the cluster is moving a task's keys to another node; streammetrics continues by itself when all have moved"


@pytest.mark.parametrize(
    ("error", "cluster", "message", "advice"),
    [
        (
            MovedError("7 cache:6380"),
            False,
            "slot 7 is at cache:6380",
            "the server belongs to a cluster: set redis.cluster to true",
        ),
        (
            ResponseError("MOVED 7 cache:6380 script: f00"),
            False,
            "MOVED 7 cache:6380 script: f00",
            "the server belongs to a cluster: set redis.cluster to true",
        ),
        (MovedError("7 cache:6380"), True, "slot 7 is at cache:6380", WAIT),
        (AskError("7 cache:6380"), True, "slot 7 is at cache:6380", WAIT),
        (TryAgainError("Multiple keys request during rehashing of slot"), True, "Multiple keys request during rehashing of slot", WAIT),
        (RedisClusterException("TTL exhausted."), True, "TTL exhausted", WAIT),
    ],
)
def test_keys_on_another_node_have_advice_for_the_setting_or_to_wait(error: Exception, cluster: bool, message: str, advice: str) -> None:
    found = explain(error, RedisSettings(cluster=cluster))
    assert (found.message, found.fix) == (f"Redis at 127.0.0.1:6379: {message}", advice)


def test_keys_of_another_type_are_a_state_error() -> None:
    found = explain(ResponseError("WRONGTYPE Operation against a key"), RedisSettings(namespace="taken"))
    assert isinstance(found, StateError)
    assert "redis.namespace = taken: keys of another program" in found.message


def test_a_tls_handshake_without_a_reply_has_advice_about_plain_servers() -> None:
    found = explain(TimeoutError("Timeout connecting to server"), RedisSettings(url="rediss://cache:6380/0"))
    assert found.fix.endswith("redis.url must begin with redis:// if the server does not use TLS")


def test_errors_hide_passwords() -> None:
    with pytest.raises(StoreError, match=r"user \*\*\* failed"), explaining_errors(RedisSettings(password="s3cret")):
        raise ResponseError("user s3cret failed")


def test_an_argument_that_cannot_be_sent_is_not_translated() -> None:
    with pytest.raises(DataError), explaining_errors(RedisSettings()):
        raise DataError("Invalid input")
