"""Receive up to 1 MiB at once on connections without TLS.

Works around: the client reads a socket in pieces of 4 KiB.
Without it: the client's thread waits for Python's global lock around every piece, up to 5 ms while another thread computes. Large
fetches then arrive slowly.
Private names: `_manager`, `_build_transport`, `_sock`, `_sock_recv`.
Delete it when: `tests/connectors/kafka/patches/test_large_reads.py::TestStillNeeded` fails.
"""

from __future__ import annotations

import contextlib
from typing import Any

import structlog
from kafka.net.compat import KafkaNetClient
from kafka.net.transport import KafkaTCPTransport

log = structlog.get_logger("streammetrics.kafka")

PIECE_BYTES = 1 << 20


class LargeReads(KafkaTCPTransport):  # type: ignore[misc]  # the client has no types
    """A plain connection that receives large pieces. TLS connections stay as they are: TLS has no pieces larger than 16 KiB.

    `room` is where pieces arrive. All connections of a client share it, because one thread reads them. Without it each reading would
    allocate 1 MiB and keep some hundred bytes of it. The next reading finds no such room between those bytes, so the heap would grow.
    """

    room: memoryview

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        with contextlib.suppress(OSError):
            if count := self._sock.recv_into(self.room):
                return bytes(self.room[:count]), None
        # Either nothing has arrived or the connection has ended. The client's own method finds out which.
        received: tuple[bytes, Exception | None] = super()._sock_recv()
        return received


def install(client: KafkaNetClient) -> None:
    """Make the client's plain connections `LargeReads`."""
    try:
        manager = client._manager
        build = manager._build_transport
        KafkaTCPTransport._sock_recv  # noqa: B018  (raises where it does not exist)
    except AttributeError as error:
        log.warning("large reads are off: kafka-python's private names have changed", effect="fetches are slower", reason=repr(error))
        return

    room = memoryview(bytearray(PIECE_BYTES))

    async def build_with_large_reads(*args: Any, **options: Any) -> Any:
        transport = await build(*args, **options)
        if type(transport) is KafkaTCPTransport:
            transport.__class__, transport.room = LargeReads, room
        return transport

    manager._build_transport = build_with_large_reads
