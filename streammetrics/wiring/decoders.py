"""Builds the decoders of topics and files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from streammetrics.config import Settings
from streammetrics.config.results import NATIVE, EventSettings
from streammetrics.events import Decoder, exposures_of, native_decoder
from streammetrics.events.reader import reader_decoder
from streammetrics.wiring.readers import load_reader, reader_source


def build_decoder(settings: Settings, topic: str = "") -> Decoder:
    """Build the decoder of a topic, or of a file by its path. Raises ConfigError for a reader that cannot be loaded."""
    limits, exposures = settings.event_limits, settings.exposures
    source = reader_source(settings, topic)
    if source is None:
        decode: Decoder = native_decoder(limits)
    else:
        limits = structs.replace(limits, numeric_ids=True)  # whole numbers of Python are exact
        decode = reader_decoder(load_reader(source), native_decoder(limits, of_reader=True), limits, topic, source.path)
    return exposures_of(decode, exposures.experiments) if exposures.enabled and exposures.experiments else decode


def build_topic_decoders(settings: Settings, topics: Iterable[str]) -> dict[str, Decoder]:
    """Build one decoder for each topic or file. Empty if all are native: one decoder then decodes them all."""
    return {} if settings.events.reader == NATIVE else {topic: build_decoder(settings, topic) for topic in topics}


def has_reader(settings: Settings, topic: str) -> bool:
    """Return whether a reader says what the fields of a topic or a file mean. In CSV its columns are then just columns."""
    return settings.events.reader_of(topic) != NATIVE


def reads_whole_records(settings: Settings) -> bool:
    """Return whether records are needed with key, headers and timestamp: a reader may use them."""
    return any(has_reader(settings, topic) for topic in settings.kafka.topics)


_LATER_SETTINGS = ("numeric_ids", "positions")
"""Settings that stored state names only where they are set."""


def decoding_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that decide how bytes become events. For a reader it is the digest of its file. Raises as `build_decoder`."""
    events = settings.events
    unused = {name for name in _LATER_SETTINGS if getattr(events, name) == EventSettings.model_fields[name].default}
    return events.model_dump(exclude=unused | {"reader"}) | _reader_digests(settings)


def _reader_digests(settings: Settings) -> dict[str, Any]:
    """Return the digest of the reader, or of each topic's."""
    reader = settings.events.reader
    if isinstance(reader, str):
        source = reader_source(settings, "")
        return {} if source is None else {"reader": source.digest}
    sources = {topic: reader_source(settings, topic) for topic in sorted(reader)}
    return {"reader": {topic: NATIVE if source is None else source.digest for topic, source in sources.items()}}
