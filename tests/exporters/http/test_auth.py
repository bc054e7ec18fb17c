"""The login of the HTTP port over real connections: accepted and rejected credentials, and their cost."""

from __future__ import annotations

import base64
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from email.message import Message
from typing import NamedTuple

import pytest

from streammetrics.config import PasswordHash, hash_password
from streammetrics.exporters.http import auth
from streammetrics.exporters.http.answers import HttpAnswers
from streammetrics.exporters.http.auth import Login
from streammetrics.exporters.http.server import HttpServer
from streammetrics.runtime.retry import Trouble
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import Now, Pipeline, answering, two_variants

USER, PASSWORD = "scraper", "correct horse: battery ⚡"
GUARDED = ("/", "/page.js", "/page.css", "/metrics", "/api/report", "/nothing", "/healthz/", "//healthz", "/metrics?/healthz")
OPEN = ("/healthz", "/readyz")


class Response(NamedTuple):
    status: int
    headers: Message
    text: str


class Port(NamedTuple):
    server: HttpServer
    status: ProcessStatus

    def ask(self, path: str, authorization: str | bytes | None = None, method: str = "GET") -> Response:
        with closing(http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)) as connection:
            connection.request(method, path, headers={} if authorization is None else {"Authorization": authorization})
            answer = connection.getresponse()
            return Response(answer.status, answer.headers, answer.read().decode())


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def opened(pipeline: Pipeline, password_hash: PasswordHash) -> Iterator[Port]:
    status = ProcessStatus()
    answers = HttpAnswers(pipeline.exposition(status), Now(0.0))
    answers.show(pipeline.report())

    def verify(password: bytes) -> bool:
        return password_hash.matches(password)  # looked up at each call, so that tests can replace it

    with answering(HttpServer(answers, "127.0.0.1", 0, None, Login({USER: verify}))) as server:
        yield Port(server, status)


@pytest.fixture(scope="module")
def password_hash() -> PasswordHash:
    return PasswordHash.parse(hash_password(PASSWORD, cost=10))


@pytest.fixture(scope="module")
def pipeline() -> Pipeline:
    return two_variants()


@pytest.fixture
def port(pipeline: Pipeline, password_hash: PasswordHash) -> Iterator[Port]:
    yield from opened(pipeline, password_hash)


@pytest.fixture(scope="module")
def still_port(pipeline: Pipeline, password_hash: PasswordHash) -> Iterator[Port]:
    """Shared by tests that do not change it."""
    yield from opened(pipeline, password_hash)


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_login_every_path_gets_401(still_port: Port, path: str) -> None:
    answer = still_port.ask(path)
    assert (answer.status, answer.text) == (401, "log in with the user and password of the HTTP port\n")
    assert answer.headers["www-authenticate"] == 'Basic realm="streammetrics", charset="UTF-8"'
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS", "BREW"])
def test_every_method_needs_the_login(still_port: Port, method: str) -> None:
    assert still_port.ask("/metrics", method=method).status == 401


def test_with_the_login_every_path_works(still_port: Port) -> None:
    right = basic(USER, PASSWORD)
    assert [still_port.ask(path, right).status for path in ("/", "/page.js", "/page.css", "/metrics", "/api/report")] == [200] * 5
    assert still_port.ask("/nothing", right).status == 404
    assert 'streammetrics_ndcg{experiment="ranker"' in still_port.ask("/metrics", right).text


def test_the_scheme_is_case_insensitive(still_port: Port) -> None:
    assert still_port.ask("/metrics", basic(USER, PASSWORD).replace("Basic", "bAsIc")).status == 200


@pytest.mark.parametrize(
    "authorization",
    [
        basic(USER, "wrong"),
        basic(USER, ""),
        basic("", PASSWORD),
        basic("other", PASSWORD),
        basic(USER.upper(), PASSWORD),
        basic(USER, PASSWORD + " "),
        basic(f"{USER}:{PASSWORD}", ""),
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(USER.encode()).decode(),
        "Bearer " + basic(USER, PASSWORD)[6:],
        "Basic " + base64.b64encode(b"\xff\xfe:\x00").decode(),
        b"Basic \xff\xfe",
        basic("x" * 4_000, "y" * 4_000),
    ],
)
def test_all_wrong_credentials_get_the_same_response(still_port: Port, authorization: str | bytes) -> None:
    nothing, wrong = still_port.ask("/metrics"), still_port.ask("/metrics", authorization)
    assert (wrong.status, wrong.text) == (nothing.status, nothing.text)
    assert {name.lower() for name in wrong.headers} == {name.lower() for name in nothing.headers}


