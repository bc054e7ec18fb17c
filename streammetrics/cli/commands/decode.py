"""`decode`: shows what sample records of a file or a topic become under the configuration, or proposes settings for them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path

import click

from streammetrics.cli.command import command
from streammetrics.cli.common_options import configured, load_settings
from streammetrics.cli.event_kinds import KIND_NAMES, counted_kind
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.cli.suggestions import SampleRecord, inner_values, suggestion_lines
from streammetrics.config import Settings
from streammetrics.config.times import EPOCH
from streammetrics.connectors.file_formats.reader import STDIN
from streammetrics.connectors.file_paths import expanded_paths
from streammetrics.connectors.files import FileSource
from streammetrics.errors import ConfigError, MalformedEvent, Problem
from streammetrics.events import Event, Exposure, Feedback
from streammetrics.events.event_time import seems_seconds
from streammetrics.events.grades import parse_grades
from streammetrics.events.malformed import excerpt, printable
from streammetrics.events.model import PartsDecoder, PathsFound
from streammetrics.events.outcomes import IGNORED
from streammetrics.events.unknown_names import ACTION
from streammetrics.reports.path_counts import counted_paths, path_sentences
from streammetrics.reports.text import counted
from streammetrics.reports.unknown_names import merge_names
from streammetrics.wiring.decoders import build_watched_decoder, is_mapped
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.wiring.registry import build_schemas

ITEMS_SHOWN_MAX = 8
_SEEMS_MANY = re.compile(r"""[\s,;|"\[\]]""")


def decode_samples(settings: Settings, source: str, limit: int) -> bool:
    """Print what the first records of a file, or recent ones of a topic, become. Returns False if none of them is used.

    Raises ConfigError if the source is neither a file nor a topic in kafka.topics.
    """
    out, records = standard_output(), _read(settings, source, limit)
    decoders = _decoders(settings, records)
    counts, actions, in_seconds = Counter[str](), Counter[str](), 0
    notes: dict[str, list[PathsFound]] = {}
    for record in records:
        found, refused = decoders[record.topic](record.value), False
        for event in found:
            if isinstance(event, PathsFound):
                notes.setdefault(record.topic, []).append(event)
                continue
            counts[_kind(event)] += 1
            if isinstance(event, Feedback):
                actions[event.action] += 1
            in_seconds += not isinstance(event, MalformedEvent) and seems_seconds(event.ts)
            click.echo(f"{record.place}: {_shown(event)}", file=out)
            if isinstance(event, MalformedEvent) and event.reason != IGNORED:
                refused = True
        if refused:
            for value in inner_values(settings, record):
                click.echo(f"    {printable(value)}", file=out)
        if not found:
            counts["without an event"] += 1
            click.echo(f"{record.place}: holds no event", file=out)
    if in_seconds:
        click.echo(f"the times of {counted(in_seconds, 'event')} are in 1970: ts must be in milliseconds, not seconds", file=out)
    if (unknown := _without_grade(settings, actions)) is not None:
        them = "it" if len(actions) == 1 else "them"
        click.echo(f"no grade for {unknown}: name {them} in join.grades, or rename actions by a mapping", file=out)
    for topic, own in notes.items():
        for sentence in path_sentences(counted_paths(topic, own), ended=True):
            click.echo(f"warning: {sentence}", file=out)
    total = ", ".join(counted_kind(count, kind) for kind, count in counts.most_common())
    click.echo(f"{counted(len(records), 'record')}: {total or 'nothing'}", file=out)
    return any(counts[kind] for kind in KIND_NAMES.values())


def suggest_settings(settings: Settings, source: str, limit: int) -> bool:
    """Print the settings that read these records, or mappings for them. Returns False if it is only a skeleton.

    Raises like `decode_samples`.
    """
    out, records = standard_output(), _read(settings, source, limit)
    lines = suggestion_lines(settings, records)
    while True:
        try:
            click.echo(next(lines), file=out)
        except StopIteration as end:
            return bool(end.value)


def _read(settings: Settings, source: str, limit: int) -> list[SampleRecord]:
    configure_quiet_logs(settings.log.level, settings.log.format)
    return _with_schemas(settings, list(_records(settings, source, limit)))


