"""Builds the readers of encoded records, from schema files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from streammetrics.config.results import NATIVE
from streammetrics.errors import ConfigError, MalformedEvent, Problem
from streammetrics.events.encodings.decoder import encoded
from streammetrics.events.sent_value import SentValue
from streammetrics.wiring.registry import build_schemas

if TYPE_CHECKING:
    from streammetrics.config import Settings
    from streammetrics.config.results import EventSettings
    from streammetrics.events import Decoder
    from streammetrics.events.sent_value import ToJson


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
    """Return whether records are needed with key and headers: for readers, ids of schemas, or CloudEvents in binary mode."""
    events = settings.events
    if any(events.reader_of(topic) != NATIVE for topic in settings.kafka.topics):
        return True
    of_topics = [events.of_topic(topic) for topic in settings.kafka.topics]
    with_attributes = any(each.envelope == "cloudevents" and reads_attributes(each, settings) for each in of_topics)
    return (settings.registry.url is not None and settings.registry.headers) or with_attributes


def reads_attributes(events: EventSettings, settings: Settings) -> bool:
    """Return whether mappings may use the attributes of a CloudEvent. The fixed formats do not."""
    return bool(settings.events.mappings) or events.format not in ("native", "ubi")
