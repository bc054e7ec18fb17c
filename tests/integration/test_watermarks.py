"""Wrong clocks of senders and of machines, against a real broker and Redis: no event of the others is late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from streammetrics.connectors.clock import SystemClock
from streammetrics.connectors.dead_letters import DeadLetter
from streammetrics.connectors.kafka.sinks import KafkaDeadLetters
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.source import Input
from streammetrics.events.event_time import DAY_MS
from streammetrics.events.model import Feedback, Impression
from streammetrics.runtime.consume.consumer import Worker
from streammetrics.runtime.consume.task_runner import TaskRunner
from streammetrics.runtime.status import ProcessStatus
from streammetrics.wiring.decoders import build_decoder
from streammetrics.wiring.engine import build_worker_rules
from tests.support.kafka_member import read_letters, settings_for
from tests.support.native_json import native_json
from tests.support.real_pipeline import Pipeline
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.redis import RedisServer

PATIENCE_SECONDS = 120
TOPICS = ["impressions", "feedback"]
SEVERAL_USERS = {"support_users": 5}


class DayAheadClock(SystemClock):
    """The clock of a machine that is a day ahead. Its monotonic clock is right."""

    def wall_ms(self) -> int:
        return super().wall_ms() + DAY_MS


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send_visits(pipeline: Pipeline, producer: KafkaProducer, users: Iterable[str], at_ms: int, step_ms: int = 1) -> None:
    """Send a list and a click of each user. The records carry the times of the events."""
    for number, user in enumerate(users):
        impression = Impression(f"list-{user}", user, at_ms + number * step_ms, ("a", "b", "c"))
        clicked = Feedback(user, impression.ts + 50, "b", "click", None, impression.impression_id)
        for topic, event in zip(pipeline.topics, (impression, clicked), strict=True):
            producer.send(topic, native_json(event), key=user.encode(), timestamp_ms=event.ts)
    producer.flush()


def turn_until(worker: Worker, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        worker.turn()


def counted(pipeline: Pipeline, reason: str) -> int:
    return sum(count for control in pipeline.controls().values() for name, _, count in control.progress.counts if name == reason)


def test_a_machine_a_day_ahead_makes_no_event_late(kafka_broker: KafkaBroker, redis_server: RedisServer) -> None:
    join = {"idle_ms": 300, "out_of_orderness_ms": 200, "lateness_ms": 1_000}
    pipeline = Pipeline(kafka_broker, redis_server.fresh_url(), "day-ahead", TOPICS, join=join)
    connection = pipeline.settings.kafka
    with pipeline.producer() as producer, pipeline.store() as store:
        source = KafkaSource(connection, time.monotonic)
        store.announce(source.partitions)
        real_clock_ms = store.clock_ms
        store.clock_ms = lambda task: (real_clock_ms(task) or 0) + DAY_MS  # type: ignore[method-assign]
        worker = Worker(
            TaskRunner(
                engine=pipeline.engine,
                decode=build_decoder(pipeline.settings),
                source=source,
                store=store,
                letters=KafkaDeadLetters(connection, pipeline.dead_letters),
                rules=build_worker_rules(pipeline.settings),
                clock=DayAheadClock(),
                status=ProcessStatus(),
            )
        )
        sent_ms = now_ms()
        send_visits(pipeline, producer, (f"u{number}" for number in range(40)), sent_ms)
        turn_until(worker, lambda: counted(pipeline, "events") == 80)
        turn_until(worker, lambda: min(control.progress.watermark for control in pipeline.controls().values()) > sent_ms + 1_000)
        assert max(control.progress.watermark for control in pipeline.controls().values()) <= now_ms()
        send_visits(pipeline, producer, (f"v{number}" for number in range(40)), now_ms())
        turn_until(worker, lambda: counted(pipeline, "events") == 160)
        assert counted(pipeline, "late") == 0
        worker.finish()


def test_one_event_a_month_ahead_with_its_own_record_time_makes_no_event_late(kafka_broker: KafkaBroker, redis_server: RedisServer) -> None:
    pipeline = Pipeline(kafka_broker, redis_server.fresh_url(), "month-ahead", TOPICS, join=SEVERAL_USERS)
    accept_any_time(kafka_broker, pipeline.topics[0])
    at_ms = now_ms() - 1_200_000
    with pipeline.producer() as producer:
        send_visits(pipeline, producer, (f"u{number}" for number in range(120)), at_ms, step_ms=5_000)  # the time of each input begins
        ahead = Impression("ahead", "x", at_ms + 30 * DAY_MS, ("a",))
        for partition in range(4):
            producer.send(pipeline.topics[0], native_json(ahead), partition=partition, timestamp_ms=ahead.ts)
        producer.flush()
        send_visits(pipeline, producer, (f"v{number}" for number in range(60)), at_ms + 600_000, step_ms=10)
    with pipeline.service():
        pipeline.wait_until_read(users_open=180)
        truth = pipeline.assert_exact()
    assert truth.result.totals["late"] == 0
    assert truth.result.totals["future"] == 4
    letters = pipeline.letters()
    assert [headers["reason"] for headers, _ in letters] == ["future"] * 4
    assert all("ahead of what other events of its input support" in headers["detail"] for headers, _ in letters)


def accept_any_time(broker: KafkaBroker, topic: str) -> None:
    """Let a topic accept records of any time, as brokers before 4.0 do."""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {"message.timestamp.after.max.ms": str((1 << 63) - 1)})])
    finally:
        admin.close()


def test_a_letter_has_the_time_of_its_record(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name)
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    record_ms = now_ms() - DAY_MS
    letters.write(
        [DeadLetter("late", "", Input("clicks", 0), 1, b"old", record_ms), DeadLetter("late", "", Input("clicks", 0), 2, b"unknown")]
    )
    old, unknown = read_letters(kafka_broker, topic_name, 2)
    letters.close()
    assert old.timestamp == record_ms
    assert abs(unknown.timestamp - now_ms()) < DAY_MS


def test_a_time_that_the_topic_refuses_does_not_stop_the_letters(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name, 1, {"message.timestamp.after.max.ms": "3600000"})
    letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
    record_ms = now_ms() - DAY_MS
    letters.write(
        [
            DeadLetter("bad_json", "", Input("clicks", 0), 1, b"good", record_ms),
            DeadLetter("future", "", Input("clicks", 0), 2, b"ahead", record_ms + 30 * DAY_MS),
            DeadLetter("bad_json", "", Input("clicks", 0), 3, b"good too", record_ms),
        ]
    )
    time_by_value = {record.value: record.timestamp for record in read_letters(kafka_broker, topic_name, 3)}
    letters.close()
    assert (time_by_value[b"good"], time_by_value[b"good too"]) == (record_ms, record_ms)
    assert abs(time_by_value[b"ahead"] - now_ms()) < DAY_MS