def _decoders(settings: Settings, records: Iterable[SampleRecord]) -> dict[str, PartsDecoder]:
    return {topic: build_watched_decoder(settings, topic) for topic in dict.fromkeys(record.topic for record in records)}


def _records(settings: Settings, source: str, limit: int) -> Iterator[SampleRecord]:
    if source in settings.kafka.topics and not Path(source).exists():
        yield from _topic_records(settings, source, limit)
        return
    paths = expanded_paths([source])
    if source != STDIN and not Path(paths[0]).exists():
        rule = f"is neither a file nor a topic in kafka.topics ({', '.join(settings.kafka.topics)}); name one of them"
        raise ConfigError([Problem("SOURCE", source, rule)])
    bytes_max, has_texts = settings.events.event_bytes_max, partial(is_mapped, settings)
    files = FileSource(paths, event_bytes_max=bytes_max, chunk_lines_max=limit, has_texts=has_texts)
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

    described = describe_topics(settings.kafka, [topic]).require_all("kafka.topics")
    found = recent_records(settings.kafka, {topic: described[topic].partitions})[topic]
    for record in found[-limit:]:
        yield SampleRecord(topic, f"partition {record.partition} offset {record.offset}", record.value)


def _with_schemas(settings: Settings, records: list[SampleRecord]) -> list[SampleRecord]:
    """Return the records with the schemas that they name. Raises SourceError if the registry does not answer."""
    schemas = build_schemas(settings)
    if schemas is None:
        return records
    from streammetrics.connectors.registry.source import loaded  # noqa: PLC0415  slow import

    return [record._replace(value=loaded(record.value, schemas)) for record in records]


def _without_grade(settings: Settings, actions: Mapping[str, int]) -> str | None:
    """Return the actions that join.grades does not name, with the name that is probably meant; None if there are none."""
    known = parse_grades(settings.join.grades).table
    names = merge_names([(ACTION, action, count) for action, count in actions.items() if action not in known], {ACTION: [*known]})
    return ", ".join(map(str, names)) or None


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
    has_gaps = "" in event.items
    named = [f"{place}. {_item(item)}" if has_gaps else _item(item) for place, item in enumerate(event.items, 1) if item]
    more = f" and {len(named) - ITEMS_SHOWN_MAX} more" if len(named) > ITEMS_SHOWN_MAX else ""
    items = ", ".join(named[:ITEMS_SHOWN_MAX]) + more
    labels = "".join(f", {excerpt(name)}={excerpt(value)}" for name, value in (*event.experiments, *event.segments))
    notes = f", labels not used as sent: {', '.join(event.label_notes)}" if event.label_notes else ""
    part = "part of " if event.positions is not None else ""
    return f"{part}list {excerpt(event.impression_id)} of [{items}]{labels}{notes}, user {excerpt(event.user_id)}, {moment}"


def _item(item: str) -> str:
    """Return an item, in quotes if one could take it for several."""
    return f'"{excerpt(item)}"' if _SEEMS_MANY.search(item) else excerpt(item)


@command
@configured
@click.argument("source")
@click.option(
    "--limit", "-n", type=click.IntRange(1, 1_000), show_default="20, or 1000 with --suggest", help="Records to show, or to suggest from."
)
@click.option("--suggest", is_flag=True, help="Propose settings or mappings for these records, as TOML, and try them on the records.")
def decode(config_path: Path | None, settings_given: tuple[str, ...], source: str, limit: int | None, suggest: bool) -> None:
    """Show what sample records become: lists, feedback, ignored, or refused and why.

    SOURCE is a file as for `replay`, or a topic in kafka.topics. Of a topic, recent records are read. Nothing is stored or committed. The
    exit code is 1 if no record is a list or feedback. With --suggest it is 1 if only a skeleton of a mapping can be proposed.

    \b
    Examples:
      streammetrics decode events.ndjson --set events.format=segment
      streammetrics decode shop --config streammetrics.toml --limit 100
      streammetrics decode events.ndjson --suggest
    """
    settings = load_settings(config_path, settings_given).settings
    is_done = suggest_settings(settings, source, limit or 1_000) if suggest else decode_samples(settings, source, limit or 20)
    if not is_done:
        raise SystemExit(1)
