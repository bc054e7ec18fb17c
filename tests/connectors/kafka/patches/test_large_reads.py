"""Tests of receiving large pieces. No broker is needed."""

from __future__ import annotations

import socket
import struct
import tracemalloc
from types import SimpleNamespace
from typing import cast

from kafka.errors import KafkaConnectionError
from kafka.net.compat import KafkaNetClient
from kafka.net.transport import KafkaTCPTransport
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import large_reads
from tests.connectors.kafka.patches.connections import connected


class Socket:
    """A fake socket that keeps the sizes it was asked for, and has nothing to receive."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def recv(self, size: int) -> bytes:
        self.sizes.append(size)
        raise BlockingIOError


class TestStillNeeded:
    def test_the_unpatched_client_receives_at_most_4_kib_at_once(self) -> None:
        unpatched = KafkaTCPTransport.__new__(KafkaTCPTransport)
        unpatched._sock = Socket()
        unpatched._sock_recv()
        assert unpatched._sock.sizes[0] <= 4_096


def test_data_is_received_in_large_pieces_and_the_end_is_noticed() -> None:
    sent = bytes(range(256)) * 12_000
    with connected(large_reads.install) as (server, receiver):
        server.sendall(sent)
        server.close()
    assert b"".join(receiver.pieces) == sent
    assert max(map(len, receiver.pieces)) > 1 << 16
    assert "socket disconnected" in str(receiver.error)


def test_a_small_piece_takes_no_room_for_a_large_one() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = large_reads.LargeReads.__new__(large_reads.LargeReads)
        connection._sock, connection.room = ours, memoryview(bytearray(large_reads.PIECE_BYTES))
        theirs.sendall(b"few bytes")
        tracemalloc.start()
        try:
            assert connection._sock_recv() == (b"few bytes", None)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < large_reads.PIECE_BYTES // 100


def test_a_connection_that_is_reset_ends_with_an_error() -> None:
    with connected(large_reads.install) as (server, receiver):
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        server.close()
    assert isinstance(receiver.error, KafkaConnectionError)


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    client = SimpleNamespace(_manager=SimpleNamespace())
    with capture_logs() as lines:
        large_reads.install(cast(KafkaNetClient, client))
    assert client == SimpleNamespace(_manager=SimpleNamespace())
    assert [line["event"] for line in lines] == ["large reads are off: kafka-python's private names have changed"]
