"""Plain socket helpers for tests that speak HTTP byte by byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


def read_until_closed(client: socket.socket) -> bytes:
    """What a server says until it closes the connection, in order or by a reset."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65_536):
            said += part
    return said


@contextlib.contextmanager
def receiver(handle: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server that treats one connection as given, until the block ends."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65_536)
                handle(connection, done)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            done.set()
            thread.join()


def replying(text: bytes) -> Callable[[socket.socket, threading.Event], None]:
    return lambda connection, done: connection.sendall(text)


def dripping(start: bytes, piece: bytes = b"x") -> Callable[[socket.socket, threading.Event], None]:
    """Say the start at once, then one piece after the other, without end."""

    def drip(connection: socket.socket, done: threading.Event) -> None:
        connection.sendall(start)
        with contextlib.suppress(OSError):
            while not done.wait(0.05):
                connection.sendall(piece)

    return drip
