"""What a Kafka cluster says of itself, for people. Reads only."""

from __future__ import annotations

from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from streammetrics.adapters.kafka_client import KafkaSettings, connection_options, require_reachable, starting
from streammetrics.errors import SourceError


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster's id, how many brokers there are, and the version that the protocol of one of them shows ("" if unknown)."""

    cluster_id: str
    brokers: int
    version: str


def read_cluster(settings: KafkaSettings) -> ClusterFacts:
    """Ask the cluster. Raises SourceError when it cannot be asked, ConfigError for certificates that cannot be used."""
    require_reachable(settings)
    with starting("the Kafka admin client", settings) as network:
        admin = KafkaAdminClient(**connection_options(settings), kafka_client=network)
    try:
        cluster = admin.describe_cluster()
        brokers = cluster["brokers"]
        version = admin.get_broker_version_data(brokers[0]["broker_id"]).broker_version if brokers else ()
    except KafkaError as error:
        raise SourceError(f"the broker does not describe its cluster: {error}") from error
    finally:
        admin.close()
    return ClusterFacts(str(cluster.get("cluster_id") or ""), len(brokers), ".".join(map(str, version)))
