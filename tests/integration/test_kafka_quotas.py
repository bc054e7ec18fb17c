"""A quota of the brokers on reading: the worker logs it, stays ready and loses nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from streammetrics.events.model import Impression
from tests.support.native_json import native_json
from tests.support.real_pipeline import PARTITIONS, Pipeline, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until

CLIENT = "streammetrics"
BYTES_PER_SECOND = 40_000
LISTS = 400
LOGGED = "a quota of the brokers slows reading down"


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    """A broker of its own: a quota is for every client of that name."""
    with KafkaBroker() as broker:
        yield broker


def set_quota(broker: KafkaBroker, bytes_per_second: float | None) -> None:
    entry = AlterClientQuotasRequest.EntryData(
        entity=[AlterClientQuotasRequest.EntryData.EntityData(entity_type="client-id", entity_name=CLIENT)],
        ops=[
            AlterClientQuotasRequest.EntryData.OpData(
                key="consumer_byte_rate", value=bytes_per_second or 0.0, remove=bytes_per_second is None
            )
        ],
    )
    with broker.admin() as admin:
        answer = admin._manager.run(admin._manager.send, AlterClientQuotasRequest(entries=[entry], validate_only=False))
        assert [entry.error_code for entry in answer.entries] == [0]


def test_a_worker_under_a_quota_stays_ready_and_logs_it(broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    pipeline = Pipeline(broker, redis_url, topic_name, ["impressions", "feedback"])
    began, items = start_ms(), tuple(f"item-{number:05}" for number in range(200))
    with pipeline.service() as service:
        wait_until(lambda: len(service.series("streammetrics_lag_records")) == 2 * PARTITIONS, what="every task is claimed")
        set_quota(broker, BYTES_PER_SECOND)
        with pipeline.producer() as producer:
            for number in range(LISTS):
                impression = native_json(Impression(f"r-{number}", f"user-{number}", began + number, items))
                producer.send(pipeline.topics[0], impression, key=f"user-{number}".encode(), timestamp_ms=began + number)
        answers = set()

        def is_logged_and_half_is_read() -> bool:
            answers.add(service.get("/readyz"))
            return LOGGED in service.log and pipeline.committed() >= LISTS // 2

        wait_until(is_logged_and_half_is_read, what="the quota is logged, and half of the lists are read")
        assert {answer.status for answer in answers} == {200}, answers
        assert service.log.count(LOGGED) == 1
        assert "no Kafka broker answers" not in service.log
        assert "the Kafka client is being replaced" not in service.log
        set_quota(broker, None)
        pipeline.assert_exact()
