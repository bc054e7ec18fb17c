"""Writes refused records to a Kafka topic, where they can be read back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import structlog
from kafka.errors import InvalidTimestampError, KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.kafka.client import KafkaConnection, describe_error, require_reachable
from streammetrics.connectors.kafka.patches import stuck_producer
from streammetrics.connectors.kafka.producer import new_producer
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.errors import ConfigError, Problem, SourceError
from streammetrics.events.sent_value import SentValue

log = structlog.get_logger("streammetrics.kafka")

LETTERS_AT_ONCE_MAX = 500
"""The most letters that wait for an acknowledgement. It bounds memory."""
BYTES_AT_ONCE_MAX = 8 << 20
"""The most bytes that wait for an acknowledgement. A single letter may be larger."""
WRITE_MS_MAX = 10_000
DETAIL_CHARS_MAX = 1_000
CUT_VALUE_BYTES = 16_384
"""The length to which a value is cut that is too large for the topic. The input topic still has the whole record."""


UNKNOWN_TIME = -1
"""The client then takes the time of this machine."""


SENT_TOGETHER = "part of a batch"
"""The client says this of valid records that were sent together with an invalid one."""


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


class _Refused(NamedTuple):
    """Letters that the topic refuses."""

    too_large: list[_Part]
    wrong_time: list[_Part]


class KafkaDeadLetters:
    """A `DeadLetterSink` that writes to a topic. With an empty topic name it writes nothing.

    A letter's key is `topic:partition:offset` and its value is the raw bytes. Its headers are `reason`, `detail`, `topic`, `partition`
    and `offset` as UTF-8 text, and those of its record if that was read with them. It has the timestamp of its record, unless the topic
    refuses that one. A value that is too large for the topic is cut, so that one record cannot stop the stream. The header `value_bytes`
    then gives its full length. The constructor raises SourceError, or ConfigError when the topic is missing.
    """

    def __init__(self, settings: KafkaConnection, topic: str) -> None:
        self._topic = topic
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
            request_timeout_ms=WRITE_MS_MAX // 2,
            # After one record that is too large, this client's idempotent producer fails for ever.
            # A letter may be repeated anyway, with the same key.
            enable_idempotence=False,
            linger_ms=5,
            max_block_ms=WRITE_MS_MAX // 2,
            delivery_timeout_ms=WRITE_MS_MAX,
            max_request_size=64 << 20,  # the topic's limit decides, not the client's
        )

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Write letters and wait until all replicas have them. Raises SourceError; some letters may then be written."""
        if self._producer is None:
            return
        for batch in _batches(letters):
            refused = self._send([_Part(letter, _headers(letter), _plain(letter.value), letter.timestamp_ms) for letter in batch])
            if refused.too_large:
                log.warning("dead letters that are too large for their topic were cut", letters=len(refused.too_large), topic=self._topic)
                cut = self._send([part.cut() for part in refused.too_large])
                if cut.too_large:
                    raise SourceError(
                        f"topic {self._topic!r} does not accept dead letters of {CUT_VALUE_BYTES} bytes", "raise its max.message.bytes"
                    )
                refused.wrong_time.extend(cut.wrong_time)
            if refused.wrong_time:
                self._send_at_other_times(refused.wrong_time)

    def _send_at_other_times(self, parts: Iterable[_Part]) -> None:
        """Write letters with timestamps that the topic refuses. One of them makes the topic refuse all that were sent with it.

        So each is sent alone: with its record's own time, then with the time of this machine, then with 0.
        """
        for part in parts:
            for timestamp_ms in (part.timestamp_ms, UNKNOWN_TIME, 0):
                refused = self._send([part.at(timestamp_ms)])
                if refused.too_large:
                    refused = self._send([part.cut().at(timestamp_ms)])
                if not (refused.too_large or refused.wrong_time):
                    break
            else:
                raise SourceError(
                    f"topic {self._topic!r} accepts no timestamp of a dead letter",
                    "raise its message.timestamp.before.max.ms and message.timestamp.after.max.ms",
                )

    def _send(self, parts: Iterable[_Part]) -> _Refused:
        """Send letters and wait for the acknowledgements. Returns those that the topic refuses."""
        sent, refused = [], _Refused([], [])
        try:
            for part in parts:
                packed = [(name, text.encode("utf-8", "backslashreplace")) for name, text in part.headers.items()] + _own_headers(part)
                key = part.letter.key.encode("utf-8", "backslashreplace")
                timestamp_ms = None if part.timestamp_ms < 0 else part.timestamp_ms
                sent.append((part, self._producer.send(self._topic, key=key, value=part.value, headers=packed, timestamp_ms=timestamp_ms)))
            self._producer.flush(timeout=WRITE_MS_MAX / 1_000)
            for part, future in sent:
                try:
                    future.get(timeout=WRITE_MS_MAX / 1_000)
                except (MessageSizeTooLargeError, RecordListTooLargeError):
                    refused.too_large.append(part)
                except KafkaError as error:
                    if not isinstance(error, InvalidTimestampError) and SENT_TOGETHER not in str(error):
                        raise
                    refused.wrong_time.append(part)
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
