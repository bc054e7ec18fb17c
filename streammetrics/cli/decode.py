"""`decode`: shows what sample records of a file or a topic become under the configuration, or proposes mappings for them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import click

from streammetrics.cli.event_kinds import KIND_NAMES, counted_kind
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.cli.process.logs import configure_quiet_logs
from streammetrics.cli.wiring.connections import kafka_connection
from streammetrics.cli.wiring.decoders import build_decoder
from streammetrics.cli.wiring.encodings import json_of
from streammetrics.cli.wiring.registry import build_schemas
from streammetrics.config import Settings
from streammetrics.config.times import EPOCH
from streammetrics.connectors.file_formats.reader import STDIN
from streammetrics.connectors.file_paths import expanded_paths
from streammetrics.connectors.files import FileSource
from streammetrics.errors import ConfigError, MalformedEvent, Problem
from streammetrics.events import Decoder, Event, Exposure, Feedback
from streammetrics.events.malformed import excerpt
from streammetrics.events.mappings.rules import PRESETS
from streammetrics.events.mappings.suggest import suggested_mappings
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.recognize import recognize
from streammetrics.reports.text import counted

ITEMS_SHOWN_MAX = 8


class SampleRecord(NamedTuple):
    """A record: its topic or file, its number or offset, and its bytes."""

    topic: str
    place: str
    value: bytes | None


def decode_samples(settings: Settings, source: str, limit: int) -> bool:
    """Print what the first records of a file, or recent ones of a topic, become. Returns False if none of them is used.

    Raises ConfigError if the source is neither a file nor a topic in kafka.topics.
    """
    out, records = standard_output(), _read(settings, source, limit)
    decoders = _decoders(settings, records)
    counts: Counter[str] = Counter()
    for record in records:
        found = decoders[record.topic](record.value)
        for event in found:
            counts[_kind(event)] += 1
            click.echo(f"{record.place}: {_shown(event)}", file=out)
            if isinstance(event, MalformedEvent) and event.reason != IGNORED:
                click.echo(f"    {excerpt(record.value or b'')}", file=out)
        if not found:
            counts["without an event"] += 1
            click.echo(f"{record.place}: holds no event", file=out)
    total = ", ".join(counted_kind(count, kind) for kind, count in counts.most_common())
    click.echo(f"{counted(len(records), 'record')}: {total or 'nothing'}", file=out)
    return any(counts[kind] for kind in KIND_NAMES.values())


def suggest_mappings(settings: Settings, source: str, limit: int) -> None:
    """Print mappings for these records, proposed from the names of their fields. Raises like `decode_samples`."""
    out, records = standard_output(), _read(settings, source, limit)
    decoders = _decoders(settings, records)
    if records and all(_is_used(decoders[record.topic](record.value)) for record in records):
        click.echo(f"# {counted(len(records), 'record')} read, and all are lists or feedback already: no mapping is needed.", file=out)
    readers = {topic: json_of(settings, topic) for topic in decoders}
    sent = [record._replace(value=readers[record.topic](record.value)) for record in records]
    known = next((seems for record in sent if record.value and (seems := recognize(record.value)) and seems.name in PRESETS), None)
    if known is not None:
        click.echo(f"# These seem to be {known.what}. The shipped mappings may be enough: {known.advice}.", file=out)
    click.echo(suggested_mappings(_objects(sent)), file=out, nl=False)


def _read(settings: Settings, source: str, limit: int) -> list[SampleRecord]:
    configure_quiet_logs(settings.log.level, settings.log.format)
    return _with_schemas(settings, list(_records(settings, source, limit)))


def _decoders(settings: Settings, records: Iterable[SampleRecord]) -> dict[str, Decoder]:
    return {topic: build_decoder(settings, topic) for topic in dict.fromkeys(record.topic for record in records)}


def _records(settings: Settings, source: str, limit: int) -> Iterator[SampleRecord]:
    if source in settings.kafka.topics and not Path(source).exists():
        yield from _topic_records(settings, source, limit)
        return
    paths = expanded_paths([source])
    if source != STDIN and not Path(paths[0]).exists():
        rule = f"is neither a file nor a topic in kafka.topics ({', '.join(settings.kafka.topics)}); name one of them"
        raise ConfigError([Problem("SOURCE", source, rule)])
    files = FileSource(paths, event_bytes_max=settings.events.event_bytes_max, chunk_lines_max=limit)
    try:
        files.poll(0)
        files.start(0, {})
        left = limit
        while left and not files.exhausted:
            for place, found in files.poll(0).records.items():
                for record in found[:left]:
                    yield SampleRecord(
                        place.topic, f"{place.topic}:{record.offset}" if len(paths) > 1 else f"record {record.offset}", record.value
                    )
                left -= len(found[:left])
    finally:
        files.close()


def _topic_records(settings: Settings, topic: str, limit: int) -> Iterator[SampleRecord]:
    from streammetrics.connectors.kafka.recent_records import recent_records  # noqa: PLC0415  slow import
    from streammetrics.connectors.kafka.topics import describe_topics  # noqa: PLC0415

    connection = kafka_connection(settings)
    described = describe_topics(connection, [topic]).require_all("kafka.topics")
    found = recent_records(connection, {topic: described[topic].partitions})[topic]
    for record in found[-limit:]:
        yield SampleRecord(topic, f"partition {record.partition} offset {record.offset}", record.value)


def _with_schemas(settings: Settings, records: list[SampleRecord]) -> list[SampleRecord]:
    """Return the records with the schemas that they name. Raises SourceError if the registry does not answer."""
    schemas = build_schemas(settings)
    if schemas is None:
        return records
    from streammetrics.connectors.registry.source import loaded  # noqa: PLC0415  slow import

    return [record._replace(value=loaded(record.value, schemas)) for record in records]


def _objects(records: list[SampleRecord]) -> Iterator[dict[str, Any]]:
    for record in records:
        try:
            found = json.loads(record.value or b"")
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            yield found


def _is_used(found: Sequence[Event | MalformedEvent]) -> bool:
    return bool(found) and not any(isinstance(event, MalformedEvent) for event in found)


def _kind(event: Event | MalformedEvent) -> str:
    if isinstance(event, MalformedEvent):
        return "ignored" if event.reason == IGNORED else "refused"
    return KIND_NAMES[type(event)]


def _shown(event: Event | MalformedEvent) -> str:
    """Return one line about an event: what was understood, or why not."""
    if isinstance(event, MalformedEvent):
        return f"ignored: {event.detail}" if event.reason == IGNORED else f"refused as {event.reason}: {event.detail}"
    moment = (EPOCH + timedelta(milliseconds=event.ts)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(event, Feedback):
        where = "any list" if event.impression_id is None else f"list {excerpt(event.impression_id)}"
        value = "" if event.value is None else f" = {event.value:g}"
        return f"feedback {excerpt(event.action)}{value} on {excerpt(event.item_id)} in {where}, user {excerpt(event.user_id)}, {moment}"
    if isinstance(event, Exposure):
        return f"exposure to {excerpt(event.variant)} of {excerpt(event.experiment)}, user {excerpt(event.user_id)}, {moment}"
    named = [excerpt(item) if "" not in event.items else f"{place}. {excerpt(item)}" for place, item in enumerate(event.items, 1) if item]
    more = f" and {len(named) - ITEMS_SHOWN_MAX} more" if len(named) > ITEMS_SHOWN_MAX else ""
    items = ", ".join(named[:ITEMS_SHOWN_MAX]) + more
    labels = "".join(f", {excerpt(name)}={excerpt(value)}" for name, value in (*event.experiments, *event.segments))
    dropped = f", dropped labels: {', '.join(event.dropped_labels)}" if event.dropped_labels else ""
    part = "part of " if event.positions is not None else ""
    return f"{part}list {excerpt(event.impression_id)} of [{items}]{labels}{dropped}, user {excerpt(event.user_id)}, {moment}"
