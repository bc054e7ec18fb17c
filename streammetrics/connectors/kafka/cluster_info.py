"""Describes a Kafka cluster for `doctor`. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from streammetrics.connectors.kafka.client import KafkaConnection, asking


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster's id, its number of brokers, and the Kafka version of the first broker ("" if unknown)."""

    cluster_id: str
    brokers: int
    version: str


def read_cluster(settings: KafkaConnection) -> ClusterInfo:
    """Ask the cluster. Raises SourceError when no broker answers, and ConfigError for unusable certificate files."""
    with asking(settings, "its cluster") as admin:
        cluster = admin.describe_cluster()
        brokers = cluster["brokers"]
        version = admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version if brokers else ()
    return ClusterInfo(str(cluster.get("cluster_id") or ""), len(brokers), ".".join(map(str, version)))
