"""`decode`: shows what sample records of a file or a topic become under the configuration, and what the sample holds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from streammetrics.cli.command import command
from streammetrics.cli.options import configured, load_settings
from streammetrics.cli.output.sample_summary import KIND_NAMES, SampleSummary, counted_kind
from streammetrics.cli.output.standard_output import standard_output
from streammetrics.config import Settings
from streammetrics.config.times import EPOCH
from streammetrics.connectors.file_formats.reader import STDIN
from streammetrics.connectors.files import FileSource, expanded_paths
from streammetrics.errors import ConfigError, MalformedEvent, Problem
from streammetrics.events import Event, Exposure, Feedback
from streammetrics.events.outcomes import IGNORED, excerpt, printable
from streammetrics.reports.samples import SampledEvent, sample_warnings
from streammetrics.wiring.decoders import build_decoder, has_reader
from streammetrics.wiring.logs import configure_quiet_logs
from streammetrics.wiring.reports import sample_rules
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted

ITEMS_SHOWN_MAX = 8
USED_AS_TEXT = "variant_as_text"
"""The note of a list whose variant is a number or a boolean. It is used, as the line shows."""
_SEEMS_MANY = re.compile(r"""[\s,;|"\[\]]""")


class SampleRecord(NamedTuple):
    """A record: its topic or file, its number or offset, its value, and its timestamp; -1 for a line of a file."""

    topic: str
    place: str
    value: bytes | None
    timestamp_ms: int = -1


def decode_samples(settings: Settings, source: str, limit: int) -> bool:
    """Print what the first records of a file, or recent ones of a topic, become, and a summary. Returns False if none of them is used.

    Raises ConfigError if the source is neither a file nor a topic in kafka.topics, and SourceError if a reader cannot read a record now.
    """
    configure_quiet_logs(settings.log.level, settings.log.format)
    out, records, summary = standard_output(), list(_records(settings, source, limit)), SampleSummary()
    decoders = {topic: build_decoder(settings, topic) for topic in dict.fromkeys(record.topic for record in records)}
    counts, used = Counter[str](), dict[str, list[SampledEvent]]()
    for record in records:
        decoded = decoders[record.topic](record.value)
        for line in _record_lines(record, decoded):
            click.echo(fit(line), file=out)
        counts.update(map(_kind, decoded))
        events = [SampledEvent(event, record.timestamp_ms) for event in decoded if not isinstance(event, MalformedEvent)]
        used.setdefault(record.topic, []).extend(events)
        summary.add(record.place, decoded)
    rules = sample_rules(settings, is_whole=len(records) < limit and source not in settings.kafka.topics)
    for line in (*(f"warning: {warning}" for warning in sample_warnings(used, rules)), *summary.lines()):
        click.echo(fit(line), file=out)
    total = ", ".join(counted_kind(count, kind) for kind, count in counts.most_common())
    click.echo(f"{counted(len(records), 'record')}: {total or 'nothing'}", file=out)
    return any(used.values())


def _record_lines(record: SampleRecord, events: Sequence[Event | MalformedEvent]) -> Iterator[str]:
    """Yield a line for each event of a record, and the record itself if something of it is refused."""
    for event in events:
        yield f"{record.place}: {_event_text(event)}"
    if record.value and any(_kind(event) == "refused" for event in events):
        yield f"    {printable(record.value)}"


def _records(settings: Settings, source: str, limit: int) -> Iterator[SampleRecord]:
    if source in settings.kafka.topics and not Path(source).exists():
        yield from _topic_records(settings, source, limit)
        return
    paths = expanded_paths([source])
    if source != STDIN and not Path(paths[0]).exists():
        rule = f"is neither a file nor a topic in kafka.topics ({', '.join(settings.kafka.topics)}); name one of them"
        raise ConfigError([Problem("SOURCE", source, rule)])
    bytes_max, has_texts = settings.events.event_bytes_max, partial(has_reader, settings)
    files = FileSource(paths, event_bytes_max=bytes_max, chunk_lines_max=limit, has_texts=has_texts)
    try:
        files.poll(0)
        files.start(0, {})
        left = limit
        while left and not files.exhausted:
            for place, records in files.poll(0).records.items():
                for record in records[:left]:
                    yield SampleRecord(
                        place.topic, f"{place.topic}:{record.offset}" if len(paths) > 1 else f"record {record.offset}", record.value
                    )
                left -= len(records[:left])
    finally:
        files.close()


def _topic_records(settings: Settings, topic: str, limit: int) -> Iterator[SampleRecord]:
    from streammetrics.connectors.kafka.recent_records import recent_records  # noqa: PLC0415  slow import
    from streammetrics.connectors.kafka.topics import describe_topics  # noqa: PLC0415

    described = describe_topics(settings.kafka, [topic]).require_all("kafka.topics")
    for record in recent_records(settings.kafka, {topic: described[topic].partitions}, limit)[topic]:
        yield SampleRecord(topic, f"partition {record.partition} offset {record.offset}", record.value, record.ts)


def _kind(event: Event | MalformedEvent) -> str:
    if isinstance(event, MalformedEvent):
        return "ignored" if event.reason == IGNORED else "refused"
    return KIND_NAMES[type(event)]


def _event_text(event: Event | MalformedEvent) -> str:
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
    dropped = [note for note in event.label_notes if note != USED_AS_TEXT]
    notes = f", labels not used: {', '.join(dropped)}" if dropped else ""
    part = "part of " if event.positions is not None else ""
    return f"{part}list {excerpt(event.impression_id)} of [{items}]{labels}{notes}, user {excerpt(event.user_id)}, {moment}"


def _item(item: str) -> str:
    """Return an item, in quotes if one could take it for several."""
    return f'"{excerpt(item)}"' if _SEEMS_MANY.search(item) else excerpt(item)


@command
@configured
@click.argument("source")
@click.option("--limit", "-n", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Records to read.")
@click.option("--reader", metavar="FILE.py:FUNCTION", help="Reader to try, in place of events.reader.")
def decode(config_path: Path | None, settings_given: tuple[str, ...], source: str, limit: int, reader: str | None) -> None:
    """Show what sample records become: lists, feedback, ignored, or refused and why. A summary follows.

    SOURCE is a file as for `replay`, or a topic in kafka.topics. Of a topic, the newest
    records of each partition are read. Nothing is stored or committed. The exit code is 1 if no record is a list or feedback.

    \b
    Examples:
      streammetrics decode events.ndjson --reader reader.py:read
      streammetrics decode events.ndjson --reader segment
      streammetrics decode shop --config streammetrics.toml --limit 1000
    """
    given = (*settings_given, *([f"events.reader={reader}"] if reader else []))
    if not decode_samples(load_settings(config_path, given).settings, source, limit):
        raise SystemExit(1)
