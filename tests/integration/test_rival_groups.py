"""Two consumer groups on one namespace: both processes name the mistake. A changed group after a clean stop is no mistake."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streammetrics.events.model import Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.support.real_pipeline import PARTITIONS, Pipeline, Service, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until
from tests.tools.servers.redis import RedisServer

CONFLICT = "use the same redis.namespace"


@pytest.fixture
def pipeline(kafka_broker: KafkaBroker, redis_server: RedisServer, topic_name: str) -> Pipeline:
    return Pipeline(kafka_broker, redis_server.fresh_url(), topic_name, ["impressions"])


def group(name: str) -> Mapping[str, Mapping[str, object]]:
    return {"kafka": {"group_id": name}}


class Sender:
    """Sends one list to each partition per call, so that every task has something to commit."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.sent, self.start_ms = pipeline, 0, start_ms()

    def send(self) -> None:
        self.sent += 1
        with self.pipeline.producer() as producer:
            for partition in range(PARTITIONS):
                impression = Impression(f"r{self.sent}", f"u{partition}", self.start_ms + self.sent, ("a",))
                producer.send(self.pipeline.topics[0], native_json(impression), key=impression.user_id.encode(), partition=partition)


def events_of(service: Service) -> int:
    counters: Mapping[str, int] = service.report().get("counters", {})
    return counters.get("events", 0)


def test_two_groups_on_one_namespace_are_named_by_both(pipeline: Pipeline) -> None:
    sender = Sender(pipeline)
    sender.send()
    with pipeline.service(**group("one")) as one, pipeline.service(**group("two")) as two:

        def both_say_so() -> bool:
            sender.send()
            return all(CONFLICT in service.get("/readyz").text for service in (one, two))

        wait_until(both_say_so, what="both workers are not ready and say why")
        for service, group_suffix, other in ((one, "one", "two"), (two, "two", "one")):
            answer = service.get("/readyz")
            assert answer.status == 503
            assert f"consumer groups '{group_suffix}' and '{other}' {CONFLICT}" in answer.text
            assert "the same kafka.group_id" in answer.text
            assert service.log_path.read_text(encoding="utf-8").count(CONFLICT) == 1
        two.stop()
        wait_until(lambda: events_of(one) == PARTITIONS * sender.sent, what="each event counts once")


def test_a_group_changed_after_a_clean_stop_is_no_conflict(pipeline: Pipeline) -> None:
    sender = Sender(pipeline)
    for name in ("before", "after"):
        with pipeline.service(**group(name)) as service:
            for _ in range(5):
                sender.send()
            wait_until(lambda: events_of(service) == PARTITIONS * sender.sent, what="all events are counted")
            assert service.get("/readyz").status == 200
            assert CONFLICT not in service.log_path.read_text(encoding="utf-8")
    settings = {
        "kafka.bootstrap_servers": pipeline.broker.bootstrap,
        "kafka.topics": ",".join(pipeline.topics),
        "kafka.dead_letter_topic": pipeline.dead_letters,
        "kafka.group_id": "before",
        "redis.url": pipeline.sections["redis"]["url"],
        "redis.namespace": pipeline.name,
        "http.port": 0,
    }
    done = called("doctor", *[word for key, value in settings.items() for word in ("--set", f"{key}={value}")])
    assert "tasks were last claimed by workers of consumer group 'after', and kafka.group_id is 'before'" in done.stdout
