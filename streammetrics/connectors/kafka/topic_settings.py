"""Reads the settings of topics that matter for streammetrics. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import asking

NAMES = ("cleanup.policy", "message.timestamp.type", "retention.ms")


class TopicSettings(NamedTuple):
    """How a topic deletes records, for how long it keeps them (ms; -1: for ever), and who sets the timestamp of a record."""

    cleanup_policy: str
    timestamp_type: str
    retention_ms: int


def topic_settings(settings: KafkaSettings, topics: Sequence[str]) -> Mapping[str, TopicSettings]:
    """Return the settings of those topics whose settings this user may read. Raises SourceError when the broker does not answer."""
    with asking(settings, "the settings of its topics") as admin:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, dict.fromkeys(NAMES)) for topic in topics]
        described = admin.describe_configs(resources, config_filter="all")
    return {topic: _settings_of(configs) for topic, configs in described.get("topic", {}).items() if configs}


def _settings_of(configs: Mapping[str, Any]) -> TopicSettings:
    values = {name: str(entry["value"]) for name, entry in configs.items()}
    return TopicSettings(
        values.get("cleanup.policy", "delete"), values.get("message.timestamp.type", "CreateTime"), int(values.get("retention.ms", "-1"))
    )
