"""The output topics of a repartitioning: planned, and created like their inputs. No record is read or written here."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import asking, describe_error
from streammetrics.connectors.kafka.topics import describe_topics
from streammetrics.errors import ConfigError, Problem

log = structlog.get_logger("streammetrics.kafka")

CREATE_MS_MAX = 15_000
COPIED_CONFIGS = ("retention.ms", "retention.bytes", "max.message.bytes", "compression.type", "message.timestamp.type")


@dataclass(frozen=True, slots=True)
class RepartitionPlan:
    """Which topics are copied into which, the partitions of each output, and who does it.

    `instance` names this process among several that share the work. Two processes with the same name fence each other.
    """

    outputs: Mapping[str, str]
    partitions: int
    group_id: str
    instance: str = "1"

    @property
    def transactional_id(self) -> str:
        return f"{self.group_id}-{self.instance}"


def prepare_outputs(settings: KafkaSettings, suffix: str, partitions: int | None, instance: str) -> RepartitionPlan:
    """Create the output topics that are missing, with the retention and sizes of their inputs.

    `partitions` None: as many as the largest input topic has. Raises ConfigError when an input is missing, or when an output
    exists with another number of partitions; SourceError when Kafka does not answer.
    """
    inputs = describe_topics(settings, settings.topics).require_all("kafka.topics")
    outputs = {name: name + suffix for name in settings.topics}
    count = partitions or max(topic.partitions for topic in inputs.values())
    descriptions = describe_topics(settings, list(outputs.values())).topics
    wrong = {name: topic.partitions for name, topic in descriptions.items() if topic.partitions != count}
    if wrong:
        listed = ", ".join(f"{name} has {number}" for name, number in wrong.items())
        fix = "give that number with --partitions, choose another --suffix, or delete the output topics"
        raise ConfigError([Problem("--partitions", str(count), f"the output topics exist with other partition counts ({listed}); {fix}")])
    missing = {source: output for source, output in outputs.items() if output not in descriptions}
    if missing:
        _create(settings, missing, count)
    return RepartitionPlan(outputs, count, f"{settings.group_id}-repartition", instance)


def _create(settings: KafkaSettings, missing: Mapping[str, str], partitions: int) -> None:
    with asking(settings, "topics to create") as admin:
        configs = _configs_of(admin, list(missing))
        topics = [
            NewTopic(output, num_partitions=partitions, replication_factor=-1, topic_configs=configs.get(source, {}))
            for source, output in missing.items()
        ]
        with contextlib.suppress(TopicAlreadyExistsError):  # another instance was faster
            admin.create_topics(topics, timeout_ms=CREATE_MS_MAX)
    log.info("output topics created", topics=sorted(missing.values()), partitions=partitions)


def _configs_of(admin: Any, topics: Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings of the input topics that their copies keep, by topic. Without the right to read them: none."""
    try:
        described = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name) for name in topics])
    except KafkaError as error:
        log.warning("the input topics' settings cannot be read; the output topics get the broker's defaults", error=describe_error(error))
        return {}
    configs: dict[str, dict[str, str]] = {}
    for name, entries in described.get("topic", described).items():
        configs[name] = {key: str(_config_value(entries[key])) for key in COPIED_CONFIGS if key in entries}
    return configs


def _config_value(entry: Any) -> Any:
    return entry["value"] if isinstance(entry, Mapping) else entry
