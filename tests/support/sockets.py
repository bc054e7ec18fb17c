"""Plain socket helpers for tests that speak HTTP byte by byte."""

from __future__ import annotations

import contextlib
import socket


def read_until_closed(client: socket.socket) -> bytes:
    """What a server says until it closes the connection, in order or by a reset."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65_536):
            said += part
    return said
