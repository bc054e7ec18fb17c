"""Results and simulated traffic, while a real broker does not answer and afterwards."""

from __future__ import annotations

import pytest

from streammetrics.connectors.kafka.client import REQUEST_MS
from streammetrics.connectors.kafka.sinks import KafkaResults, KafkaSink
from streammetrics.connectors.simulated import SimulatedRecord
from streammetrics.errors import SourceError
from tests.support.kafka_member import settings_for
from tests.tools.servers.kafka import KafkaBroker


def test_results_are_written_again_after_a_broker_did_not_answer_in_time(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name, configs={"cleanup.policy": "compact"})
    results = KafkaResults(settings_for(kafka_broker, "input"), topic_name)
    results.write([(b"key", b"before", 1)])
    kafka_broker.hang()
    with pytest.raises(SourceError, match="does not take results"):
        results.write([(b"key", b"meanwhile", 2)])
    kafka_broker.resume()
    results.write([(b"key", b"after", 3)])  # raises unless the broker acknowledges it
    results.close()


def test_traffic_that_no_broker_takes_is_an_error(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name)
    record = SimulatedRecord(topic_name, b"user", 1, b"{}")
    sink = KafkaSink(settings_for(kafka_broker, topic_name), [topic_name], write_ms_max=REQUEST_MS + 1_000)
    sink.write(record, None)
    sink.flush()
    kafka_broker.hang()
    sink.write(record, None)
    with pytest.raises(SourceError, match="Kafka does not accept the traffic"), sink:
        sink.flush()
