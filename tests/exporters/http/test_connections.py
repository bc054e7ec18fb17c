"""The HTTP port with slow clients, too many clients, and TLS, over real sockets."""

from __future__ import annotations

import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from streammetrics.errors import ConfigError, Problem
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.auth import Login
from streammetrics.exporters.http.connections import HttpRules, tls_context
from streammetrics.exporters.http.server import HttpServer
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import Now, answering, two_variants
from tests.support.sockets import read_until_closed
from tests.support.timing import time_bound
from tests.tools.servers.certificates import Authority, Identity
from tests.tools.servers.process import wait_until

SHORT_SECONDS = 0.3
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def answers() -> HttpAnswers:
    pipeline, status = two_variants(), ProcessStatus()
    answers = HttpAnswers(pipeline.exposition(status), Now(0.0))
    answers.show(pipeline.report())
    return answers


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.server()


def serving(answers: HttpAnswers, rules: HttpRules) -> AbstractContextManager[HttpServer]:
    return answering(HttpServer(answers, "127.0.0.1", 0, rules))


def connected(server: HttpServer) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=10)


@pytest.fixture(scope="module")
def hasty(answers: HttpAnswers) -> Iterator[HttpServer]:
    """A server with a short timeout. The client sockets wait for ten seconds, so an earlier close comes from the server."""
    with serving(answers, HttpRules(request_seconds=SHORT_SECONDS)) as server:
        yield server


@pytest.fixture(scope="module")
def sealed(answers: HttpAnswers, identity: Identity) -> Iterator[HttpServer]:
    """A server with TLS."""
    with serving(answers, HttpRules(ssl_certfile=str(identity.certfile), ssl_keyfile=str(identity.keyfile))) as server:
        yield server


class TestSlowClients:
    def test_an_incomplete_request_gets_408(self, hasty: HttpServer) -> None:
        with connected(hasty) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
            assert read_until_closed(client).startswith(b"HTTP/1.1 408 ")

    @time_bound(20 * SHORT_SECONDS)
    def test_a_slow_request_times_out(self, hasty: HttpServer, seconds_max: float) -> None:
        began = time.monotonic()
        with connected(hasty) as client:
            client.settimeout(SHORT_SECONDS / 10)
            response = b""
            for _ in range(1_000):
                try:
                    client.sendall(b"X")
                    response = client.recv(100)
                    break
                except TimeoutError:
                    continue
                except OSError:
                    break
            else:
                pytest.fail("the connection was not closed")
        assert response == b"" or response.startswith(b"HTTP/1.1 408 ")
        assert time.monotonic() - began < seconds_max

    def test_a_slow_second_request_times_out(self, hasty: HttpServer) -> None:
        with connected(hasty) as client:
            client.sendall(REQUEST)
            first = client.recv(65_536)
            client.sendall(b"GET /metrics HT")
            assert first.startswith(b"HTTP/1.1 200 ")
            assert b"HTTP/1.1 408 " in read_until_closed(client)

    def test_a_silent_connection_is_closed(self, hasty: HttpServer) -> None:
        with connected(hasty) as client:
            assert read_until_closed(client) == b""

    def test_an_idle_connection_is_closed(self, hasty: HttpServer) -> None:
        with connected(hasty) as client:
            client.sendall(REQUEST)
            assert read_until_closed(client).count(b"HTTP/1.1") == 1

    def test_a_connection_with_regular_requests_stays_open(self, answers: HttpAnswers) -> None:
        began, count, sockets = time.monotonic(), 0, set()
        with (
            serving(answers, HttpRules(request_seconds=1.0)) as server,
            closing(http.client.HTTPConnection(server.host, server.port, timeout=10)) as connection,
        ):
            while time.monotonic() - began < 1.2:
                connection.request("GET", "/healthz")
                assert connection.getresponse().read() == b"ok\n"
                count += 1
                sockets.add(connection.sock.getsockname())
                time.sleep(0.05)
        assert count > 1
        assert len(sockets) == 1, "the client had to connect again"

    def test_an_unread_response_is_dropped(self, hasty: HttpServer) -> None:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            client.settimeout(10)
            client.connect((hasty.host, hasty.port))
            client.setblocking(False)

            def is_dropped() -> bool:
                try:
                    client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
                except BlockingIOError:
                    return False
                except (ConnectionResetError, BrokenPipeError):
                    return True
                return False

            wait_until(is_dropped, what="the server drops responses for a client that reads nothing")

    def test_unread_responses_are_dropped_when_the_server_stops(
        self, answers: HttpAnswers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("streammetrics.exporters.http.server.STOP_SECONDS", SHORT_SECONDS)
        refusals = 0

        def is_stuck(client: socket.socket) -> bool:
            """Whether the server has read nothing in five checks, because it cannot send its response."""
            nonlocal refusals
            try:
                client.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000)
                refusals = 0
            except BlockingIOError:
                refusals += 1
            return refusals >= 5

        with socket.socket() as client:
            with serving(answers, HttpRules(request_seconds=60)) as server:
                for end, room in ((client, socket.SO_RCVBUF), (server._socket, socket.SO_SNDBUF), (server._socket, socket.SO_RCVBUF)):
                    end.setsockopt(socket.SOL_SOCKET, room, 4_096)  # accepted sockets inherit the size
                client.connect((server.host, server.port))
                client.setblocking(False)
                wait_until(lambda: is_stuck(client), what="nothing more fits between the two")
                server.stop()
            client.settimeout(10)
            assert b" 200 OK" in read_until_closed(client)
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def is_ok(client: socket.socket) -> bool:
    """Ask for /healthz and read the whole response."""
    client.sendall(REQUEST)
    response = b""
    while not response.endswith(b"ok\n"):
        part = client.recv(65_536)
        if not part:
            return False
        response += part
    return response.startswith(b"HTTP/1.1 200 ")


