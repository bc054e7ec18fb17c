"""Marks over a real connection: who may post what, and where it appears."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from streammetrics.config import PasswordHash, hash_password
from streammetrics.errors import StoreError
from streammetrics.exporters.http.auth import Login
from streammetrics.exporters.http.server import HttpServer
from streammetrics.exporters.http.views import HttpViews
from streammetrics.reports.marks import BODY_BYTES_MAX, SHOWN_MAX
from streammetrics.runtime.publish.mark_store import MarkStore
from streammetrics.runtime.status import ProcessStatus
from tests.support.committed_state import Now, answering, two_variants

JSON = {"Content-Type": "application/json"}
NOW_MS = 1_732_183_200_000


class Port(NamedTuple):
    server: HttpServer
    views: HttpViews

    def ask(
        self, method: str = "GET", path: str = "/api/marks", body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with closing(http.client.HTTPConnection(self.server.host, self.server.port, timeout=30)) as connection:
            connection.request(method, path, content, JSON if headers is None else headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if answer.headers["content-type"] == "application/json" else text


def served(login: Login | None = None, publishes: bool = True) -> Iterator[Port]:
    pipeline, status = two_variants(), ProcessStatus()
    add = MarkStore(status, Now(0.0)).add if publishes else None
    views = HttpViews(pipeline.exposition(status), Now(0.0), publishes=publishes, wall_ms=lambda: NOW_MS, add_marks=add)
    views.show(pipeline.report())
    with answering(HttpServer(views, "127.0.0.1", 0, None, login)) as server:
        yield Port(server, views)


@pytest.fixture
def port() -> Iterator[Port]:
    yield from served()


@pytest.fixture
def guarded() -> Iterator[Port]:
    yield from served(Login({"ada": PasswordHash.parse(hash_password("word", cost=10)).matches}))


def test_a_posted_deploy_is_listed_polled_and_scraped(port: Port) -> None:
    mark = {"at_ms": NOW_MS, "kind": "deploy", "text": "ranker 7.2", "experiment": "ranker", "ended_ms": None, "alert": ""}
    assert port.ask("POST", body={"text": "ranker 7.2", "experiment": "ranker"}) == (201, {"marks": [mark]})
    assert port.ask() == (200, {"marks": [mark]})
    assert port.ask(path="/api/pulse")[1]["marks"] == [mark]
    series = 'streammetrics_mark_timestamp_seconds{experiment="ranker",kind="deploy",text="ranker 7.2"} 1.7321832e+09'
    assert series in port.ask(path="/metrics")[1]


def test_the_series_are_bounded_and_a_repeated_text_has_its_newest_time(port: Port) -> None:
    for number in range(SHOWN_MAX + 5):
        port.ask("POST", body={"text": f"v{number}", "at": 1_000 * number})
    port.ask("POST", body={"text": "v24", "at": 90_000})
    lines = [line for line in port.ask(path="/metrics")[1].splitlines() if line.startswith("streammetrics_mark_")]
    assert len(lines) == SHOWN_MAX
    assert [line.rpartition(" ")[2] for line in lines if 'text="v24"' in line] == ["90.0"]


def test_a_post_needs_the_login_of_the_port(guarded: Port) -> None:
    assert guarded.ask("POST", body={"text": "a"})[0] == 401
    assert guarded.ask()[0] == 401
    right = {"Authorization": "Basic " + base64.b64encode(b"ada:word").decode()}
    assert guarded.ask("POST", body={"text": "a"}, headers={**JSON, **right})[0] == 201
    assert len(guarded.ask(headers=right)[1]["marks"]) == 1


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_page_of_another_site_may_send_is_refused(port: Port, kind: str) -> None:
    status, said = port.ask("POST", body=b'{"text": "a"}', headers={"Content-Type": kind})
    assert (status, said) == (415, {"error": "content-type: send application/json"})
    assert port.ask()[1] == {"marks": []}
    assert port.ask("OPTIONS")[0] == 405


def test_a_bad_body_is_refused_with_the_reason(port: Port) -> None:
    status, said = port.ask("POST", body={"text": ""})
    assert (status, said["error"].partition(";")[0]) == (400, "text: got ''")
    for other in (port.ask("POST", path="/api/report", body={"text": "a"}), port.ask("PUT", body={"text": "a"})):
        assert other == (413, "requests must not have a body\n")


def test_a_body_is_taken_up_to_its_limit_and_above_it_the_limit_is_said(port: Port) -> None:
    mark = json.dumps({"text": "a"}).encode()
    assert port.ask("POST", body=mark.ljust(BODY_BYTES_MAX))[0] == 201
    above = 413, {"error": "the body has more than 65536 bytes; post fewer marks at a time"}
    assert port.ask("POST", body=mark.ljust(BODY_BYTES_MAX + 1)) == above
    for claimed in ("100000", "9" * 20):
        assert port.ask("POST", body=b"", headers={**JSON, "Content-Length": claimed}) == above
    endless = {**JSON, "Transfer-Encoding": "chunked"}
    assert port.ask("POST", headers=endless) == (411, {"error": "content-length: send the length of the body, and no transfer-encoding"})


def test_a_worker_and_an_unavailable_store_say_so(port: Port) -> None:
    for worker in served(publishes=False):
        status, said = worker.ask("POST", body={"text": "a"})
        assert (status, said["error"]) == (503, "this process keeps no marks; post to the exporter of its namespace")

    def away(marks: object) -> None:
        raise StoreError("Redis at cache.internal: refused")

    port.views.add_marks = away
    status, said = port.ask("POST", body={"text": "a"})
    assert (status, said) == (503, {"error": "the mark cannot be stored now; try again"})
