"""The check of `doctor` that reads the input topics: their settings, some recent records, and their keys. Joins no consumer group.

Do the events of a user meet on one partition number? A partitioner other than Kafka's default is fine, as long as all producers use it.
Users on several partitions are the proof of a problem. If the sample has no such user, keys and partitioners show how likely it is.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final
from zlib import crc32

from streammetrics.cli.doctor.experiments import RecentExperiments
from streammetrics.cli.doctor.findings import DoctorFinding
from streammetrics.cli.doctor.records import DecodedTopic, decoded_topic, record_findings, sample_findings, settings_findings
from streammetrics.config import Settings
from streammetrics.connectors.kafka.partitioner import partition_of_key
from streammetrics.connectors.kafka.recent_records import RecentRecord, recent_records
from streammetrics.connectors.kafka.topics import topic_settings
from streammetrics.events.record import Later, topic_of
from streammetrics.reports.input_warnings import FIX, UserPartitions
from streammetrics.wiring.decoders import build_decoder
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted

Keyed = tuple[RecentRecord, str]
"""A record and its user."""
PARTITIONERS: Final[Mapping[str, Callable[[bytes, int], int]]] = {
    "murmur2": partition_of_key,
    "CRC32 (librdkafka)": lambda key, partitions: crc32(key) % partitions,
}
KEYED_SHARE_MIN: Final = 0.99
PLACED_SHARE_MIN: Final = 0.98
"""A partitioner is recognized if it explains this share of the records."""
RECORDS_MIN: Final = 10
"""Fewer records with a key do not show their partitioner."""


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


def key_findings(topics: Sequence[DecodedTopic], partitions: int) -> Iterator[DoctorFinding]:
    """Check the keys of all input topics together. They have the same number of partitions."""
    by_topic = {topic.topic: keyed for topic in topics if (keyed := _users_of(topic))}
    if partitions == 1 or not by_topic:
        return
    seen: dict[str, set[int]] = defaultdict(set)
    for record, user in [pair for keyed in by_topic.values() for pair in keyed]:
        seen[user].add(record.partition)
    several = sorted(user for user, partitions_of_user in seen.items() if len(partitions_of_user) > 1)
    if several:
        placed = UserPartitions(len(seen), len(several))
        yield DoctorFinding(
            "fail" if placed.problem else "warn",
            f"{len(several)} of {counted(len(seen), 'user')} in the sample {'has' if len(several) == 1 else 'have'} events on several "
            f"partitions, such as {fit(several[0])!r} on {_listed(seen[several[0]])}: their feedback may miss its list",
            FIX,
        )
    for topic, keyed in by_topic.items():
        yield from _topic_findings(topic, keyed, bool(several))
    yield from _partitioner_findings(by_topic, partitions, bool(several))


def _users_of(decoded: DecodedTopic) -> list[Keyed]:
    return [(record, events[0].user_id) for record, events in decoded.usable]


def _topic_findings(topic: str, keyed: Sequence[Keyed], is_split: bool) -> Iterator[DoctorFinding]:
    without = sum(not record.key for record, _ in keyed)
    if without:
        yield DoctorFinding(
            "warn",
            f"topic {topic}: {without} of {counted(len(keyed), 'usable record')} {'has' if without == 1 else 'have'} no key",
            "" if is_split else FIX,
        )
        return
    equal = sum(record.key == user.encode() for record, user in keyed)
    if equal < KEYED_SHARE_MIN * len(keyed):
        record, user = next((record, user) for record, user in keyed if record.key != user.encode())
        assert record.key is not None
        yield DoctorFinding(
            "warn",
            f"topic {topic}: the key of {len(keyed) - equal} of {counted(len(keyed), 'usable record')} is not the user id, "
            f"such as {fit(record.key[:40].decode(errors='replace'))!r} for user {fit(user)!r}",
            "" if is_split else f"make sure that all records of a user have the same key, or {FIX}",
        )
    else:
        yield DoctorFinding("ok", f"topic {topic}: the key is the user id")


def _partitioner_findings(by_topic: Mapping[str, Sequence[Keyed]], partitions: int, is_split: bool) -> Iterator[DoctorFinding]:
    """Compare the partitioners of the topics, where records show them."""
    partitioners = {topic: name for topic, keyed in by_topic.items() if (name := _partitioner(keyed, partitions)) is not None}
    names = sorted({name for name in partitioners.values() if name})
    if len(names) > 1 or (names and "" in partitioners.values()):
        listed = ", ".join(f"{topic} by {name or 'none of the known ones, or by several'}" for topic, name in partitioners.items())
        yield DoctorFinding("fail", f"the topics are partitioned by different partitioners: {listed}", FIX)
    elif names:
        yield DoctorFinding("ok", f"all topics are partitioned by {names[0]}")
    elif partitioners and not is_split:
        yield DoctorFinding(
            "warn",
            f"the partitioner of {', '.join(partitioners)} is unknown, or producers use several",
            "make sure that all producers use the same one; an alert fires if users appear on several partitions",
        )


def _partitioner(keyed: Sequence[Keyed], partitions: int) -> str | None:
    """Return the partitioner of a topic. "": no known one explains it. None: too few records have a key."""
    placed = [(record.key, record.partition) for record, _ in keyed if record.key]
    if len({key for key, _ in placed}) < RECORDS_MIN:
        return None
    for name, partition_of in PARTITIONERS.items():
        if sum(partition_of(key, partitions) == partition for key, partition in placed) >= PLACED_SHARE_MIN * len(placed):
            return name
    return ""


def _listed(partitions: set[int]) -> str:
    return " and ".join(map(str, sorted(partitions)[:3]))
