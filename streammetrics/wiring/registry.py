"""Builds the client of a schema registry, and the source that waits for its schemas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from streammetrics.config.fields import secret_text

if TYPE_CHECKING:
    from streammetrics.config import Settings
    from streammetrics.config.results import EventSettings
    from streammetrics.connectors.registry.client import RegistryConnection
    from streammetrics.connectors.registry.schemas import Schemas
    from streammetrics.connectors.source import Source


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
        password=secret_text(registry.password),
        token=secret_text(registry.token),
        ssl_cafile=registry.ssl_cafile,
        ssl_certfile=registry.ssl_certfile,
        ssl_keyfile=registry.ssl_keyfile,
        ssl_password=secret_text(registry.ssl_password),
        timeout_ms=registry.timeout_ms,
    )


def build_schemas(settings: Settings, timeout_ms_max: int | None = None) -> Schemas | None:
    """Build the cache of schemas; None without a registry. Raises ConfigError for certificates that cannot be used."""
    connection = registry_connection(settings)
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
