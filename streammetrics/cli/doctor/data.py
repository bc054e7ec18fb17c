"""The check of `doctor` that reads the input topics: their settings, and some recent records. Joins no consumer group."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping

from streammetrics.cli.doctor.experiments import RecentExperiments
from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.cli.doctor.keys import key_findings
from streammetrics.cli.doctor.records import DecodedTopic, decoded_topic, record_findings, sample_findings, settings_findings
from streammetrics.config import Settings
from streammetrics.connectors.kafka.recent_records import recent_records
from streammetrics.connectors.kafka.topics import topic_settings
from streammetrics.events.record import Later
from streammetrics.events.topic_names import topic_of
from streammetrics.wiring.decoders import build_decoder


def reader_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Find names in the table of readers that fit no topic. Topics without a reader are read as native events."""
    table, topics = settings.events.reader, settings.kafka.topics
    names = () if isinstance(table, str) else tuple(table)
    unused = [name for name in names if not any(topic_of(topic, [name]) for topic in topics)]
    if unused:
        native = ", ".join(topic for topic in topics if topic_of(topic, names) is None)
        text = f"events.reader has a reader for {', '.join(unused)}, which kafka.topics does not name"
        fix = "correct the names in events.reader" + (f"; these topics have no reader: {native}" if native else "")
        yield DoctorFinding("warn", text, fix)


def data_findings(settings: Settings, partitions: Mapping[str, int]) -> Generator[DoctorFinding, None, RecentExperiments]:
    """Check the topics that exist, and return the experiments of their recent lists. `partitions` are their partition counts."""
    yield from reader_findings(settings)
    settings_of = topic_settings(settings.kafka, list(partitions))
    for topic in partitions:
        if topic in settings_of:
            yield from settings_findings(topic, settings_of[topic], settings)
        else:
            yield DoctorFinding("ok", f"topic {topic}: this user may not read its settings, so cleanup.policy and retention are unknown")
    records = recent_records(settings.kafka, partitions)
    decoded: list[DecodedTopic] = []
    for topic, read in records.items():
        try:
            decoded.append(decoded_topic(topic, read, build_decoder(settings, topic)))
        except Later as later:
            yield DoctorFinding("fail", f"topic {topic}: its records were not checked: {later}", "correct what its reader waits for")
    now_ms = time.time_ns() // 1_000_000
    for sample in decoded:
        yield from record_findings(sample, settings, now_ms)
    yield from sample_findings(decoded, settings)
    if len(set(partitions.values())) == 1:
        yield from key_findings(decoded, next(iter(partitions.values())))
    return RecentExperiments.of(decoded)
