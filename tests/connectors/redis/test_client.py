"""Tests of the Redis client against a fake server. Other tests use real servers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from redis.exceptions import (
    AskError,
    ConnectionError,
    DataError,
    InvalidResponse,
    MovedError,
    RedisClusterException,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import (
    RESENDS_MAX,
    Client,
    LazyClient,
    close_connections,
    connect,
    explain,
    explaining_errors,
    send,
)
from streammetrics.errors import StateError, StoreError


class SilentServer:
    """A server that answers the client's greeting, and then nothing. With `hangs_up` it closes the connection instead."""

    def __init__(self, *, hangs_up: bool) -> None:
        self.commands = 0
        self._hangs_up = hangs_up
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.url = f"redis://127.0.0.1:{self._server.getsockname()[1]}/0"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the server was closed
            while True:
                connection, _ = self._server.accept()
                with connection:
                    while received := connection.recv(65_536):
                        if b"CLIENT" in received:
                            connection.sendall(b"+OK\r\n" * received.count(b"CLIENT"))
                            continue
                        self.commands += 1
                        if self._hangs_up:
                            break

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()


@contextmanager
def silent_server(*, hangs_up: bool) -> Iterator[tuple[SilentServer, Client]]:
    with contextlib.closing(SilentServer(hangs_up=hangs_up)) as server:
        client = connect(RedisSettings(url=server.url, socket_timeout_ms=100))
        yield server, client
        close_connections(client)


def test_a_timeout_is_not_retried() -> None:
    with silent_server(hangs_up=False) as (server, client):
        with pytest.raises(TimeoutError):
            send(client, "GET", "key")
        assert server.commands == 1


def test_a_broken_connection_is_retried_a_few_times() -> None:
    with silent_server(hangs_up=True) as (server, client):
        with pytest.raises(ConnectionError):
            send(client, "GET", "key")
        assert server.commands == 1 + RESENDS_MAX


def test_a_lazy_client_is_built_once_and_again_after_close() -> None:
    lazy = LazyClient(RedisSettings())
    lazy.close()
    with ThreadPoolExecutor(4) as pool:
        clients = {*pool.map(lambda _: lazy.get(), range(100))}
    assert len(clients) == 1
    lazy.close()
    assert lazy.get() not in clients
    lazy.close()


def test_a_lazy_client_connects_at_its_first_use() -> None:
    lazy = LazyClient(RedisSettings(url="redis://127.0.0.1:1/0", cluster=True))
    with pytest.raises(RedisClusterException):
        lazy.get()


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
    explanation = explain(error, RedisSettings())
    assert (explanation.message, explanation.fix) == (f"Redis at 127.0.0.1:6379: {error}", advice)


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
    explanation = explain(error, RedisSettings(cluster=cluster))
    assert (explanation.message, explanation.fix) == (f"Redis at 127.0.0.1:6379: {message}", advice)


def test_keys_of_another_type_are_a_state_error() -> None:
    explanation = explain(ResponseError("WRONGTYPE Operation against a key"), RedisSettings(namespace="taken"))
    assert isinstance(explanation, StateError)
    assert "redis.namespace = taken: keys of another program" in explanation.message


def test_a_tls_handshake_without_a_reply_has_advice_about_plain_servers() -> None:
    explanation = explain(TimeoutError("Timeout connecting to server"), RedisSettings(url="rediss://cache:6380/0"))
    assert explanation.fix.endswith("redis.url must begin with redis:// if the server does not use TLS")


def test_errors_hide_passwords() -> None:
    with pytest.raises(StoreError, match=r"user \*\*\* failed"), explaining_errors(RedisSettings(password="s3cret")):
        raise ResponseError("user s3cret failed")


def test_an_argument_that_cannot_be_sent_is_not_translated() -> None:
    with pytest.raises(DataError), explaining_errors(RedisSettings()):
        raise DataError("Invalid input")
