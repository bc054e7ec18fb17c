"""Builds from Settings what reads encoded records: readers of schema files, the client of a registry, and the source that waits for it.

The packages of the encodings are imported only where a setting needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from streammetrics.errors import ConfigError, MalformedEvent, Problem
from streammetrics.events.encodings.decoder import encoded
from streammetrics.events.encodings.sent_value import SentValue

if TYPE_CHECKING:
    from pydantic import SecretStr

    from streammetrics.config import Settings
    from streammetrics.config.results import EventSettings
    from streammetrics.connectors.base import Source
    from streammetrics.connectors.registry.client import RegistryConnection
    from streammetrics.connectors.registry.schemas import Schemas
    from streammetrics.events import Decoder
    from streammetrics.events.encodings.sent_value import ToJson


INSTALL: Final = "pip install 'streammetrics[registry]'"


def with_encoding(decode: Decoder, settings: Settings, topic: str) -> Decoder:
    """Return a decoder of a topic's records as they are written. `decode` decodes their JSON.

    Raises ConfigError for a schema file that cannot be used, and for a missing package.
    """
    events = settings.events.of_topic(topic)
    to_json = _file_reader(events, f"events.topics.{topic}" if topic in settings.events.topics else "events")
    if to_json is None and settings.registry.url is None:
        return decode
    return encoded(decode, events.limits, to_json)


def _file_reader(events: EventSettings, key: str) -> ToJson | None:
    if events.schema_file is None:
        if events.frame == "none":
            return None
        from streammetrics.connectors.registry.readers import skipped_frame  # noqa: PLC0415  slow import

        return skipped_frame(events.frame)
    from streammetrics.connectors.registry.readers import file_reader  # noqa: PLC0415

    return file_reader(events.schema_file, events.encoding, events.frame, events.schema_message or "", key)


def require_encodings(settings: Settings) -> None:
    """Raise ConfigError with all problems of schema files and of the registry's certificates. Asks no registry."""
    problems: list[Problem] = []
    checks: list[Callable[[], object]] = [partial(build_schemas, settings), partial(_file_reader, settings.events, "events")]
    checks += [partial(_file_reader, settings.events.of_topic(name), f"events.topics.{name}") for name in settings.events.topics]
    for check in checks:
        try:
            check()
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def missing_packages(settings: Settings) -> Iterator[str]:
    """Yield a warning for each encoding that a registry may name and that this installation cannot read."""
    if settings.registry.url is None:
        return
    for what, modules in (("Avro", ("fastavro",)), ("Protobuf", ("google.protobuf", "grpc_tools"))):
        if not all(map(_is_installed, modules)):
            yield f"registry.url: a record in {what} would end the process, because its package is missing: {INSTALL}"
    if settings.registry.check_json and not _is_installed("jsonschema_rs"):
        yield f"registry.check_json: the first JSON record would end the process, because its package is missing: {INSTALL}"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # the package above it is missing
        return False


def json_of(settings: Settings, topic: str) -> Callable[[bytes | None], bytes | None]:
    """Return a function from a record to its JSON text. A record that cannot be read stays as it is."""
    to_json = _file_reader(settings.events.of_topic(topic), "events")

    def read(value: bytes | None) -> bytes | None:
        reader = value.to_json if type(value) is SentValue and to_json is None else to_json
        try:
            return value if value is None or reader is None else reader(value)
        except MalformedEvent:
            return value

    return read


def reads_headers(settings: Settings) -> bool:
    """Return whether records are needed with their headers: for ids of schemas, or for CloudEvents in binary mode."""
    events = settings.events
    of_topics = [events.of_topic(topic) for topic in settings.kafka.topics]
    with_attributes = any(each.envelope == "cloudevents" and reads_attributes(each, settings) for each in of_topics)
    return (settings.registry.url is not None and settings.registry.headers) or with_attributes


def reads_attributes(events: EventSettings, settings: Settings) -> bool:
    """Return whether mappings may use the attributes of a CloudEvent. The fixed formats do not."""
    return bool(settings.events.mappings) or events.format not in ("native", "ubi")


def registry_connection(settings: Settings) -> RegistryConnection | None:
    """Build the connection settings of the schema registry; None without one."""
    from streammetrics.connectors.registry.client import RegistryConnection  # noqa: PLC0415

    registry = settings.registry
    if registry.url is None:
        return None
    return RegistryConnection(
        url=registry.url,
        id_kind=registry.id_kind,
        username=registry.username,
        password=_secret(registry.password),
        token=_secret(registry.token),
        ssl_cafile=registry.ssl_cafile,
        ssl_certfile=registry.ssl_certfile,
        ssl_keyfile=registry.ssl_keyfile,
        ssl_password=_secret(registry.ssl_password),
        timeout_ms=registry.timeout_ms,
    )


def build_schemas(settings: Settings, timeout_ms_max: int | None = None) -> Schemas | None:
    """Build the cache of schemas; None without a registry. Raises ConfigError for certificates that cannot be used."""
    connection = None if settings.registry.url is None else registry_connection(settings)
    if connection is None:
        return None
    if timeout_ms_max is not None:
        connection = replace(connection, timeout_ms=min(connection.timeout_ms, timeout_ms_max))
    from streammetrics.connectors.registry.client import RegistryClient  # noqa: PLC0415
    from streammetrics.connectors.registry.schemas import Schemas  # noqa: PLC0415

    return Schemas(RegistryClient(connection), check_json=settings.registry.check_json)


def with_schemas(source: Source, settings: Settings) -> Source:
    """Return a source whose records have their schemas. Without a registry it is the source itself."""
    schemas = build_schemas(settings)
    if schemas is None:
        return source
    from streammetrics.connectors.registry.source import SchemaSource  # noqa: PLC0415

    topics = [topic for topic in settings.kafka.topics if _names_schemas(settings.events.of_topic(topic))]
    return SchemaSource(source, schemas, topics)


def _names_schemas(events: EventSettings) -> bool:
    """Return whether the records of a topic may name their schema: those of a schema file do not."""
    return events.schema_file is None and events.frame == "none"


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()
