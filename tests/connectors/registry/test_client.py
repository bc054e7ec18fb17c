"""The client tells a schema that does not exist from a registry that cannot be asked, and follows references but no redirects."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from streammetrics.connectors.registry import client as module
from streammetrics.connectors.registry.client import RegistryClient, RegistryConnection, RegistryError, UnknownSchemaError
from streammetrics.events.encodings.frames import SchemaRef
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText

REF = SchemaRef("schema_id", "7", 5)


class Answers:
    """A server with fixed answers: path -> (status, headers, content)."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization")))
                status, headers, content = outer.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def give(self, path: str, content: object, status: int = 200, **headers: str) -> None:
        self.answers[path] = (status, headers, content if isinstance(content, bytes) else json.dumps(content).encode())


@pytest.fixture
def answers() -> Iterator[Answers]:
    answers = Answers()
    thread = threading.Thread(target=answers.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield answers
    answers.server.shutdown()
    thread.join()
    answers.server.server_close()


def client(answers: Answers, path: str = "", **settings: Any) -> RegistryClient:
    return RegistryClient(RegistryConnection(url=answers.url + path, **settings))


def test_a_schema_comes_with_all_that_it_imports_in_order(answers: Answers) -> None:
    first = {"name": "a.proto", "subject": "a/b", "version": 1}
    second = {"name": "b.proto", "subject": "b", "version": 2}
    answers.give("/schemas/ids/7", {"schema": "main", "schemaType": "PROTOBUF", "references": [first, second]})
    answers.give("/subjects/a%2Fb/versions/1", {"schema": "A", "references": [second]})
    answers.give("/subjects/b/versions/2", {"schema": "B"})
    found = client(answers).fetch(REF)
    assert found == SchemaText("PROTOBUF", "main", {"b.proto": "B", "a.proto": "A"})
    assert list(found.references) == ["b.proto", "a.proto"]


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        ({"error_code": 40403, "message": "Schema 7 not found"}, {}),
        ({"error_code": 404, "name": "ArtifactNotFoundException", "message": "No artifact"}, {}),
    ],
)
def test_a_schema_that_does_not_exist_is_unknown(answers: Answers, content: object, headers: dict[str, str]) -> None:
    answers.give("/schemas/ids/7", content, 404, **headers)
    with pytest.raises(UnknownSchemaError):
        client(answers).fetch(REF)


@pytest.mark.parametrize(
    ("status", "content", "says"),
    [
        (404, b"<html>nothing here</html>", "is no schema registry"),
        (404, {"error_code": 404, "name": "NotFoundException"}, "is no schema registry"),
        (404, {"error_code": 0, "message": "Could not find resource"}, "is no schema registry"),
        (404, ["not", "an", "object"], "is no schema registry"),
        (500, {"message": "disk full"}, "answers HTTP 500: disk full"),
        (429, b"", "answers HTTP 429"),
        (401, b"", "refuses the login"),
        (403, b"", "refuses the login"),
        (200, b"<html>welcome</html>", "sends text that is not JSON"),
        (200, {"id": 7}, "sends an answer without what it must have .*required field `schema`"),
        (200, {"schema": {"type": "string"}}, r"Expected `str`, got `object` - at `\$\.schema`"),
        (200, {"schema": "x", "schemaType": ["AVRO"]}, r"at `\$\.schemaType`"),
        (200, {"schema": "x", "references": 7}, r"Expected `array \| null`, got `int` - at `\$\.references`"),
        (200, {"schema": "x", "references": ["a.proto"]}, r"Expected `object`, got `str` - at `\$\.references"),
        (200, {"schema": "x", "references": [{"name": "a", "subject": ["a"], "version": 1}]}, r"at `\$\.references\[0\]\.subject`"),
        (200, [7], "sends an answer without what it must have .*Expected `object`, got `array`"),
        (200, b"\xff\xfe", "sends text that is not JSON"),
        (404, {"error_code": [40403], "name": 7, "message": {}}, "is no schema registry"),
        (302, b"", "is no schema registry"),
    ],
)
def test_any_other_answer_may_pass_and_is_not_taken_for_an_unknown_schema(
    answers: Answers, status: int, content: object, says: str
) -> None:
    answers.give("/schemas/ids/7", content, status, Location=f"{answers.url}/elsewhere")
    with pytest.raises(RegistryError, match=says):
        client(answers, username="alice", password="open sesame").fetch(REF)
    assert [path for path, _ in answers.asked] == ["/schemas/ids/7"], "a redirect was followed"


