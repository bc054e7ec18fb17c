"""Close the socket of a connection that failed.

Works around: when a connection is refused, times out or fails in its handshake, the client leaves the socket to the garbage collector.
The error's stack frames hold the socket, and the frames hold the error.
Without it: file descriptors run out. With a large state the collector rarely runs, and the client reconnects twice a second. In an
outage of ten minutes a process used up all of its descriptors.
Private names: `_manager`, `_build_transport`, `_sock`.
Delete it when: `tests/connectors/kafka/patches/test_failed_sockets.py::TestStillNeeded` fails.
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


def install(client: KafkaNetClient) -> None:
    """Make the client close the sockets of connections that fail."""
    try:
        manager = client._manager
        build = manager._build_transport
    except AttributeError as error:
        log.warning(
            "failed sockets are closed late: kafka-python's private names have changed",
            effect="a long outage uses up file descriptors",
            reason=repr(error),
        )
        return

    async def build_or_close(*args: Any, **options: Any) -> Any:
        try:
            return await build(*args, **options)
        except Exception as error:
            for failed in _sockets_of(error):
                failed.close()
            raise

    manager._build_transport = build_or_close


def _sockets_of(error: BaseException) -> Iterator[socket.socket]:
    """Yield the sockets in the local variables of an error's stack frames."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for value in frame.f_locals.values():
            # A failed TLS connection leaves only its transport behind.
            candidate = getattr(value, "_sock", None) if isinstance(value, KafkaTCPTransport) else value
            if isinstance(candidate, socket.socket):
                yield candidate
