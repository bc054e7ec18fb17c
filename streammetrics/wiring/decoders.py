"""Builds the decoders of topics and files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from msgspec import structs

from streammetrics.config import Settings
from streammetrics.config.results import NATIVE, EventSettings
from streammetrics.events import Decoder, UbiSettings, applied_rules, exposures_of, native_decoder, topic_decoder
from streammetrics.events.envelopes import UNCHANGED_COLUMN, without_envelope
from streammetrics.events.mappings.presets import preset_digest
from streammetrics.events.mappings.rules import parse_mappings
from streammetrics.events.model import PartsDecoder
from streammetrics.events.reader import reader_decoder
from streammetrics.wiring.encodings import reads_attributes, with_encoding
from streammetrics.wiring.readers import ReaderSource, load_reader, reader_source


def build_watched_decoder(settings: Settings, topic: str = "") -> PartsDecoder:
    """Build the decoder of a topic or a file that also notes which optional paths of mappings have a value."""
    return cast("PartsDecoder", _build_decoder(settings, topic, is_watched=True))


def build_decoder(settings: Settings, topic: str = "") -> Decoder:
    """Build the decoder of a topic, or of a file by its path. Without a topic, mappings that name topics do not apply."""
    return _build_decoder(settings, topic, is_watched=False)


def _build_decoder(settings: Settings, topic: str, *, is_watched: bool) -> Decoder:
    source = reader_source(settings, topic)
    if source is not None:
        return _exposures_read(_reading_decoder(settings, topic, source), settings)
    events = settings.events.of_topic(topic)
    names = used_segments(settings)
    rules = parse_mappings(events.mappings)
    if events.envelope == "debezium":
        rules = tuple(structs.replace(rule, absent=rule.absent | {UNCHANGED_COLUMN}) for rule in rules)
    decode = topic_decoder(
        topic, events.format, rules, settings.event_limits, ubi_settings(settings), watched=names if is_watched else None
    )
    decode = _exposures_read(decode, settings)
    with_attributes = reads_attributes(events, settings)
    return with_encoding(without_envelope(events.envelope, decode, with_attributes=with_attributes), settings, topic)


def _reading_decoder(settings: Settings, topic: str, source: ReaderSource) -> Decoder:
    limits = structs.replace(settings.event_limits, numeric_ids=True)  # whole numbers of Python are exact
    return reader_decoder(load_reader(source), native_decoder(limits, of_reader=True), limits, topic, source.path)


def _exposures_read(decode: Decoder, settings: Settings) -> Decoder:
    exposures = settings.exposures
    return exposures_of(decode, exposures.experiments) if exposures.enabled and exposures.experiments else decode


def ubi_settings(settings: Settings) -> UbiSettings:
    """Return the options of the UBI decoder, which are those of all topics."""
    events = settings.events
    return UbiSettings(
        lists_from=events.ubi_lists,
        user_field=events.ubi_user,
        segments=used_segments(settings),
        experiment_from=events.ubi_experiment,
        value_from=events.ubi_value,
        exposure=events.ubi_exposure,
        empty_lists=events.ubi_empty_lists,
        page_start=events.ubi_page_start,
    )


def used_segments(settings: Settings) -> tuple[str, ...]:
    """Return the names of the segments that the settings use."""
    names = (*settings.windows.segments, *settings.experiments.stage_labels, settings.assessment.fallback_label[0])
    return tuple(dict.fromkeys(filter(None, names)))


def build_topic_decoders(settings: Settings, topics: Iterable[str]) -> dict[str, PartsDecoder]:
    """Build one watched decoder for each topic or file. Empty if no setting names topics: one decoder then decodes them all."""
    if settings.events.reader != NATIVE or settings.events.topics or any(rule.topics for rule in parse_mappings(settings.events.mappings)):
        return {topic: build_watched_decoder(settings, topic) for topic in topics}
    return {}


def is_mapped(settings: Settings, topic: str) -> bool:
    """Return whether a reader or mappings say what the fields of a topic or a file mean. In CSV its columns are then just columns."""
    if settings.events.reader_of(topic) != NATIVE:
        return True
    applied = applied_rules(topic, parse_mappings(settings.events.mappings))
    kinds = {rule.kind for rule in applied} or {settings.events.of_topic(topic).format}
    return kinds.isdisjoint(("native", "ubi"))


_LATER_SETTINGS = (
    "envelope",
    "mappings",
    "numeric_ids",
    "positions",
    "ubi_empty_lists",
    "ubi_exposure",
    "ubi_page_start",
    "encoding",
    "frame",
    "schema_message",
    "topics",
)
"""Settings that stored state names only where they are set: state of versions without them fits."""


def decoding_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide how bytes become events. Settings that stored state may lack are left out at their default."""
    events = settings.events
    unused = {name for name in EventSettings.model_fields if name.startswith("ubi_") and events.format != "ubi"}
    unused.add("reader")  # its digest says more than its path
    unused.add("schema_file")  # a file may move, and its schema may grow a field
    unused |= {name for name in _LATER_SETTINGS if getattr(events, name) == EventSettings.model_fields[name].default}
    shown = events.model_dump(exclude=unused)
    if events.topics:
        shown["topics"] = {name: own.model_dump(exclude={"schema_file"}, exclude_none=True) for name, own in events.topics.items()}
    used = [events.format, *sorted({own.format for own in events.topics.values() if own.format is not None} - {events.format})]
    shown |= _reader_digests(settings)
    digests = [preset_digest(name) for name in used if name not in ("native", "ubi")]
    return shown | ({"preset": " ".join(digests)} if digests else {})


def _reader_digests(settings: Settings) -> dict[str, Any]:
    """Return the digest of the reader, or of each topic's."""
    reader = settings.events.reader
    if isinstance(reader, str):
        source = reader_source(settings, "")
        return {} if source is None else {"reader": source.digest}
    sources = {topic: reader_source(settings, topic) for topic in sorted(reader)}
    return {"reader": {topic: NATIVE if source is None else source.digest for topic, source in sources.items()}}