def test_an_import_of_the_wrong_shape_is_named(answers: Answers) -> None:
    answers.give("/schemas/ids/7", {"schema": "x", "references": [{"name": "a", "subject": "a", "version": 1}]})
    answers.give("/subjects/a/versions/1", {"schema": None})
    with pytest.raises(RegistryError, match=r"got `null` - at `\$\.schema`"):
        client(answers).fetch(REF)


@pytest.mark.parametrize("references", [{"name": "a"}, ["a"], None, [{"artifactId": "a"}], [{"name": "a", "artifactId": 7}]])
def test_references_of_apicurio_in_the_wrong_shape_are_an_error_of_the_registry(answers: Answers, references: object) -> None:
    answers.give("/apis/registry/v2/ids/globalIds/7", b'syntax = "proto3";')
    answers.give("/apis/registry/v2/ids/globalIds/7/references", references)
    with pytest.raises(RegistryError, match=r"sends an answer without what it must have .*(Expected|required)"):
        client(answers, "/apis/registry/v2").fetch(SchemaRef("global_id", "7", 9))


def test_a_server_that_is_not_there_may_come_back(answers: Answers) -> None:
    with pytest.raises(RegistryError, match=r"does not answer: .*refused"):
        RegistryClient(RegistryConnection(url="http://127.0.0.1:1")).fetch(REF)


def test_an_answer_without_end_is_cut(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_BYTES_MAX", 100)
    answers.give("/schemas/ids/7", {"schema": "x" * 200})
    with pytest.raises(SchemaProblemError, match="more than 100 bytes"):
        client(answers).fetch(REF)


@pytest.mark.parametrize(
    "broken", [{"schema": "x", "schemaType": "XML"}, {"schema": "x", "references": [{"name": "a", "subject": "a", "version": 1}]}]
)
def test_a_schema_that_cannot_be_used_is_a_problem_of_its_own(answers: Answers, broken: dict[str, object]) -> None:
    answers.give("/schemas/ids/7", broken)
    answers.give("/subjects/a/versions/1", {"error_code": 40401}, 404)
    with pytest.raises(SchemaProblemError):
        client(answers).fetch(REF)


def test_schemas_that_import_each_other_end(answers: Answers) -> None:
    answers.give("/schemas/ids/7", {"schema": "x", "references": [{"name": "r0", "subject": "s0", "version": 1}]})
    for number in range(300):
        reference = {"name": f"r{number + 1}", "subject": f"s{number + 1}", "version": 1}
        answers.give(f"/subjects/s{number}/versions/1", {"schema": "y", "references": [reference]})
    with pytest.raises(SchemaProblemError, match="imports more than 200 schemas"):
        client(answers).fetch(REF)


def test_ids_of_apicurio_use_its_own_api_wherever_the_address_points(answers: Answers) -> None:
    reference = {"artifactId": "common", "version": "3", "name": "common.proto"}
    answers.give("/apis/registry/v2/ids/globalIds/7", b'syntax = "proto3";')
    answers.give("/apis/registry/v2/ids/globalIds/7/references", [reference])
    answers.give("/apis/registry/v2/groups/default/artifacts/common/versions/3", b"text")
    answers.give("/apis/registry/v2/groups/default/artifacts/common/versions/3/references", [])
    for path in ("/apis/ccompat/v7", "/apis/registry/v2"):
        found = client(answers, path).fetch(SchemaRef("global_id", "7", 9))
        assert found == SchemaText("PROTOBUF", 'syntax = "proto3";', {"common.proto": "text"})


def test_a_guid_is_asked_for_by_its_name(answers: Answers) -> None:
    answers.give("/schemas/guids/abc", {"schema": '"string"', "schemaType": None})
    assert client(answers).fetch(SchemaRef("guid", "abc", 0)) == SchemaText("AVRO", '"string"')


@pytest.mark.parametrize(
    ("settings", "sent"),
    [({"username": "a", "password": "ü"}, "Basic YTrDvA=="), ({"token": "t"}, "Bearer t"), ({}, None)],
)
def test_the_login_is_a_header_and_in_no_message(answers: Answers, settings: dict[str, str], sent: str | None) -> None:
    answers.give("/schemas/ids/7", {"schema": "x"})
    asking = client(answers, **settings)
    asking.fetch(REF)
    assert answers.asked == [("/schemas/ids/7", sent)]
    assert "ü" not in repr(asking.settings)
    assert "'t'" not in repr(asking.settings)
