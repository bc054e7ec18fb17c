"""Asks a schema registry for schemas: Confluent's API, and Apicurio's for its global and content ids. One request at a time, no retries.

`HttpClient` follows no redirect, which would take the login elsewhere.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from streammetrics.connectors.http_client import HttpAnswer, HttpClient, HttpError
from streammetrics.connectors.tls import CertificateFiles
from streammetrics.errors import SourceError
from streammetrics.events.encodings.frames import IdKind, SchemaRef
from streammetrics.events.encodings.schema_text import SchemaProblemError, SchemaText, SchemaType

ANSWER_BYTES_MAX: Final = 8 << 20
REFERENCES_MAX: Final = 200
"""Most schemas that one schema may import, directly or not."""
_TYPES: Final[dict[str, SchemaType]] = {"AVRO": "AVRO", "PROTOBUF": "PROTOBUF", "JSON": "JSON"}
_UNKNOWN_CODES: Final = (40403, 40402, 40401)
"""Confluent's codes for a schema, version or subject that does not exist. Another 404 is a wrong address."""
_APICURIO_IDS: Final = {"global_id": "globalIds", "content_id": "contentIds"}


_Answer = TypeVar("_Answer")


class _Reference(msgspec.Struct, rename="camel"):
    """A schema that another one imports by its `name`: where Confluent's API has it, or Apicurio's."""

    name: str
    subject: str = ""
    version: str | int | None = None
    group_id: str | None = None
    artifact_id: str = ""


class _Schema(msgspec.Struct, rename="camel"):
    """A schema as Confluent's API sends it."""

    schema: str
    schema_type: str | None = None
    references: Sequence[_Reference] | None = None


class UnknownSchemaError(Exception):
    """The registry answers that it has no such schema."""


class RegistryError(SourceError):
    """The registry cannot be asked now, or its answer is not that of a registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConnection:
    """How to reach a registry. `id_kind` says what the ids in frames mean. `repr` shows no secret."""

    url: str
    id_kind: IdKind = "schema_id"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    timeout_ms: int = 5_000

    @property
    def place(self) -> str:
        """The address for messages, without a login."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


