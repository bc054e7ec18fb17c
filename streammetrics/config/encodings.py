"""Settings of encodings: the schema registry, and what single topics have instead of the settings for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from streammetrics.config.addresses import http_parts, is_this_machine
from streammetrics.config.fields import (
    PATH_OR_EMPTY,
    Conflict,
    OptionalSecret,
    OptionalText,
    OptionalUserName,
    Section,
    Text,
    Whole,
    key_without_certificate,
    milliseconds,
    setting,
)
from streammetrics.events.envelopes import Envelope
from streammetrics.events.mappings.rules import Format

Encoding: TypeAlias = Literal["json", "avro", "protobuf"]
FrameName: TypeAlias = Literal["none", "confluent", "apicurio", "single_object"]


def _registry_url(url: str | None) -> str | None:
    if url is None:
        return None
    parts = http_parts(url)
    if parts.query or parts.fragment:
        raise ValueError("the address is http:// or https://, a host, and the path of the registry's API if it has one")
    if "@" in parts.netloc:
        raise ValueError("it must not contain a login: set registry.username and registry.password")
    return url


def _header_text(secret: SecretStr | None) -> SecretStr | None:
    """Check a secret that is sent in a header of HTTP."""
    if secret is not None and not (secret.get_secret_value().isascii() and secret.get_secret_value().isprintable()):
        raise ValueError("only printable ASCII characters are allowed")
    return secret


class RegistrySettings(Section):
    url: Annotated[OptionalText, AfterValidator(_registry_url)] = setting(
        None,
        "Address of a schema registry with Confluent's API, such as http://registry:8081 or, for Apicurio,"
        " http://registry:8080/apis/ccompat/v7. Records that begin with the registry's frame are then read by their schema: Avro, Protobuf"
        " or JSON. Other records are read as JSON. While the registry is away, inputs wait for it.",
        "an http or https address without a login, or empty for none",
    )
    id_kind: Literal["schema_id", "global_id", "content_id"] = setting(
        "schema_id",
        "What the ids in frames are: schema ids of Confluent's API, or global or content ids of Apicurio's own API.",
    )
    headers: bool = setting(
        False,
        "Whether producers put the id into a header of the record instead of a frame. Reading headers costs about 2 us for each of them.",
    )
    check_json: bool = setting(False, "Whether JSON records are checked by their JSON Schema, and refused if they do not follow it.")
    username: OptionalUserName = setting(None, "User for HTTP basic authentication.", "a name without a colon, or empty for none")
    password: OptionalSecret = setting(None, "Password of that user.", "a text, or empty for none")
    token: Annotated[OptionalSecret, AfterValidator(_header_text)] = setting(
        None, "Bearer token, instead of a user.", "a text, or empty for none"
    )
    ssl_cafile: OptionalText = setting(None, "Certificate authorities to trust (PEM). Empty: those of the system.", PATH_OR_EMPTY)
    ssl_certfile: OptionalText = setting(None, "Client certificate (PEM), if the registry requires one.", PATH_OR_EMPTY)
    ssl_keyfile: OptionalText = setting(None, "Private key of the client certificate (PEM).", PATH_OR_EMPTY)
    ssl_password: OptionalSecret = setting(None, "Password of that private key.", "a text, or empty for none")
    timeout_ms: Whole = milliseconds(5_000, "How long one request may take before it is tried again.", least=100, most=60_000)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the settings of this section that contradict each other."""
        if self.token and self.username:
            yield Conflict(("registry.token", "registry.username"), "registry.username is set too; keep one of them")
        yield from key_without_certificate("registry", self.ssl_certfile, self.ssl_keyfile)

    def advice(self) -> Iterator[str]:
        """Yield warnings: settings that are valid but probably not intended."""
        login = self.username or self.token
        if self.url is None:
            if login or self.headers or self.check_json:
                yield "registry.url is empty, so the other settings of the registry are ignored"
            return
        if self.password and not self.username:
            yield "registry.password: ignored, because registry.username is empty"
        parts = urlsplit(self.url)
        if login and parts.scheme == "http" and not is_this_machine(parts.hostname):
            yield f"registry.url begins with http://: the login is sent to {parts.hostname} unencrypted"


class TopicEvents(Section):
    """How the records of one topic are read. None means the value for all topics."""

    format: Format | None = None
    envelope: Envelope | None = None
    encoding: Encoding | None = None
    frame: FrameName | None = None
    schema_file: Text | None = None
    schema_message: Text | None = None


def encoding_conflicts(events: Any, key: str, named: tuple[str, ...] = ()) -> Iterator[Conflict]:
    """Yield what contradicts itself in the encoding of all topics, or of one (`key` and `named` say which)."""
    prefix = "".join(f"{name}: " for name in named)

    def conflict(leaf: str, rule: str) -> Conflict:
        return Conflict((key,), f"{prefix}{leaf}{rule}") if named else Conflict((f"events.{leaf}",), rule.lstrip(": "))

    if events.encoding != "json" and not events.schema_file:
        rule = f": encoding = {events.encoding} needs schema_file, or set registry.url and encoding = json if the records name their schema"
        yield conflict("schema_file", rule)
    if events.frame == "single_object" and events.encoding != "avro":
        yield conflict("frame", ": single_object is a form of Avro; set encoding = avro")
    if events.schema_message and events.encoding != "protobuf":
        yield conflict("schema_message", ": names a message of Protobuf; set encoding = protobuf")
    elif events.schema_message and events.frame != "none":
        yield conflict("schema_message", f": with frame = {events.frame}, the frame of each record names its message")