def test_a_wrong_user_and_a_wrong_password_cost_the_same_work(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the slow checks, because measured time is too noisy."""
    checked: list[bytes] = []
    matches = PasswordHash.matches
    monkeypatch.setattr(PasswordHash, "matches", lambda stored, password: checked.append(password) or matches(stored, password))
    for user, password in ((USER, "wrong"), ("other", "wrong"), ("other", PASSWORD), ("", "")):
        assert port.ask("/metrics", basic(user, password)).status == 401
    assert checked == [b"wrong", b"wrong", PASSWORD.encode(), b""]
    assert [port.ask("/metrics", basic(USER, PASSWORD)).status for _ in range(3)] == [200] * 3
    assert len(checked) == 5, "accepted credentials skip the slow check"
    assert port.ask("/metrics", basic(USER, PASSWORD + "x")).status == 401
    assert len(checked) == 6, "other credentials do not"


@pytest.mark.parametrize("path", OPEN)
def test_probes_need_no_login(port: Port, path: str) -> None:
    port.status.ready = True
    assert (port.ask(path).status, port.ask(path).text) == (200, "ok\n")


def test_probes_get_reasons_only_with_a_login(port: Port) -> None:
    port.status.store_trouble = Trouble(0.0, 3, "Redis at cache.internal:6379: refused")
    without, with_login = port.ask("/readyz"), port.ask("/readyz", basic(USER, PASSWORD))
    assert (without.status, without.text) == (503, "not ok; log in to read the reason\n")
    assert (with_login.status, "cache.internal" in with_login.text) == (503, True)


def test_a_wrong_login_stays_wrong_and_keeps_others_logged_in(port: Port) -> None:
    credentials = [basic(USER, "wrong"), basic(USER, "wrong"), basic(USER, PASSWORD), basic(USER, "wrong"), basic(USER, PASSWORD)]
    assert [port.ask("/metrics", credential).status for credential in credentials] == [401, 401, 200, 401, 200]


def test_probes_with_a_wrong_login_are_rejected(still_port: Port) -> None:
    assert still_port.ask("/healthz", basic(USER, "wrong")).status == 401


def test_many_logins_are_limited_and_do_not_lock_out_accepted_clients(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    right, go_on = basic(USER, PASSWORD), threading.Event()
    assert port.ask("/metrics", right).status == 200
    at_once, most = 0, 0

    def slow(stored: PasswordHash, password: bytes) -> bool:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        go_on.wait(20)
        at_once -= 1
        return False

    monkeypatch.setattr(PasswordHash, "matches", slow)
    statuses: list[int] = []
    flood = [
        threading.Thread(target=lambda number=number: statuses.append(port.ask("/metrics", basic(USER, f"guess {number}")).status))
        for number in range(3 * auth.WAITING_MAX)
    ]
    try:
        for one in flood:
            one.start()
        end = time.monotonic() + 120
        while len(statuses) < 2 * auth.WAITING_MAX and time.monotonic() < end:
            assert port.ask("/metrics", right).status == 200
            assert port.ask("/healthz").status == 200
        assert statuses == [503] * (2 * auth.WAITING_MAX)
    finally:
        go_on.set()
        for one in flood:
            one.join(20)
    assert sorted(statuses) == [401] * auth.WAITING_MAX + [503] * (2 * auth.WAITING_MAX)
    assert most == 1


def test_rejected_logins_are_logged_without_credentials(port: Port, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        port.ask("/metrics", basic(f"typed-{number}", "into-the-wrong-field"))
    port.ask("/metrics")
    output = capsys.readouterr()
    lines = [line for line in (output.out + output.err).splitlines() if "login refused" in line]
    assert len(lines) == 1, "one line per minute"
    assert "127.0.0.1" in lines[0]
    assert "typed" not in output.out + output.err
    assert "wrong-field" not in output.out + output.err


def test_each_user_of_several_has_their_own_password(pipeline: Pipeline) -> None:
    stored = {name: PasswordHash.parse(hash_password(f"{name}'s", cost=10)) for name in ("ada", "bob")}
    answers = HttpAnswers(pipeline.exposition(ProcessStatus()), Now(0.0))
    answers.show(pipeline.report())
    with answering(
        HttpServer(answers, "127.0.0.1", 0, None, Login({name: stored_value.matches for name, stored_value in stored.items()}))
    ) as server:
        port = Port(server, ProcessStatus())
        for _ in range(2):  # the second time they are recognised
            for user, password, status in (("ada", "ada's", 200), ("bob", "bob's", 200), ("ada", "bob's", 401), ("eve", "ada's", 401)):
                assert port.ask("/metrics", basic(user, password)).status == status
