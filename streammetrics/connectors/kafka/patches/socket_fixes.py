"""What the client does with its sockets, done better: large pieces are received, and a connection that fails gives its descriptor back at
once. Nothing here connects.

It leans on private names of kafka-python. Where they have changed the client goes on in its own way, and the log says so.
"""

from __future__ import annotations

import contextlib
import socket
import traceback
from collections.abc import Iterator
from typing import Any

import structlog
from kafka.net.compat import KafkaNetClient
from kafka.net.transport import KafkaTCPTransport

log = structlog.get_logger("streammetrics.kafka")

PIECE_BYTES = 1 << 20


class LargeReads(KafkaTCPTransport):  # type: ignore[misc]  # the client has no types
    """A connection that takes in one piece what has arrived. TLS has none larger than four of the client's.

    Before and after each piece the client's thread waits for Python's lock, up to 5 ms while another computes. With its own pieces of
    4 KiB little arrives before that one waits for records.
    """

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        with contextlib.suppress(OSError):
            if data := self._sock.recv(PIECE_BYTES):
                return data, None
        received: tuple[bytes, Exception | None] = super()._sock_recv()  # nothing is there, or the connection has ended: it tells which
        return received


def receive_large_pieces(client: KafkaNetClient) -> None:
    """Let connections of the client that speak no TLS be of `LargeReads`."""
    try:
        manager = client._manager
        build = manager._build_transport
        KafkaTCPTransport._sock_recv  # noqa: B018  (raises where there is none)
    except AttributeError as error:
        log.warning("records are received in small pieces, which takes longer: the client's inner names have changed", reason=repr(error))
        return

    async def build_for_large_pieces(*args: Any, **options: Any) -> Any:
        transport = await build(*args, **options)
        if type(transport) is KafkaTCPTransport:
            transport.__class__ = LargeReads
        return transport

    manager._build_transport = build_for_large_pieces


def close_failed(client: KafkaNetClient) -> None:
    """Let the client close the sockets of connections that were refused, timed out, or failed in their handshake.

    It leaves them to the garbage collector: errors that lie in their own stack frames hold them. With a large state that one hardly
    ever comes, while a client knocks twice a second: an outage of ten minutes was seen to take all of a process' descriptors.
    """
    try:
        manager = client._manager
        build = manager._build_transport
    except AttributeError as error:
        log.warning("descriptors of failed connections are given back late: the client's inner names have changed", reason=repr(error))
        return

    async def build_or_close(*args: Any, **options: Any) -> Any:
        try:
            return await build(*args, **options)
        except Exception as error:
            for one in _sockets_of(error):
                one.close()
            raise

    manager._build_transport = build_or_close


def _sockets_of(error: BaseException) -> Iterator[socket.socket]:
    """The sockets that the frames hold which an error came through."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            held = getattr(value, "_sock", None) if isinstance(value, KafkaTCPTransport) else value  # of TLS, only its own is left
            if isinstance(held, socket.socket):
                yield held
