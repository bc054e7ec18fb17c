"""Tests of the Redis client against a fake server. Other tests use real servers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from redis.exceptions import ConnectionError, RedisClusterException, TimeoutError

from streammetrics.config.redis import RedisSettings
from streammetrics.connectors.redis.client import RESENDS_MAX, Client, LazyClient, close_connections, connect, send


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
