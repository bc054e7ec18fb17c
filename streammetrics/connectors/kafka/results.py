"""Writes results to a Kafka topic: keyed records of which the newest counts, so the topic should be compacted."""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from kafka.errors import KafkaError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import describe_error
from streammetrics.connectors.kafka.patches import stuck_producer
from streammetrics.connectors.kafka.producer import new_producer
from streammetrics.connectors.kafka.topic_settings import topic_settings
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.errors import SourceError

WRITE_MS_MAX = 15_000

log = structlog.get_logger("streammetrics.kafka")


class KafkaResults:
    """A sink for results. The constructor raises ConfigError when the topic is missing, and SourceError when Kafka fails."""

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self._topic = topic
        describe_topics(settings, [topic]).require_all("kafka.results_topic", ", or leave the setting empty")
        policy = topic_settings(settings, [topic]).get(topic)
        if policy is not None and "compact" not in policy.cleanup_policy:
            log.warning("the topic of results keeps every repeated record: set its cleanup.policy to compact", topic=topic)
        limits = {"linger_ms": 10, "max_block_ms": WRITE_MS_MAX, "delivery_timeout_ms": WRITE_MS_MAX}
        self._producer = new_producer(settings, "the Kafka producer for results", **limits)

    def write(self, records: Iterable[tuple[bytes, bytes, int]]) -> None:
        """Write records (key, value, timestamp in ms) and wait until all replicas have them. Raises SourceError; some may be written."""
        try:
            futures = [self._producer.send(self._topic, key=key, value=value, timestamp_ms=at_ms) for key, value, at_ms in records]
            for future in futures:
                future.get(timeout=WRITE_MS_MAX / 1_000)
        except (KafkaError, AssertionError) as error:
            raise SourceError(f"topic {self._topic!r} does not take results: {describe_error(error)}") from error

    def close(self) -> None:
        """Close the producer without waiting."""
        stuck_producer.close(self._producer)
