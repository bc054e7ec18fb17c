"""What connections receive, and what is left of those that fail: no broker is needed for that."""

from __future__ import annotations

import gc
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace
from typing import cast

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.client import Network
from streammetrics.connectors.kafka.patches.socket_fixes import close_failed, receive_large_pieces
from tests.servers.process import HOST, free_port

TRIES = 20


@contextmanager
def hanging_up() -> Iterator[int]:
    """The port of somebody who takes connections and ends each at once."""
    with socket.create_server((HOST, 0)) as server:

        def serve() -> None:
            for _ in range(TRIES):
                server.accept()[0].close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join()


def sockets_open() -> set[str]:
    """The sockets of this process, each by a name that no other ever has."""
    found = set()
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the listing itself
            found.add(os.readlink(f"/proc/self/fd/{descriptor}"))
    return {name for name in found if name.startswith("socket:")}


def sockets_left(port: int, security_protocol: str = "PLAINTEXT") -> int:
    """How many new ones there are after some connections have failed, in a process that seldom looks for garbage."""
    gc.collect()
    gc.disable()
    try:
        with closing(Network()(bootstrap_servers=[f"{HOST}:{port}"], security_protocol=security_protocol)) as client:
            before = sockets_open()
            for _ in range(TRIES):
                with pytest.raises(KafkaConnectionError):
                    client._net.run(client._manager._build_transport, SimpleNamespace(host=HOST, port=port))
            return len(sockets_open() - before)
    finally:
        gc.enable()


def test_connections_that_are_refused_leave_no_socket_behind() -> None:
    assert sockets_left(free_port()) == 0


def test_connections_whose_handshake_fails_leave_no_socket_behind() -> None:
    with hanging_up() as port:
        assert sockets_left(port, "SSL") == 0


class Hears:
    """Stands where the client decodes: what a connection has received, until it was told how that ended."""

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
def connected() -> Iterator[tuple[socket.socket, Hears]]:
    """The other end of a connection of the client, and who hears what arrives; at last the connection has ended."""
    with socket.create_server((HOST, 0)) as server, closing(Network()(bootstrap_servers=[f"{HOST}:{free_port()}"])) as client:
        node, hears = SimpleNamespace(host=HOST, port=server.getsockname()[1]), Hears()
        transport = client._net.run(client._manager._build_transport, node)
        transport.set_protocol(hears)
        client._net.start()
        client._net.call_soon_threadsafe(transport.resume_reading)
        yield server.accept()[0], hears
        assert hears.ended.wait(10)


def test_what_has_arrived_is_received_in_large_pieces_and_then_the_end_is_told() -> None:
    sent = bytes(range(256)) * 12_000
    with connected() as (other, hears):
        other.sendall(sent)
        other.close()
    assert b"".join(hears.pieces) == sent
    assert max(map(len, hears.pieces)) > 1 << 16
    assert "socket disconnected" in str(hears.error)


def test_a_connection_that_is_reset_ends_with_an_error() -> None:
    with connected() as (other, hears):
        other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        other.close()
    assert isinstance(hears.error, KafkaConnectionError)


@pytest.mark.parametrize(
    ("fix", "told"),
    [
        (close_failed, "descriptors of failed connections are given back late: the client's inner names have changed"),
        (receive_large_pieces, "records are received in small pieces, which takes longer: the client's inner names have changed"),
    ],
)
def test_a_client_whose_inner_names_have_changed_is_left_as_it_is(fix: Callable[[KafkaNetClient], None], told: str) -> None:
    changed = SimpleNamespace(_manager=SimpleNamespace())
    with capture_logs() as lines:
        fix(cast(KafkaNetClient, changed))
    assert changed == SimpleNamespace(_manager=SimpleNamespace())
    assert [line["event"] for line in lines] == [told]
