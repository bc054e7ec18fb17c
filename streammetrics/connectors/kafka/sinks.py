"""Writes to Kafka, and waits for all replicas: simulated traffic, results, and refused records as dead letters that can be read back.

The key of an event is the user id, so one partition gets all of a user's events. Results are keyed records of which the newest counts, so
their topic should be compacted. `patches.stuck_producer` closes a producer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import structlog
from kafka import KafkaProducer
from kafka.errors import InvalidRecordError, InvalidTimestampError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.dead_letters import DeadLetter, ignored
from streammetrics.connectors.kafka.client import connection_options, describe_error, require_reachable, starting
from streammetrics.connectors.kafka.patches import stuck_producer
from streammetrics.connectors.kafka.topics import describe_topics, topic_settings
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import ConfigError, Problem, SourceError
from streammetrics.events.record import SentValue

WAITING_RECORDS_MAX = 5_000
"""The most records that wait for an acknowledgement. It bounds memory; the client has no such bound."""
WRITE_MS_MAX = 15_000
LETTERS_AT_ONCE_MAX = 500
"""The most letters that wait for an acknowledgement. It bounds memory."""
BYTES_AT_ONCE_MAX = 8 << 20
"""The most bytes that wait for an acknowledgement. A single letter may be larger."""
LETTER_WRITE_MS_MAX = 10_000
DETAIL_CHARS_MAX = 1_000
CUT_VALUE_BYTES = 16_384
"""The length to which a value is cut that is too large for the topic. The input topic still has the whole record."""
UNKNOWN_TIME = -1
"""The client then takes the time of this machine."""
REFUSALS: Final = (MessageSizeTooLargeError, RecordListTooLargeError, InvalidTimestampError, InvalidRecordError)
"""Errors of single records. A topic that refuses a record refuses all that were sent with it. The client gives most of them another
error than the topic meant, so the errors of a batch do not say which record is wrong, nor why."""
SENT_TOGETHER: Final = "part of a batch"
"""The client says this, in an error of no class of its own, of valid records that were sent together with an invalid one."""
log = structlog.get_logger("streammetrics.kafka")


def new_producer(settings: KafkaSettings, what: str, **options: Any) -> Any:
    """Build a producer. `what` names it in errors. Raises SourceError. A failed start leaves nothing behind."""
    fixed = {"acks": "all", "allow_auto_create_topics": False, "metrics_enabled": False}
    with starting(what, settings) as network:
        return KafkaProducer(**connection_options(settings) | fixed | options, kafka_client=network)


class KafkaSink:
    """Writes simulated traffic. Raises ConfigError when a topic is missing, and SourceError when Kafka fails.

    A record that is not acknowledged within `write_ms_max` is a failure. After a failure nothing more can be written.
    """

    def __init__(self, settings: KafkaSettings, topics: Sequence[str], write_ms_max: int = WRITE_MS_MAX) -> None:
        describe_topics(settings, topics).require_all("kafka.topics")
        self._write_seconds_max = write_ms_max / 1_000
        self._sent: list[Any] = []
        """What the client has promised for each record that is not known to be acknowledged."""
        limits = {"linger_ms": 10, "batch_size": 1 << 17, "max_block_ms": write_ms_max, "delivery_timeout_ms": write_ms_max}
        self._producer = new_producer(settings, "the Kafka producer", **limits)

    def write(self, record: SimulatedRecord, timestamp_ms: int | None) -> None:
        """Send a record. `timestamp_ms` (epoch) is its timestamp in the log; None means now."""
        with _explained():
            self._sent.append(self._producer.send(record.topic, key=record.key, value=record.value, timestamp_ms=timestamp_ms))
        if len(self._sent) >= WAITING_RECORDS_MAX:
            self.flush()

    def flush(self) -> None:
        """Wait until all records sent so far are acknowledged."""
        with _explained():
            _await_all(self._sent, self._write_seconds_max)
        self._sent.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            stuck_producer.close(self._producer)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except (KafkaError, AssertionError) as error:
        raise SourceError(f"Kafka does not accept the traffic: {describe_error(error)}") from error


def _await_all(sent: Iterable[Any], seconds_max: float) -> None:
    """Wait until all records are acknowledged, for `seconds_max` together. Raises the client's error.

    The client's own `flush` waits as long for every batch, one after the other.
    """
    deadline = time.monotonic() + seconds_max
    for future in sent:
        future.get(timeout=max(0.0, deadline - time.monotonic()))


class KafkaResults:
    """A sink for results. The constructor raises ConfigError when the topic is missing, and SourceError when Kafka fails."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        describe_topics(settings, [topic]).require_all("kafka.results_topic", ", or leave the setting empty")
        policy = topic_settings(settings, [topic]).get(topic)
        if policy is not None and "compact" not in policy.cleanup_policy:
            log.warning("the topic of results keeps every repeated record: set its cleanup.policy to compact", topic=topic)
        self._producer = new_producer(
            settings,
            "the Kafka producer for results",
            # After a record that was sent and not acknowledged in time, this client's idempotent producer sends nothing any more.
            # A result may be repeated, because the newest record of a key counts. One request at a time keeps their order.
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
            linger_ms=10,
            max_block_ms=WRITE_MS_MAX,
            delivery_timeout_ms=WRITE_MS_MAX,
        )

    def write(self, records: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Write records (key, value, timestamp in ms) and wait until all replicas have them. Raises SourceError; some may be written."""
        try:
            futures = [self._producer.send(self._topic, key=key, value=value, timestamp_ms=at_ms) for key, value, at_ms in records]
            _await_all(futures, WRITE_MS_MAX / 1_000)
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"topic {self._topic!r} does not take results: {describe_error(error)}") from error

    def close(self) -> None:
        """Close the producer without waiting."""
        stuck_producer.close(self._producer)


class _Part(NamedTuple):
    """A letter as it is sent."""

    letter: DeadLetter
    headers: Mapping[str, str]
    value: bytes | None
    timestamp_ms: int

    def cut(self) -> _Part:
        """Cut the value. A header has its full length."""
        full_bytes = str(len(self.letter.value or b""))
        return self._replace(headers={**self.headers, "value_bytes": full_bytes}, value=(self.letter.value or b"")[:CUT_VALUE_BYTES])

    def at(self, timestamp_ms: int) -> _Part:
        return self._replace(timestamp_ms=timestamp_ms)


class KafkaDeadLetters:
    """A `DeadLetterSink` that writes to a topic. With an empty topic name it writes nothing.

    A letter's key is `topic:partition:offset` and its value is the raw bytes. Its headers are `reason`, `detail`, `topic`, `partition`
    and `offset` as UTF-8 text, and those of its record if that was read with them. It has the timestamp of its record, unless the topic
    refuses that one. A value that is too large for the topic is cut. The header `value_bytes` then gives its full length. A letter that
    the topic refuses in every form is lost, so that one record cannot stop the stream: `on_lost` is called with it, and the log says why.
    The constructor raises SourceError, or ConfigError when the topic is missing.
    """

    def __init__(self, settings: KafkaSettings, topic: str, on_lost: Callable[[DeadLetter], None] = ignored) -> None:
        self._topic, self._on_lost = topic, on_lost
        self._producer: Any = None
        if not topic:
            return
        if topic in settings.topics:
            raise ConfigError(
                [Problem("kafka.dead_letter_topic", topic, "must not be an input topic: refused events would come back as input")]
            )
        describe_topics(settings, [topic]).require_all("kafka.dead_letter_topic", ", or leave the setting empty")
        require_reachable(settings)
        self._producer = new_producer(
            settings,
            "the Kafka producer for dead letters",
            request_timeout_ms=LETTER_WRITE_MS_MAX // 2,
            # After one record that is too large, this client's idempotent producer fails for ever.
            # A letter may be repeated anyway, with the same key.
            enable_idempotence=False,
            linger_ms=5,
            max_block_ms=LETTER_WRITE_MS_MAX // 2,
            delivery_timeout_ms=LETTER_WRITE_MS_MAX,
            max_request_size=64 << 20,  # the topic's limit decides, not the client's
        )

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write letters and wait until all replicas have them. Raises SourceError; some letters may then be written."""
        if self._producer is None:
            return
        for batch in _batches(letters):
            parts = [_Part(letter, _headers(letter), _plain(letter.value), letter.timestamp_ms) for letter in batch]
            for part, _ in self._send(parts):
                self._send_alone(part)

    def _send_alone(self, part: _Part) -> None:
        """Send a letter of a refused batch: with the time of its record, then with that of this machine, then with 0; cut if need be."""
        error = KafkaError()
        for timestamp_ms in (part.timestamp_ms, UNKNOWN_TIME, 0):
            for form in (part, part.cut()):
                refused = self._send([form.at(timestamp_ms)])
                if not refused:
                    return
                ((_, error),) = refused
                if not isinstance(error, MessageSizeTooLargeError | RecordListTooLargeError):
                    break
        letter = part.letter
        log.error(
            "a dead letter is lost: its topic refuses it",
            topic=self._topic,
            reason=describe_error(error),
            record=letter.key,
            refused_because=letter.reason,
            fix=f"raise max.message.bytes of the topic to {2 * CUT_VALUE_BYTES} or more, and its message.timestamp.before.max.ms",
        )
        self._on_lost(letter)

    def _send(self, parts: Iterable[_Part]) -> list[tuple[_Part, KafkaError]]:
        """Send letters and wait for the acknowledgements. Returns those that the topic refuses. Raises SourceError."""
        sent, refused = [], []
        try:
            for part in parts:
                packed = [(name, text.encode("utf-8", "backslashreplace")) for name, text in part.headers.items()] + _own_headers(part)
                key = part.letter.key.encode("utf-8", "backslashreplace")
                timestamp_ms = None if part.timestamp_ms < 0 else part.timestamp_ms
                sent.append((part, self._producer.send(self._topic, key=key, value=part.value, headers=packed, timestamp_ms=timestamp_ms)))
            self._producer.flush(timeout=LETTER_WRITE_MS_MAX / 1_000)
            for part, future in sent:
                try:
                    future.get(timeout=LETTER_WRITE_MS_MAX / 1_000)
                except KafkaError as error:
                    if not isinstance(error, REFUSALS) and SENT_TOGETHER not in str(error):
                        raise
                    refused.append((part, error))
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"dead letters cannot be written to topic {self._topic!r}: {describe_error(error)}") from error
        return refused

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            stuck_producer.close(producer)


