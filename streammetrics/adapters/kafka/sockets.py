"""A connection that fails gives its descriptor back at once. Nothing here connects.

It leans on private names of kafka-python. Where they have changed, descriptors wait for the garbage collector, and the log says so.
"""

from __future__ import annotations

import socket
import traceback
from collections.abc import Iterator
from typing import Any

import structlog
from kafka.net.compat import KafkaNetClient
from kafka.net.transport import KafkaTCPTransport

log = structlog.get_logger("streammetrics.kafka")


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
