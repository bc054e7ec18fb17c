"""Describes topics, their settings and the cluster, explains missing topics, and creates the output topics of a repartitioning.

Reads and writes no record.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import (
    InvalidTopicError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import CLIENT_ID, asking, describe_error
from streammetrics.errors import ConfigError, Problem, SourceError

CREATE_MS_MAX = 15_000
COPIED_CONFIGS = ("retention.ms", "retention.bytes", "max.message.bytes", "compression.type", "message.timestamp.type")

NAMES = ("cleanup.policy", "message.timestamp.type", "retention.ms")
NEWER_PROTOCOL = "consumer"
"""The type of a group whose members use the newer protocol (KIP-848), which this program does not."""
log = structlog.get_logger("streammetrics.kafka")


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
