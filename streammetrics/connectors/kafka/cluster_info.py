"""Describes a Kafka cluster for `doctor`. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from kafka.errors import KafkaError

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.client import CLIENT_ID, asking

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
