"""Refused records, kept in a Kafka topic for somebody to read back. Written, acknowledged by all replicas, then forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import structlog
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError, RecordListTooLargeError

from streammetrics.connectors.base import DeadLetter
from streammetrics.connectors.kafka.client import KafkaConnection, client_log, connection_options, require_reachable, starting, words_of
from streammetrics.connectors.kafka.producer import close_producer
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.errors import ConfigError, Problem, SourceError

log = structlog.get_logger("streammetrics.kafka")

LETTERS_AT_ONCE_MAX = 500
"""How many letters wait for their acknowledgement together; a bound on memory."""
BYTES_AT_ONCE_MAX = 8 << 20
"""How many bytes of them do; a single one may be more."""
WRITE_MS_MAX = 10_000
DETAIL_CHARS_MAX = 1_000
CUT_VALUE_BYTES = 16_384
"""What is kept of a value that the topic does not take whole. The rest can be read at its topic, partition and offset."""


class KafkaDeadLetters:
    """The `DeadLetterSink` that writes to a topic; an empty topic name keeps nothing.

    A letter's key is `topic:partition:offset`, its value the raw bytes, its headers `reason`, `detail`, `topic`, `partition`
    and `offset` as UTF-8 text. A value larger than the topic takes is cut, and then has a header `value_bytes` with its full
    length: one record must not stop the stream. Building one raises SourceError, or ConfigError when the topic is missing.
    """

    def __init__(self, settings: KafkaConnection, topic: str) -> None:
        client_log()
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
        with starting("the Kafka producer for dead letters", settings) as network:
            self._producer = KafkaProducer(
                kafka_client=network,
                **connection_options(settings) | {"request_timeout_ms": WRITE_MS_MAX // 2},
                acks="all",
                # Once a topic has refused a record as too large, an idempotent producer of this library fails for ever after.
                # A letter may be repeated anyway, under the same key.
                enable_idempotence=False,
                linger_ms=5,
                max_block_ms=WRITE_MS_MAX // 2,
                delivery_timeout_ms=WRITE_MS_MAX,
                max_request_size=64 << 20,  # the topic's own limit decides, not the client's
                allow_auto_create_topics=False,
                metrics_enabled=False,
            )

    def write(self, letters: Iterable[DeadLetter]) -> None:
        """Send and wait until all replicas have the letters. Raises SourceError; what was sent before it may be there."""
        if self._producer is None:
            return
        for some in _parcels(letters):
            too_large = self._write_some([(letter, _headers(letter), letter.value) for letter in some])
            if too_large:
                log.warning("dead letters larger than their topic takes were cut", letters=len(too_large), topic=self._topic)
                cut = [
                    (letter, _headers(letter) | {"value_bytes": str(len(letter.value or b""))}, (letter.value or b"")[:CUT_VALUE_BYTES])
                    for letter in too_large
                ]
                if self._write_some(cut):
                    raise SourceError(
                        f"topic {self._topic!r} does not take letters of {CUT_VALUE_BYTES} bytes", "raise its max.message.bytes"
                    )

    def _write_some(self, parts: Iterable[tuple[DeadLetter, Mapping[str, str], bytes | None]]) -> list[DeadLetter]:
        """Those letters that were too large for the topic."""
        sent = []
        try:
            for letter, headers, value in parts:
                packed = [(name, text.encode("utf-8", "backslashreplace")) for name, text in headers.items()]
                sent.append(
                    (
                        letter,
                        self._producer.send(self._topic, key=letter.key.encode("utf-8", "backslashreplace"), value=value, headers=packed),
                    )
                )
            self._producer.flush(timeout=WRITE_MS_MAX / 1_000)
            return [letter for letter, future in sent if not self._arrived(future)]
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"dead letters cannot be written to topic {self._topic!r}: {words_of(error)}") from error

    @staticmethod
    def _arrived(future: Any) -> bool:
        try:
            future.get(timeout=WRITE_MS_MAX / 1_000)
        except (MessageSizeTooLargeError, RecordListTooLargeError):
            return False
        return True

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            close_producer(producer)


def _parcels(letters: Iterable[DeadLetter]) -> Iterator[list[DeadLetter]]:
    """Letters as they are sent together.

    >>> from streammetrics.connectors.base import Input
    >>> three = [DeadLetter("oversized", "", Input("t", 0), offset, bytes(5 << 20)) for offset in range(3)]
    >>> [len(parcel) for parcel in _parcels(three)], [len(parcel) for parcel in _parcels([three[0]._replace(value=b"")] * 501)]
    ([1, 1, 1], [500, 1])
    """
    parcel: list[DeadLetter] = []
    size_bytes = 0
    for letter in letters:
        size_bytes += len(letter.value or b"")
        if parcel and (len(parcel) == LETTERS_AT_ONCE_MAX or size_bytes > BYTES_AT_ONCE_MAX):
            yield parcel
            parcel, size_bytes = [], len(letter.value or b"")
        parcel.append(letter)
    if parcel:
        yield parcel


def _headers(letter: DeadLetter) -> dict[str, str]:
    return {
        "reason": letter.reason,
        "detail": letter.detail[:DETAIL_CHARS_MAX],
        "topic": letter.input.topic,
        "partition": str(letter.input.partition),
        "offset": str(letter.offset),
    }
