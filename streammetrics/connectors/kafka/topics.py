"""Describes topics, their settings and the cluster, and explains missing topics. Reads no record and changes nothing."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import InvalidTopicError, KafkaError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError, for_code

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import CLIENT_ID, asking
from streammetrics.errors import ConfigError, Problem, SourceError


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic: its name, its id ("" where the broker is too old to have one) and its number of partitions."""

    name: str
    topic_id: str
    partitions: int


class MissingTopic(enum.Enum):
    """Why a broker does not describe a topic, and what to do. Without the right, a user cannot see whether the topic exists."""

    MISSING = ("does not exist", "create it (streammetrics never creates topics)")
    HIDDEN = (
        "may not be described by this user, so it is unknown whether it exists",
        "grant DESCRIBE on it (READ and WRITE include it), and create it if it does not exist (streammetrics never creates topics)",
    )
    MISNAMED = ("has a name that Kafka does not allow", "correct the name")

    @property
    def message(self) -> str:
        return self.value[0]

    @property
    def fix(self) -> str:
        return self.value[1]


_ABSENCES = {
    UnknownTopicOrPartitionError.errno: MissingTopic.MISSING,
    TopicAuthorizationFailedError.errno: MissingTopic.HIDDEN,
    InvalidTopicError.errno: MissingTopic.MISNAMED,
}


@dataclass(frozen=True, slots=True)
class TopicDescriptions:
    """The topics that were found, and the reason for each that was not."""

    topics: Mapping[str, Topic]
    absent: Mapping[str, MissingTopic]

    def require_all(self, key: str, otherwise: str = "") -> Mapping[str, Topic]:
        """Return all topics. Raises ConfigError for absent ones; `key` is the setting, `otherwise` another way to fix it."""
        if self.absent:
            raise ConfigError([Problem(key, name, f"{why.message}; {why.fix}{otherwise}") for name, why in self.absent.items()])
        return self.topics


def describe_topics(settings: KafkaSettings, names: Sequence[str]) -> TopicDescriptions:
    """Describe these topics. Raises SourceError when the broker does not answer, or cannot describe one at the moment."""
    with asking(settings, "its topics") as admin:
        descriptions = admin.describe_topics(list(names))
    return TopicDescriptions(
        {
            entry["name"]: Topic(entry["name"], topic_id_text(entry.get("topic_id")), len(entry["partitions"]))
            for entry in descriptions
            if entry["error_code"] == 0
        },
        {entry["name"]: _absence(entry["name"], entry["error_code"]) for entry in descriptions if entry["error_code"] != 0},
    )


def _absence(name: str, error_code: int) -> MissingTopic:
    if error_code not in _ABSENCES:
        raise SourceError(f"Kafka cannot describe topic {name!r} at the moment: {for_code(error_code).__name__}")
    return _ABSENCES[error_code]


def topic_id_text(topic_id: object) -> str:
    """Return a topic id as text. No id, and the all-zero id that means none, give "".

    >>> topic_id_text(None), topic_id_text("00000000-0000-0000-0000-000000000000")
    ('', '')
    """
    text = "" if topic_id is None else str(topic_id)
    return text if text.strip("0-") else ""


def require_copartitioned(settings: KafkaSettings) -> Mapping[str, Topic]:
    """Return the input topics. Raises ConfigError, with topics and counts, unless all exist and have equal partition counts."""
    topics = describe_topics(settings, settings.topics).require_all("kafka.topics")
    named = ",".join(settings.topics)
    counts = {name: topics[name].partitions for name in settings.topics}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise ConfigError(
            [
                Problem(
                    "kafka.topics",
                    named,
                    f"must have equal partition counts, so that a user's events meet ({listed}); re-create or expand the smaller ones, "
                    "or copy all of them with `streammetrics repartition`",
                )
            ]
        )
    return topics


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


NEWER_PROTOCOL = "consumer"
"""The type of a group whose members use the newer protocol (KIP-848), which this program does not."""


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster's id, its number of brokers, and the Kafka version of the first broker ("" if unknown)."""

    cluster_id: str
    brokers: int
    version: str


def read_cluster(settings: KafkaSettings) -> ClusterInfo:
    """Ask the cluster. Raises SourceError when no broker answers, and ConfigError for unusable certificate files."""
    with asking(settings, "its cluster") as admin:
        cluster = admin.describe_cluster()
        brokers = cluster["brokers"]
        version = admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version if brokers else ()
    return ClusterInfo(str(cluster.get("cluster_id") or ""), len(brokers), ".".join(map(str, version)))


def foreign_members(settings: KafkaSettings) -> list[str]:
    """Return the members of the consumer group that are other programs, as texts. Empty also where the user may not ask.

    Raises SourceError when no broker answers.
    """
    group = settings.group_id
    with asking(settings, "its consumer group") as admin:
        try:
            kinds = {group["group_id"]: str(group.get("group_type") or "").lower() for group in admin.list_groups()}
            if kinds.get(group) == NEWER_PROTOCOL:
                return ["a program with group.protocol=consumer"]
            members = admin.describe_groups([group])[group]["members"] if group in kinds else []
        except KafkaError:
            return []
    return [f"{member['client_id']} at {member['client_host'].lstrip('/')}" for member in members if member["client_id"] != CLIENT_ID]
