"""Experiments switched off and on again in a running namespace, as the runbook has it: real servers, every stored integer compared."""

from __future__ import annotations

from streammetrics.enrolment.scopes import EXPERIMENTS
from streammetrics.events.model import Feedback, Impression
from tests.support.native_json import native_json
from tests.support.real_pipeline import HOUR_MS, PARTITIONS, Pipeline, Service, start_ms
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until

JOIN = {"gap_ms": 600_000, "attribution_ms": 600_000, "lateness_ms": 10_000, "idle_ms": 3_600_000}
SWITCHED = "experiments were switched on or off"


def send(pipeline: Pipeline, ts: int, prefix: str, users: int) -> None:
    """A list for each of some users, in two variants, a click on every other, and an hour later the end of their sessions."""
    with pipeline.producer() as producer:
        for number in range(users):
            user = f"{prefix}{number}"
            impression = Impression(f"r-{user}", user, ts + number, ("a", "b"), (("ranker", ("control", "treatment")[number % 2]),))
            clicked = [Feedback(user, ts + number + 1, "a", "click", impression_id=impression.impression_id)] if number % 4 < 2 else []
            for event in (impression, *clicked):
                producer.send(pipeline.topics[isinstance(event, Feedback)], native_json(event), key=user.encode(), timestamp_ms=event.ts)
    pipeline.write_ends(ts + HOUR_MS)


def exposed(service: Service) -> dict[str, int]:
    """Users of the experiment by the variant that they saw first, since it began; nothing where it is not shown."""
    running = [
        experiment
        for experiment in service.report().get("experiments", ())
        if (experiment["experiment"], experiment["scope"]) == ("ranker", "start")
    ]
    return {arm["variant"]: arm["first_list_users"] for experiment in running for arm in experiment["variants"]}


def test_windows_go_on_over_a_pause_of_experiments_and_users_are_counted_from_its_end_on(
    kafka_broker: KafkaBroker, redis_url: str, topic_name: str
) -> None:
    pipeline = Pipeline(kafka_broker, redis_url, topic_name, ["impressions", "feedback"], join=JOIN)
    began = start_ms()
    send(pipeline, began, "before", 60)
    with pipeline.service() as service:
        pipeline.assert_exact()
        wait_until(lambda: exposed(service) == {"control": 30, "treatment": 30}, what="the experiment is shown")
        assert SWITCHED not in service.log
    with pipeline.service(experiments={"enabled": False}) as service:
        send(pipeline, began + 2 * HOUR_MS, "during", 60)
        pipeline.assert_exact()
        assert service.log.count(SWITCHED) == PARTITIONS
        assert [view.table(EXPERIMENTS) for view in pipeline.views().values() if view.table(EXPERIMENTS)] == []
        wait_until(lambda: service.report().get("tasks_committed") == PARTITIONS, what="the report is there")
        assert exposed(service) == {}
    with pipeline.service() as service:
        send(pipeline, began + 4 * HOUR_MS, "after", 40)
        pipeline.assert_exact()
        wait_until(lambda: exposed(service) == {"control": 20, "treatment": 20}, what="the experiment is shown again")
        assert service.log.count(SWITCHED) == PARTITIONS
