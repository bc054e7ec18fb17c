"""What a Kafka cluster says of itself, for people. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from streammetrics.connectors.kafka.client import KafkaConnection, asking


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """The cluster's id, how many brokers there are, and the version that the protocol of one of them shows ("" if unknown)."""

    cluster_id: str
    brokers: int
    version: str


def read_cluster(settings: KafkaConnection) -> ClusterInfo:
    """Ask the cluster. Raises SourceError when it cannot be asked, ConfigError for certificates that cannot be used."""
    with asking(settings, "its cluster") as admin:
        cluster = admin.describe_cluster()
        brokers = cluster["brokers"]
        version = admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version if brokers else ()
    return ClusterInfo(str(cluster.get("cluster_id") or ""), len(brokers), ".".join(map(str, version)))
