"""The HTTP client against real receivers: that answer, refuse, hang, send byte by byte, or redirect."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streammetrics.connectors.http_client import HttpClient, HttpError
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import ConfigError
from streammetrics.exporters.http.connections import HttpRules
from streammetrics.exporters.http.server import HttpServer
from tests.support.committed_state import answering
from tests.support.gates import shown_answers
from tests.support.sockets import dripping, read_until_closed, receiver, replying
from tests.tools.servers.certificates import Authority
from tests.tools.servers.process import free_port


def http_client(timeout_seconds: float = 20, cafile: Path | None = None) -> HttpClient:
    files = CertificateFiles(section="client", cafile=None if cafile is None else str(cafile))
    return HttpClient(timeout_seconds=timeout_seconds, certificates=files)


CLIENT, HASTY = http_client(), http_client(0.5)


def test_any_status_is_an_answer_with_its_body_and_headers() -> None:
    with receiver(replying(b"HTTP/1.1 418 no\r\nContent-Length: 3\r\nX-Tea: Yes\r\n\r\npot")) as url:
        answer = CLIENT.request("POST", url + "/brew?cups=2", {"x-a": "b"}, b"{}")
    assert (answer.status, answer.body, answer.headers["x-tea"]) == (418, b"pot", "Yes")


def test_a_redirect_is_not_followed() -> None:
    with receiver(replying(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")) as url:
        assert CLIENT.request("GET", url, {}).status == 302


def hang(connection: socket.socket, done: threading.Event) -> None:
    done.wait()


SLOW = {
    "no word": hang,
    "headers without end": dripping(b"HTTP/1.1 200 OK\r\nX-Long: "),
    "a body with its length": dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"),
    "a body up to the end of the connection": dripping(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
    "a body of HTTP/1.0": dripping(b"HTTP/1.0 200 OK\r\n\r\n"),
    "chunks": dripping(b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
}


@pytest.mark.parametrize("handle", SLOW.values(), ids=SLOW)
def test_a_receiver_that_takes_too_long_is_left(handle: Callable[[socket.socket, threading.Event], None]) -> None:
    with receiver(handle) as url, pytest.raises(HttpError, match=r"http://127\.0\.0\.1:\d+: no answer within 0.5 s"):
        HASTY.request("GET", url, {})


def test_a_look_up_of_the_host_that_hangs_holds_nobody_and_nothing_is_sent_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    look_up, goes_on = socket.getaddrinfo, threading.Event()

    def slowly(*args: Any, **options: Any) -> Any:
        goes_on.wait()
        return look_up(*args, **options)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(socket, "getaddrinfo", slowly)
        with pytest.raises(HttpError, match=r"no answer within 0.5 s"):
            HASTY.request("GET", f"http://127.0.0.1:{listening.getsockname()[1]}", {})
        goes_on.set()
        connection, _ = listening.accept()
        with connection:
            assert read_until_closed(connection) == b""


def test_a_closed_port_and_an_unknown_host_are_errors() -> None:
    with pytest.raises(HttpError, match=r"127\.0\.0\.1:\d+: Connection refused"):
        CLIENT.request("GET", f"http://127.0.0.1:{free_port()}", {})
    with pytest.raises(HttpError, match=r"http://nowhere\.invalid"):
        CLIENT.request("GET", "http://nowhere.invalid", {})
    with pytest.raises(HttpError, match=r"http://no\.\.where: it is not the name of a host"):
        CLIENT.request("GET", "http://no..where", {})


def test_an_answer_that_is_no_http_is_an_error() -> None:
    with receiver(replying(b"220 smtp ready\r\n")) as url, pytest.raises(HttpError):
        CLIENT.request("GET", url, {})


def test_https_needs_an_authority_that_is_trusted(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "a"), Authority(tmp_path / "b")
    identity = authority.server()
    rules = HttpRules(ssl_certfile=str(identity.certfile), ssl_keyfile=str(identity.keyfile))
    with answering(HttpServer(shown_answers(), "127.0.0.1", 0, rules)) as server:
        trusting = http_client(cafile=authority.cafile)
        assert trusting.request("GET", server.url + "/api/report", {}).status == 200
        with pytest.raises(HttpError, match="its certificate is not trusted"):
            http_client(cafile=other.cafile).request("GET", server.url, {})
    with pytest.raises(ConfigError, match=r"client\.ssl_cafile"):
        http_client(cafile=tmp_path / "none.pem").request("GET", server.url, {})
