"""Connections of the unpatched client to local sockets, for the tests of `large_reads` and `failed_sockets`."""

from __future__ import annotations

import gc
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient

from tests.tools.servers.process import HOST, free_port

TRIES = 20
Patch = Callable[[KafkaNetClient], None]


def no_patch(client: KafkaNetClient) -> None:
    """Leave the client unpatched."""


@contextmanager
def closing_every_connection() -> Iterator[int]:
    """Yield the port of a server that accepts connections and closes each at once."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            for _ in range(TRIES):
                server.accept()[0].close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join()


def _open_sockets() -> set[str]:
    """Return the sockets of this process, each by its unique name."""
    sockets = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            sockets.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {name for name in sockets if name.startswith("socket:")}


def sockets_left_open(patch: Patch, port: int, security_protocol: str = "PLAINTEXT") -> int:
    """Return how many sockets failed connections leave open while the garbage collector is off."""
    gc.collect()
    gc.disable()
    try:
        with closing(KafkaNetClient(bootstrap_servers=[f"{HOST}:{port}"], security_protocol=security_protocol)) as client:
            patch(client)
            before = _open_sockets()
            for _ in range(TRIES):
                with pytest.raises(KafkaConnectionError):
                    client._net.run(client._manager._build_transport, SimpleNamespace(host=HOST, port=port))
            return len(_open_sockets() - before)
    finally:
        gc.enable()


class Receiver:
    """A protocol that keeps the pieces which a connection receives, and the error with which it ended."""

    _sensors = None

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended = threading.Event()
        self.error: Exception | None = None

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error
        self.ended.set()


@contextmanager
def connected(patch: Patch) -> Iterator[tuple[socket.socket, Receiver]]:
    """Yield the server's end of a connection, and the receiver at the client's end. Waits until the connection has ended."""
    with socket.create_server((HOST, 0)) as server, closing(KafkaNetClient(bootstrap_servers=[f"{HOST}:{free_port()}"])) as client:
        patch(client)
        node, receiver = SimpleNamespace(host=HOST, port=server.getsockname()[1]), Receiver()
        transport: Any = client._net.run(client._manager._build_transport, node)
        transport.set_protocol(receiver)
        client._net.start()
        client._net.call_soon_threadsafe(transport.resume_reading)
        yield server.accept()[0], receiver
        assert receiver.ended.wait(10)