class RegistryClient:
    """A client of one registry. Its methods may be called from any thread. Raises ConfigError for certificates that cannot be used."""

    def __init__(self, settings: RegistryConnection) -> None:
        self.settings = settings
        files = CertificateFiles(
            section="registry",
            cafile=settings.ssl_cafile,
            certfile=settings.ssl_certfile,
            keyfile=settings.ssl_keyfile,
            password=settings.ssl_password,
        )
        self._http = HttpClient(timeout_seconds=settings.timeout_ms / 1_000, certificates=files)
        self._http.check()
        self._headers = {"Accept": "application/json, */*;q=0.5", "User-Agent": "streammetrics", **_login(settings)}

    def fetch(self, ref: SchemaRef) -> SchemaText:
        """Return a schema with all that it imports.

        Raises UnknownSchemaError, RegistryError for failures that may pass, and SchemaProblemError for a schema of an unknown kind.
        """
        if ref.kind in _APICURIO_IDS:
            return self._from_apicurio(f"{_APICURIO_IDS[ref.kind]}/{ref.id}")
        path = f"/schemas/guids/{ref.id}" if ref.kind == "guid" else f"/schemas/ids/{ref.id}"
        return self._with_references(self._answer(f"{self._confluent}{path}", _Schema))

    def check(self) -> None:
        """Raise RegistryError unless the registry answers a request that needs its login."""
        is_confluent = self.settings.id_kind == "schema_id"
        self._answer(f"{self._confluent}/subjects" if is_confluent else f"{self._apicurio}/search/artifacts?limit=1", msgspec.Raw)

    @property
    def _confluent(self) -> str:
        base, found, _ = self.settings.place.partition("/apis/registry/")
        return f"{base}/apis/ccompat/v7" if found else base

    @property
    def _apicurio(self) -> str:
        base, found, _ = self.settings.place.partition("/apis/ccompat/")
        return f"{base}/apis/registry/v2" if found else base

    def _with_references(self, answer: _Schema) -> SchemaText:
        kind = _TYPES.get(answer.schema_type or "AVRO")
        if kind is None:
            raise SchemaProblemError(f"its type {answer.schema_type} is not AVRO, PROTOBUF or JSON")
        references: dict[str, str] = {}
        self._add_references(answer, references, 0)
        return SchemaText(kind, answer.schema, references)

    def _add_references(self, answer: _Schema, found: dict[str, str], depth: int) -> None:
        """Add the references of a schema, each after its own."""
        for reference in answer.references or ():
            name, subject, version = reference.name, reference.subject, reference.version
            if name in found:
                continue
            if len(found) >= REFERENCES_MAX or depth >= REFERENCES_MAX:
                raise SchemaProblemError(f"it imports more than {REFERENCES_MAX} schemas")
            try:
                path = f"/subjects/{quote(subject, safe='')}/versions/{quote(str(version), safe='')}"
                imported = self._answer(f"{self._confluent}{path}", _Schema)
            except UnknownSchemaError:
                raise SchemaProblemError(f"its reference {name} (subject {subject}, version {version}) is not in the registry") from None
            self._add_references(imported, found, depth + 1)
            found[name] = imported.schema

    def _from_apicurio(self, path: str) -> SchemaText:
        text, kind = self._text(f"{self._apicurio}/ids/{path}")
        references: dict[str, str] = {}
        self._add_artifacts(f"{self._apicurio}/ids/{path}/references", references, 0)
        return SchemaText(_TYPES.get(kind) or guessed_type(text), text, references)

    def _add_artifacts(self, url: str, found: dict[str, str], depth: int) -> None:
        for reference in self._answer(url, list[_Reference]):
            name = reference.name
            if name in found:
                continue
            if len(found) >= REFERENCES_MAX or depth >= REFERENCES_MAX:
                raise SchemaProblemError(f"it imports more than {REFERENCES_MAX} schemas")
            group, artifact = quote(reference.group_id or "default", safe=""), quote(reference.artifact_id, safe="")
            place = f"{self._apicurio}/groups/{group}/artifacts/{artifact}/versions/{quote(str(reference.version), safe='')}"
            try:
                text, _ = self._text(f"{place}/content" if self._apicurio.endswith("/v3") else place)
                self._add_artifacts(f"{place}/references", found, depth + 1)
            except UnknownSchemaError:
                raise SchemaProblemError(f"its reference {name} is not in the registry") from None
            found[name] = text

    def _answer(self, url: str, kind: type[_Answer]) -> _Answer:
        """Return the answer to a request. Raises RegistryError for one of another shape, and as `_text`."""
        text, _ = self._text(url)
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.ValidationError as error:
            raise self._not_a_registry(f"an answer without what it must have ({error}): {text[:80]}") from None
        except (msgspec.DecodeError, RecursionError):
            raise self._not_a_registry(f"text that is not JSON: {text[:80]!r}") from None

    def _text(self, url: str) -> tuple[str, str]:
        """Return the text of an answer, and the type of schema that its header names."""
        try:
            answer = self._http.request("GET", url, self._headers)
        except HttpError as error:
            raise RegistryError(
                f"the schema registry at {self.settings.place} does not answer: {error.why}", "start it, or correct registry.url"
            ) from None
        if answer.status != 200:
            raise self._refusal(answer)
        if len(answer.body) > ANSWER_BYTES_MAX:
            raise SchemaProblemError(f"it has more than {ANSWER_BYTES_MAX} bytes")
        return answer.body.decode("utf-8", "replace"), answer.headers.get("x-registry-artifacttype", "")

    def _refusal(self, refused: HttpAnswer) -> Exception:
        try:
            found: Any = msgspec.json.decode(refused.body)
        except (msgspec.DecodeError, RecursionError):
            found = None
        answer = found if isinstance(found, dict) else {}
        place, status, message = self.settings.place, refused.status, str(answer.get("message") or "")[:200]
        name = str(answer.get("name"))  # Apicurio: NotFoundException is a path that the server does not have
        is_missing = answer.get("error_code") in _UNKNOWN_CODES or (name.endswith("NotFoundException") and name != "NotFoundException")
        if status == 404 and is_missing:
            return UnknownSchemaError(message)
        if status in (401, 403):
            fix = "set registry.username and registry.password, or registry.token, and give that user the right to read schemas"
            return RegistryError(f"the schema registry at {place} refuses the login (HTTP {status})", fix)
        if status == 404 or 300 <= status < 400:
            fix = "correct registry.url: it must be the address of the registry's API, such as http://registry:8081"
            return RegistryError(f"the server at {place} is no schema registry (HTTP {status})", fix)
        return RegistryError(f"the schema registry at {place} answers HTTP {status}{f': {message}' if message else ''}", "see its log")

    def _not_a_registry(self, what: str) -> RegistryError:
        return RegistryError(f"the server at {self.settings.place} sends {what}", "correct registry.url")


def guessed_type(text: str) -> SchemaType:
    """Return the type of a schema whose registry does not name it.

    >>> guessed_type('syntax = "proto3";'), guessed_type('{"type":"record"}'), guessed_type('{"$schema":"x","type":"object"}')
    ('PROTOBUF', 'AVRO', 'JSON')
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "PROTOBUF"
    if isinstance(found, dict) and ("$schema" in found or "properties" in found or found.get("type") == "object"):
        return "JSON"
    return "AVRO"


def _login(settings: RegistryConnection) -> dict[str, str]:
    if settings.token:
        return {"Authorization": f"Bearer {settings.token}"}
    if settings.username:
        pair = f"{settings.username}:{settings.password or ''}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
    return {}