class TestTooManyClients:
    def test_a_further_connection_replaces_the_one_that_waited_longest(self, answers: HttpAnswers) -> None:
        with serving(answers, HttpRules(connections_max=4, request_seconds=600.0)) as server, ExitStack() as held:
            inside = [held.enter_context(connected(server)) for _ in range(4)]
            for client in inside:
                assert is_ok(client)
            assert is_ok(inside[0])
            outside = held.enter_context(connected(server))
            assert is_ok(outside)
            assert read_until_closed(inside[1]) == b"", "closed at once, not after the timeout of this socket"
            for client in (inside[0], inside[2], inside[3]):
                client.setblocking(False)
                with pytest.raises(BlockingIOError):
                    client.recv(1)

    @pytest.mark.parametrize("sent", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\n"], ids=["nothing", "a word", "a line"])
    def test_many_half_open_connections_keep_out_no_probe(self, answers: HttpAnswers, sent: bytes) -> None:
        with serving(answers, HttpRules(connections_max=40, request_seconds=600.0)) as server, ExitStack() as held:
            for _ in range(250):
                held.enter_context(connected(server)).sendall(sent)
            for _ in range(5):
                probe = held.enter_context(connected(server))
                assert is_ok(probe)

    def test_half_open_handshakes_keep_out_no_probe(self, answers: HttpAnswers, identity: Identity, authority: Authority) -> None:
        rules = HttpRules(ssl_certfile=str(identity.certfile), ssl_keyfile=str(identity.keyfile), connections_max=8, request_seconds=600.0)
        with serving(answers, rules) as server, ExitStack() as held:
            for _ in range(60):
                held.enter_context(connected(server))
            assert asked_by_tls(server, authority.cafile) == b"ok\n"

    def test_a_connection_whose_request_is_handled_keeps_its_place(self, answers: HttpAnswers) -> None:
        checked = threading.Event()

        def verify(password: bytes) -> bool:
            return checked.wait(60)

        login = Login({"scraper": verify})
        question = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Basic c2NyYXBlcjp4\r\n\r\n"
        with answering(HttpServer(answers, "127.0.0.1", 0, HttpRules(connections_max=4), login)) as server, ExitStack() as held:
            busy = held.enter_context(connected(server))
            busy.sendall(question)
            wait_until(
                lambda: any(protocol.is_server_busy for protocol in server._socket.protocols.values()), what="the request is handled"
            )
            for _ in range(20):
                held.enter_context(connected(server)).sendall(b"GET")
            checked.set()
            assert busy.recv(65_536).startswith(b"HTTP/1.1 200 ")

    def test_reaching_the_limit_is_logged_once_and_so_is_its_end(self, answers: HttpAnswers) -> None:
        """The log must show why a process cannot be scraped."""
        with serving(answers, HttpRules(connections_max=4)) as server, capture_logs() as lines:
            server._socket.quiet_seconds = SHORT_SECONDS
            for _ in range(3):
                with ExitStack() as held:
                    for _ in range(8):
                        held.enter_context(connected(server)).sendall(b"GET")

            def over() -> bool:
                connected(server).close()
                return len(lines) > 1

            wait_until(over, what="the log shows the end of the limit")
        assert lines == [
            {
                "event": "http.connections_max is reached: each further connection closes the one that has waited longest for its client",
                "connections_max": 4,
                "log_level": "warning",
            },
            {"event": "connections are below http.connections_max again", "log_level": "info"},
        ]

    def test_handshakes_count_and_time_out(self, answers: HttpAnswers, identity: Identity, authority: Authority) -> None:
        rules = HttpRules(
            ssl_certfile=str(identity.certfile), ssl_keyfile=str(identity.keyfile), connections_max=4, request_seconds=SHORT_SECONDS
        )
        with serving(answers, rules) as server, ExitStack() as held:
            silent = [held.enter_context(connected(server)) for _ in range(8)]
            assert [read_until_closed(client) for client in silent] == [b""] * 8
            assert asked_by_tls(server, authority.cafile) == b"ok\n"


def everything_or_reset(client: socket.socket) -> bytes:
    try:
        return client.recv(65_536)
    except ConnectionResetError:
        return b""


def asked_by_tls(server: HttpServer, cafile: Path) -> bytes:
    context = ssl.create_default_context(cafile=str(cafile))
    with closing(http.client.HTTPSConnection(server.host, server.port, timeout=10, context=context)) as connection:
        connection.request("GET", "/healthz")
        return connection.getresponse().read()


class TestTls:
    def test_a_client_that_trusts_the_authority_gets_a_response(self, sealed: HttpServer, authority: Authority) -> None:
        assert sealed.url == f"https://{sealed.host}:{sealed.port}"
        assert asked_by_tls(sealed, authority.cafile) == b"ok\n"

    def test_a_client_that_does_not_trust_it_refuses(self, sealed: HttpServer, tmp_path: Path) -> None:
        with pytest.raises(ssl.SSLCertVerificationError):
            asked_by_tls(sealed, Authority(tmp_path).cafile)

    def test_insecure_tls_versions_are_rejected(self, identity: Identity) -> None:
        context = tls_context(HttpRules(ssl_certfile=str(identity.bothfile)))
        assert context is not None
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2

    def test_a_renewed_certificate_is_used_without_a_restart(self, answers: HttpAnswers, tmp_path: Path) -> None:
        former = Authority(tmp_path / "files")
        http_server = former.server()
        (tmp_path / "former.pem").write_bytes(former.cafile.read_bytes())
        with serving(answers, HttpRules(ssl_certfile=str(http_server.certfile), ssl_keyfile=str(http_server.keyfile))) as server:
            assert asked_by_tls(server, former.cafile) == b"ok\n"
            former_certificate = http_server.certfile.read_bytes()
            renewed = Authority(tmp_path / "files")
            renewed.server()
            key = http_server.keyfile.read_bytes()
            http_server.keyfile.write_bytes(b"half written")
            with capture_logs() as logged:
                assert asked_by_tls(server, tmp_path / "former.pem") == b"ok\n", "the former one stays until both files fit"
                assert asked_by_tls(server, tmp_path / "former.pem") == b"ok\n"
            assert [line["event"] for line in logged] == ["the renewed certificate cannot be used; the former one stays in use"]
            http_server.keyfile.write_bytes(key)
            assert asked_by_tls(server, renewed.cafile) == b"ok\n"
            assert http_server.certfile.read_bytes() != former_certificate

    def test_a_client_without_tls_gets_no_response(self, sealed: HttpServer) -> None:
        with connected(sealed) as client:
            client.sendall(REQUEST)
            assert b"HTTP" not in read_until_closed(client)

    def test_key_and_certificate_can_be_in_one_file(self, answers: HttpAnswers, identity: Identity, authority: Authority) -> None:
        with serving(answers, HttpRules(ssl_certfile=str(identity.bothfile))) as server:
            assert asked_by_tls(server, authority.cafile) == b"ok\n"

    def test_a_key_can_have_a_password(self, answers: HttpAnswers, identity: Identity, authority: Authority) -> None:
        rules = HttpRules(
            ssl_certfile=str(identity.certfile), ssl_keyfile=str(identity.locked_keyfile), ssl_password=authority.key_password
        )
        assert authority.key_password not in repr(rules)
        with serving(answers, rules) as server:
            assert asked_by_tls(server, authority.cafile) == b"ok\n"


class TestFilesThatDoNotFit:
    """Each problem is reported at the start with its setting, before the port opens."""

    def problem(self, **files: Path | str) -> Problem:
        with pytest.raises(ConfigError) as caught:
            tls_context(HttpRules(**{name: str(path) for name, path in files.items()}))
        (problem,) = caught.value.problems
        return problem

    def test_a_key_of_another_certificate(self, identity: Identity, authority: Authority) -> None:
        other = authority.server("other")
        problem = self.problem(ssl_certfile=identity.certfile, ssl_keyfile=other.keyfile)
        assert (problem.key, problem.value) == ("http.ssl_keyfile", str(other.keyfile))
        assert "must hold the key of the first certificate in http.ssl_certfile" in problem.allowed

    def test_a_certificate_without_a_key(self, identity: Identity) -> None:
        problem = self.problem(ssl_certfile=identity.certfile)
        assert problem.key == "http.ssl_certfile"
        assert "name the file of the key in http.ssl_keyfile" in problem.allowed

    def test_a_key_in_the_place_of_the_certificate(self, identity: Identity) -> None:
        problem = self.problem(ssl_certfile=identity.keyfile, ssl_keyfile=identity.keyfile)
        assert problem.key == "http.ssl_certfile"
        assert "must hold a certificate in PEM" in problem.allowed

    def test_a_certificate_in_the_place_of_the_key(self, identity: Identity) -> None:
        problem = self.problem(ssl_certfile=identity.certfile, ssl_keyfile=identity.certfile)
        assert problem.key == "http.ssl_keyfile"
        assert "must hold the private key in PEM" in problem.allowed

    def test_a_missing_password_of_a_key_is_not_prompted_for(self, identity: Identity) -> None:
        problem = self.problem(ssl_certfile=identity.certfile, ssl_keyfile=identity.locked_keyfile)
        assert (problem.key, problem.value) == ("http.ssl_password", "(empty)")

    def test_a_wrong_password_of_a_key(self, identity: Identity) -> None:
        problem = self.problem(ssl_certfile=identity.certfile, ssl_keyfile=identity.locked_keyfile, ssl_password="hunter2")
        assert (problem.key, problem.value) == ("http.ssl_password", "***")
        assert "hunter2" not in str(problem)

    def test_a_password_too_long_for_openssl(self, identity: Identity) -> None:
        problem = self.problem(ssl_certfile=identity.certfile, ssl_keyfile=identity.locked_keyfile, ssl_password="x" * 5_000)
        assert problem.key == "http.ssl_password"

    def test_all_missing_files_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as caught:
            tls_context(HttpRules(ssl_certfile=str(tmp_path / "none"), ssl_keyfile=str(tmp_path)))
        assert [problem.key for problem in caught.value.problems] == ["http.ssl_certfile", "http.ssl_keyfile"]
