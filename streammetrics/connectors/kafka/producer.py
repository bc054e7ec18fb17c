"""Builds a producer: it waits for all replicas, and creates no topic. `patches.stuck_producer` closes it."""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import connection_options, starting


def new_producer(settings: KafkaSettings, what: str, **options: Any) -> Any:
    """Build a producer. `what` names it in errors. Raises SourceError. A failed start leaves nothing behind."""
    fixed = {"acks": "all", "allow_auto_create_topics": False, "metrics_enabled": False}
    with starting(what, settings) as network:
        return KafkaProducer(**connection_options(settings) | fixed | options, kafka_client=network)
