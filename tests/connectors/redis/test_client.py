"""How often the Redis client asks by itself, against a server that answers what the test says. The rest is tested against a real one."""

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
    InvalidResponse,
    MovedError,
    RedisClusterException,
    ResponseError,
    TimeoutError,
    TryAgainError,
)

from streammetrics.connectors.redis.client import RESENDS_MAX, Client, LazyClient, RedisConnection, connect, explained, hang_up, send


class Mute:
    """A server that greets every connection, and meets whatever is asked next with silence, or by hanging up."""

    def __init__(self, *, hangs_up: bool) -> None:
        self.asked = 0
        self._hangs_up = hangs_up
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.url = f"redis://127.0.0.1:{self._server.getsockname()[1]}/0"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                connection, _ = self._server.accept()
                with connection:
                    while asked := connection.recv(65_536):
                        if b"CLIENT" in asked:
                            connection.sendall(b"+OK\r\n" * asked.count(b"CLIENT"))
                            continue
                        self.asked += 1
                        if self._hangs_up:
                            break

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()


@contextmanager
def mute(*, hangs_up: bool) -> Iterator[tuple[Mute, Client]]:
    with contextlib.closing(Mute(hangs_up=hangs_up)) as server:
        client = connect(RedisConnection(url=server.url, socket_timeout_ms=100))
        yield server, client
        hang_up(client)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (ResponseError("DB index is out of range"), "redis.url names a database that the server does not have: choose a lesser number"),
        (
            ResponseError("SELECT is not allowed in cluster mode"),
            "the server belongs to a cluster: set redis.cluster to true, and name no database in redis.url",
        ),
        (
            InvalidResponse('Protocol error, got "H" as reply type byte'),
            "what answers there is no Redis, or speaks TLS: check redis.url, which must begin with rediss:// then",
        ),
    ],
)
def test_an_answer_that_refuses_every_command_is_told_with_what_to_mend(error: Exception, advice: str) -> None:
    found = explained(error, RedisConnection())
    assert (found.message, found.fix) == (f"Redis at 127.0.0.1:6379: {error}", advice)


WAIT = "the cluster moves the keys of a task to another node; it goes on by itself when all are there"


@pytest.mark.parametrize(
    ("error", "cluster", "told", "advice"),
    [
        (
            MovedError("7 cache:6380"),
            False,
            "slot 7 is to be found at cache:6380",
            "the server belongs to a cluster: set redis.cluster to true",
        ),
        (
            ResponseError("MOVED 7 cache:6380 script: f00"),
            False,
            "MOVED 7 cache:6380 script: f00",
            "the server belongs to a cluster: set redis.cluster to true",
        ),
        (MovedError("7 cache:6380"), True, "slot 7 is to be found at cache:6380", WAIT),
        (AskError("7 cache:6380"), True, "slot 7 is to be found at cache:6380", WAIT),
        (TryAgainError("Multiple keys request during rehashing of slot"), True, "Multiple keys request during rehashing of slot", WAIT),
        (RedisClusterException("TTL exhausted."), True, "TTL exhausted", WAIT),
    ],
)
def test_keys_that_are_on_another_node_are_a_setting_to_mend_or_a_move_to_wait_for(
    error: Exception, cluster: bool, told: str, advice: str
) -> None:
    found = explained(error, RedisConnection(cluster=cluster))
    assert (found.message, found.fix) == (f"Redis at 127.0.0.1:6379: {told}", advice)


def test_an_answer_that_does_not_come_in_time_is_not_asked_for_again() -> None:
    with mute(hangs_up=False) as (server, client):
        with pytest.raises(TimeoutError):
            send(client, "GET", "key")
        assert server.asked == 1


def test_a_broken_connection_is_made_anew_a_few_times() -> None:
    with mute(hangs_up=True) as (server, client):
        with pytest.raises(ConnectionError):
            send(client, "GET", "key")
        assert server.asked == 1 + RESENDS_MAX


def test_a_client_is_made_once_and_anew_after_it_was_closed() -> None:
    lazy = LazyClient(RedisConnection())
    lazy.close()
    with ThreadPoolExecutor(4) as pool:
        clients = {*pool.map(lambda _: lazy.get(), range(100))}
    assert len(clients) == 1
    lazy.close()
    assert lazy.get() not in clients
    lazy.close()


def test_nobody_is_asked_before_the_client_is() -> None:
    lazy = LazyClient(RedisConnection(url="redis://127.0.0.1:1/0", cluster=True))
    with pytest.raises(RedisClusterException):
        lazy.get()
