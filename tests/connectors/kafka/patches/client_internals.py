"""What integration tests read and change inside a source's Kafka client, by private names of kafka-python."""

from __future__ import annotations

from streammetrics.connectors.kafka.source import KafkaSource


def generation_of(source: KafkaSource) -> int:
    """Return the group's generation: every rebalance adds one."""
    return int(source._consumer._coordinator._generation.generation_id)


def join_has_ended(source: KafkaSource) -> bool:
    """Return whether no join is on its way."""
    join = source._consumer._coordinator._join_task
    return join is None or bool(join.is_done)


def stop_fetching(source: KafkaSource) -> None:
    """Leave the client like one whose fetches stay pending for ever. No real broker does this on demand."""
    source._consumer._fetcher._create_fetch_requests = dict


def vanish(source: KafkaSource) -> None:
    """Close the client's connections without leaving the group, like `kill -9`."""
    source._consumer._client.close()
    source._consumer = None
