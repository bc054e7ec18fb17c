"""Another Kafka cluster with copies of the topics, as the runbook has it: real brokers, every stored integer compared."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streammetrics.events.model import Feedback, Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.real_pipeline import HOUR_MS, Kept, Pipeline, start_ms
from tests.tools.servers.kafka import ANOTHER_CLUSTER_ID, CLUSTER_ID, KafkaBroker

JOIN = {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000, "support_users": 1}


@pytest.fixture(scope="module")
def other_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(cluster_id=ANOTHER_CLUSTER_ID) as broker:
        yield broker


def send(pipeline: Pipeline, ts: int, prefix: str, users: int) -> None:
    """A list and a click of some users, and an hour later the end of their sessions."""
    with pipeline.producer() as producer:
        for number in range(users):
            user = f"{prefix}{number}"
            impression = Impression(f"r-{user}", user, ts + number, ("a", "b"))
            clicked = Feedback(user, ts + number + 1, "b", "click", impression_id=impression.impression_id)
            for topic, event in zip(pipeline.topics, (impression, clicked), strict=True):
                producer.send(topic, native_json(event), key=user.encode(), timestamp_ms=event.ts)
    pipeline.write_ends(ts + HOUR_MS)


def mirror(records: list[Kept], to: Pipeline) -> None:
    """Copy records into the same partitions of another cluster, where their offsets are others."""
    with to.producer() as producer:
        for kept in records:
            producer.send(kept.place.topic, kept.value, partition=kept.place.partition, timestamp_ms=kept.timestamp_ms)


def test_copies_in_another_cluster_are_not_read_on_and_a_new_namespace_counts_them(
    kafka_broker: KafkaBroker, other_broker: KafkaBroker, redis_url: str, topic_name: str
) -> None:
    here = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"], join=JOIN)
    there = Pipeline(other_broker, redis_url, topic_name, ["impressions", "feedback"], join=JOIN)
    began = start_ms()
    send(here, began, "old", 40)
    with here.service():
        counted = here.assert_exact()
    of_the_mirror = there.records()
    assert of_the_mirror == []
    mirror(here.records(), there)
    mirror(here.records(), there)  # the stored offsets exist there, and are at other records
    service = there.service()
    service.launch()
    try:
        assert service.wait_for_exit(120) == 2
        said = f"the stored offsets belong to cluster {CLUSTER_ID}, and this is cluster {ANOTHER_CLUSTER_ID}"
        assert said in service.log
        assert here.expected(counted) == here.stored(), "nothing has changed"
        doctor = called("doctor", "--config", service.config)
        assert doctor.returncode == 1, doctor.stdout
        assert f"fail  kafka.bootstrap_servers lead to another Kafka cluster: {said}" in doctor.stdout
        assert 'follow "Another Kafka cluster" in deploy/runbook.md' in doctor.stdout
    finally:
        service.close()


def test_the_steps_of_the_runbook_count_every_record_once(
    kafka_broker: KafkaBroker, other_broker: KafkaBroker, redis_url: str, topic_name: str
) -> None:
    here = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"], join=JOIN)
    began = start_ms()
    send(here, began, "old", 40)
    namespace = {"namespace": f"{topic_name}-2", "url": redis_url}
    there = Pipeline(other_broker, redis_url, topic_name, ["impressions", "feedback"], join=JOIN, redis=namespace)
    mirror(here.records(), there)
    with here.service(), there.service():
        before = here.assert_exact()
        assert there.assert_exact().counters == before.counters
        assert here.stored() == there.stored()
        send(there, began + 2 * HOUR_MS, "new", 30)  # the producers have moved
        after = there.assert_exact()
    assert after.counters["matched", there.topics[1]] == before.counters["matched", here.topics[1]] + 30
