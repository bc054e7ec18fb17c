"""A real HTTP receiver for webhooks that can fail, hang and recover."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Message(NamedTuple):
    """A message as it was received: its path, its headers by lower-case name, and its body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class HttpReceiver:
    """What a receiver got, and how it behaves. `status` is its answer; while `hanging` is set it answers nothing."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.hanging = threading.Event()
        self.messages: list[Message] = []
        self.arrived = threading.Condition()
        self.closing = threading.Event()

    def take(self, message: Message) -> None:
        with self.arrived:
            self.messages.append(message)
            self.arrived.notify_all()

    def wait_for(self, count: int, seconds: float = 60.0) -> list[Message]:
        """Return the messages once there are this many. Raises AssertionError after `seconds`."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.messages) >= count, seconds), f"got {len(self.messages)} of {count} messages"
            return list(self.messages)


@contextmanager
def receiving() -> Iterator[HttpReceiver]:
    """Run a receiver on a free port."""
    receiver = HttpReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.take(Message(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            while receiver.hanging.is_set() and not receiver.closing.wait(0.02):
                pass
            self.send_response(receiver.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            """The client may have gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield receiver
        finally:
            receiver.closing.set()
            server.shutdown()
            thread.join()
