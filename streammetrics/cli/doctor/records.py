"""What `doctor` says about recent records of an input topic: form, events, actions, times, and the settings of the topic. Pure.

A finding says what is wrong, how often, and what to do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from streammetrics.cli.doctor.findings import DoctorFinding, Level
from streammetrics.cli.output.sample_summary import KIND_NAMES, counted_kind
from streammetrics.config import Settings
from streammetrics.connectors.kafka.recent_records import RecentRecord
from streammetrics.connectors.kafka.topics import TopicSettings
from streammetrics.errors import MalformedEvent
from streammetrics.events import Decoder, Event
from streammetrics.events.event_time import NEVER, seems_seconds
from streammetrics.events.outcomes import IGNORED
from streammetrics.reports.samples import SampledEvent, sample_warnings
from streammetrics.wiring.reports import sample_rules
from streammetrics.words.names import fit
from streammetrics.words.numbers import counted
from streammetrics.words.times import span_text

USABLE_SHARE_MIN: Final = 0.5
"""With a smaller share of usable records, the topic is not what the configuration expects."""
LATE_SHARE_MAX: Final = 0.01
AHEAD_MS_MAX: Final = 60_000
OLD_MS: Final = 86_400_000


@dataclass(slots=True)
class DecodedTopic:
    """Recent records of one topic, decoded: the usable ones with their events, and the others."""

    topic: str
    usable: list[tuple[RecentRecord, list[Event]]] = field(default_factory=list)
    malformed: list[tuple[RecentRecord, MalformedEvent]] = field(default_factory=list)
    without_event: int = 0
    """Records that their reader ignores."""

    @property
    def records(self) -> int:
        return len(self.usable) + len(self.malformed) + self.without_event

    def events(self) -> Iterator[tuple[RecentRecord, Event]]:
        for record, events in self.usable:
            for event in events:
                yield record, event


def decoded_topic(topic: str, records: Iterable[RecentRecord], decode: Decoder) -> DecodedTopic:
    """Decode records as a worker would. A record with a usable event is usable, even if other events of it are malformed."""
    decoded = DecodedTopic(topic)
    for record in records:
        decoded_events = decode(record.value)
        errors = [event for event in decoded_events if isinstance(event, MalformedEvent) and event.reason != IGNORED]
        events = [event for event in decoded_events if not isinstance(event, MalformedEvent)]
        if errors:
            decoded.malformed.append((record, errors[0]))
        elif events:
            decoded.usable.append((record, events))
        else:
            decoded.without_event += 1
    return decoded


def record_findings(decoded: DecodedTopic, settings: Settings, now_ms: int) -> Iterator[DoctorFinding]:
    """Check the form, the events and the times of a topic's recent records."""
    if not decoded.records:
        yield DoctorFinding("ok", f"topic {decoded.topic}: no records yet, so its data was not checked")
        return
    yield from _form_findings(decoded)
    if decoded.usable:
        yield from _time_findings(decoded, settings, now_ms)


def sample_findings(topics: Iterable[DecodedTopic], settings: Settings) -> Iterator[DoctorFinding]:
    """Check whether the events of all topics together mean what they seem to."""
    sampled = {sample.topic: [SampledEvent(event, record.ts) for record, event in sample.events()] for sample in topics}
    for warning in sample_warnings(sampled, sample_rules(settings, is_whole=False)):
        yield DoctorFinding("warn", warning.text, warning.fix)


def _form_findings(decoded: DecodedTopic) -> Iterator[DoctorFinding]:
    topic, records, refused = decoded.topic, decoded.records, len(decoded.malformed)
    if refused:
        reasons = Counter(error.reason for _, error in decoded.malformed)
        first, error = decoded.malformed[0]
        advice = f"correct the sender or its reader; partition {first.partition} offset {first.offset}: {fit(error.detail)}"
        level: Level = "fail" if len(decoded.usable) < USABLE_SHARE_MIN * records else "warn"
        named = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
        yield DoctorFinding(
            level,
            f"topic {topic}: {refused} of {counted(records, 'recent record')} {'is' if refused == 1 else 'are'} refused ({named})",
            advice,
        )
    if decoded.usable:
        kinds = Counter(KIND_NAMES[type(event)] for _, event in decoded.events())
        held = ", ".join(counted_kind(count, kind) for kind, count in sorted(kinds.items(), reverse=True))
        yield DoctorFinding("ok", f"topic {topic}: {len(decoded.usable)} of {counted(records, 'recent record')} usable: {held}")
    elif not refused:
        yield DoctorFinding(
            "fail",
            f"topic {topic}: none of {counted(records, 'recent record')} holds an event",
            "remove the topic from kafka.topics, or correct its reader: `streammetrics decode` shows what it ignores",
        )


