"""Another program in the consumer group of the workers: `/readyz` and `doctor` say so."""

from __future__ import annotations

import contextlib

import pytest
from confluent_kafka import Consumer

from tests.support.command_line import called
from tests.support.real_pipeline import Pipeline, Service
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_worker_that_can_read_nothing_is_not_ready_and_doctor_names_who_takes_its_topics(
    kafka_broker: KafkaBroker, redis_url: str, topic_name: str, protocol: str
) -> None:
    pipeline = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"])
    config = {"client.id": "another-program", "group.id": pipeline.name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    strategy = {"partition.assignment.strategy": "range"} if protocol == "classic" else {}
    other = Consumer({"bootstrap.servers": kafka_broker.bootstrap, **config, **strategy})
    other.subscribe([pipeline.topics[0]])
    try:
        wait_until(lambda: other.poll(0.2) is None and bool(other.assignment()), what="the other program has partitions")
        service = pipeline.service()
        service.launch()
        try:
            wait_until(lambda: other.poll(0.2) is None and answers(service, "/readyz", 503, "another member of consumer group"), what="503")
            doctor = called("doctor", "--config", service.config)
            assert doctor.returncode == 1
            assert f"consumer group {pipeline.name!r} has members that are no workers: a" in doctor.stdout
            other.close()
            wait_until(lambda: answers(service, "/readyz", 200, "ok"), what="the worker is ready once the other has left")
        finally:
            service.close()
    finally:
        other.close()


def test_while_a_topic_is_missing_nobody_is_advised_to_change_the_group(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    pipeline = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"])
    service = pipeline.service()
    service.launch()
    try:
        wait_until(lambda: answers(service, "/readyz", 200, "tasks have committed"), what="it is ready")
        kafka_broker.delete_topic(pipeline.topics[1])
        lines = set[str]()

        def ended() -> bool:
            with contextlib.suppress(OSError):
                lines.update(service.get("/readyz").text.splitlines())
            return not service.alive

        wait_until(ended, what="the worker stops: a topic of its state is gone")
        missing = f"worker: Kafka does not list topic {pipeline.topics[1]}, so no process can read its tasks; if it was deleted, create it"
        assert [line for line in lines if line.startswith(missing)]
        assert not [line for line in lines if "another member" in line]
    finally:
        service.close()


def answers(service: Service, path: str, status: int, word: str) -> bool:
    """Whether the port answers so; False where it does not listen yet."""
    try:
        answer = service.get(path)
    except OSError:
        return False
    return answer.status == status and word in answer.text