def _batches(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Split letters into batches that are sent together.

    >>> from streammetrics.connectors.source import Input
    >>> three = [DeadLetter("oversized", "", Input("t", 0), offset, bytes(5 << 20)) for offset in range(3)]
    >>> [len(batch) for batch in _batches(three)], [len(batch) for batch in _batches([three[0]._replace(value=b"")] * 501)]
    ([1, 1, 1], [500, 1])
    """
    batch: list[DeadLetter] = []
    size_bytes = 0
    for letter in letters:
        size_bytes += len(letter.value or b"")
        if batch and (len(batch) == LETTERS_AT_ONCE_MAX or size_bytes > BYTES_AT_ONCE_MAX):
            yield batch
            batch, size_bytes = [], len(letter.value or b"")
        batch.append(letter)
    if batch:
        yield batch


def _plain(value: bytes | None) -> bytes | None:
    """Return plain bytes: the client takes no subclass."""
    return None if value is None else bytes(value)


def _own_headers(part: _Part) -> list[tuple[str, bytes | None]]:
    """Return the headers of the record itself, if it was read with them: they may name its schema."""
    value = part.letter.value
    if type(value) is not SentValue:
        return []
    return [(name, content) for name, content in value.headers.items() if name not in part.headers]


def _headers(letter: DeadLetter) -> dict[str, str]:
    return {
        "reason": letter.reason,
        "detail": letter.detail[:DETAIL_CHARS_MAX],
        "topic": letter.input.topic,
        "partition": str(letter.input.partition),
        "offset": str(letter.offset),
    }