def _time_findings(decoded: DecodedTopic, settings: Settings, now_ms: int) -> Iterator[DoctorFinding]:
    topic, join = decoded.topic, settings.join
    events = list(decoded.events())
    future = [(record.ts, event.ts) for record, event in events if event.ts > now_ms + AHEAD_MS_MAX]
    ahead = [ts - now_ms for record_ts, ts in future if record_ts < 0 or join.future_ms is None or ts <= record_ts + join.future_ms]
    if ahead:  # the others are refused by the times of their records, which `sample_findings` says
        yield DoctorFinding(
            "warn",
            f"topic {topic}: {len(ahead)} of {counted(len(events), 'event')} dated in the future, by up to {span_text(max(ahead))}",
            "correct the clock of the sender, or this machine's",
        )
    stamped = [(record.ts, event.ts) for record, event in events if record.ts >= 0]
    late = _late_events(events, join.out_of_orderness_ms + join.lateness_ms)
    if len(late) > LATE_SHARE_MAX * len(events):
        yield DoctorFinding(
            "warn",
            f"topic {topic}: {len(late)} of {counted(len(events), 'event')} would be late, by up to {span_text(max(late))}",
            "raise join.lateness_ms, or let the sender keep the order of events",
        )
    if not (future or late):
        newest = max(event.ts for _, event in events)
        delays = sorted(record_ts - event_ts for record_ts, event_ts in stamped if record_ts and not seems_seconds(record_ts))
        delay = f"; records are written {span_text(delays[len(delays) // 2])} after their events (median)" if delays else ""
        old = ", which is long ago" if now_ms - newest > OLD_MS else ""
        yield DoctorFinding("ok", f"topic {topic}: the newest event is {span_text(now_ms - newest)} old{old}{delay}")


def _late_events(events: Iterable[tuple[RecentRecord, Event]], allowed_ms: int) -> list[int]:
    """Return by how much (ms) events are late, each against the events before it on its partition."""
    newest: dict[int, int] = {}
    late = []
    for record, event in events:
        before = newest.get(record.partition, NEVER)
        if event.ts < before - allowed_ms:
            late.append(before - allowed_ms - event.ts)
        newest[record.partition] = max(before, event.ts)
    return late


def settings_findings(topic: str, topic_settings: TopicSettings, settings: Settings) -> Iterator[DoctorFinding]:
    """Check how long a topic keeps its records, and whether it drops some of them."""
    join = settings.join
    needed_ms = join.gap_ms + join.lateness_ms + join.out_of_orderness_ms
    if "compact" in topic_settings.cleanup_policy:
        yield DoctorFinding(
            "warn",
            f"topic {topic}: cleanup.policy is {topic_settings.cleanup_policy}, so Kafka deletes all events of a user but the newest",
            "set cleanup.policy=delete",
        )
    if 0 <= topic_settings.retention_ms < needed_ms:
        yield DoctorFinding(
            "warn",
            f"topic {topic}: retention.ms is {topic_settings.retention_ms:,}, so records are gone after"
            f" {span_text(topic_settings.retention_ms)}; a session may last {span_text(needed_ms)} and longer",
            "set retention.ms to a day or more: after an outage, workers read on only if the records are still there",
        )
    if "compact" not in topic_settings.cleanup_policy and not 0 <= topic_settings.retention_ms < needed_ms:
        kept = "for ever" if topic_settings.retention_ms < 0 else f"for {span_text(topic_settings.retention_ms)}"
        yield DoctorFinding("ok", f"topic {topic}: records are kept {kept}, timestamps are {topic_settings.timestamp_type}")
