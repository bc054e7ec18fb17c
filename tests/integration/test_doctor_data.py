"""`doctor` reads recent records and settings of real topics, and joins no consumer group."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import pytest
from kafka import KafkaProducer

from streammetrics.events.model import Feedback, Impression
from tests.support.command_line import called
from tests.support.native_json import native_json
from tests.tools.servers.kafka import KafkaBroker

WEEK_MS = 7 * 24 * 3_600_000
Send = Callable[[KafkaProducer, str, str], None]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send_events(
    producer: KafkaProducer, list_topic: str, clicked: str, action: str = "click", ts: int | None = None, users: int = 60
) -> None:
    ts = now_ms() if ts is None else ts
    for number in range(users):
        user = f"u{number}"
        labels = (("ranker", ("control", "treatment")[number % 2]),)
        producer.send(list_topic, native_json(Impression(f"r{number}", user, ts, ("a", "b"), labels)), key=user.encode())
        producer.send(clicked, native_json(Feedback(user, ts, "b", action, impression_id=f"r{number}")), key=user.encode())


def examined(
    broker: KafkaBroker,
    redis_url: str,
    name: str,
    send: Send,
    configs: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    partitions: int = 3,
) -> tuple[int, str]:
    """Create topics, send records, and run `doctor`. Returns its exit code and output."""
    topics = [f"{name}-{part}" for part in ("shown", "clicked")]
    for topic in topics:
        broker.create_topic(topic, partitions, configs)
    broker.create_topic(f"{name}-refused")
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, acks="all")
    send(producer, *topics)
    producer.flush()
    producer.close()
    given = {
        "kafka.bootstrap_servers": broker.bootstrap,
        "kafka.topics": ",".join(topics),
        "kafka.dead_letter_topic": f"{name}-refused",
        "kafka.group_id": name,
        "redis.url": redis_url,
        "redis.namespace": name,
        "http.port": "0",
        **(settings or {}),
    }
    done = called("doctor", *[word for key, value in given.items() for word in ("--set", f"{key}={value}")])
    return done.returncode, done.stdout


def problem_lines(output: str) -> Sequence[str]:
    return [line.split(maxsplit=1)[1] for line in output.splitlines() if line.strip().startswith(("warn ", "fail "))]


def test_sound_topics_have_only_ok_findings_and_no_group_is_joined(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    code, output = examined(kafka_broker, redis_url, topic_name, send_events, {"retention.ms": str(WEEK_MS)})
    assert (code, problem_lines(output)) == (0, []), output
    assert f"topic {topic_name}-shown: 60 of 60 recent records usable: 60 lists" in output
    assert f"topic {topic_name}-clicked: 60 of 60 recent records usable: 60 feedback" in output
    assert f"topic {topic_name}-clicked: the key is the user id" in output
    assert f"topic {topic_name}-shown: records are kept for 7 days, timestamps are CreateTime" in output
    with kafka_broker.admin() as admin:
        assert topic_name not in [group["group_id"] for group in admin.list_groups()]


def test_only_recent_records_are_read(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    def send(producer: KafkaProducer, list_topic: str, clicked: str) -> None:
        for _ in range(500):
            producer.send(list_topic, b"old and malformed", partition=0)
        producer.flush()
        for number in range(100):
            producer.send(list_topic, native_json(Impression(f"r{number}", "u", now_ms(), ("a",))), key=b"u", partition=0)

    code, output = examined(kafka_broker, redis_url, topic_name, send, partitions=1)
    assert code == 0, output
    assert f"topic {topic_name}-shown: 100 of 100 recent records usable: 100 lists" in output
    assert f"topic {topic_name}-clicked: no records yet" in output


def test_a_few_malformed_records_are_a_warning(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    def send(producer: KafkaProducer, list_topic: str, clicked: str) -> None:
        send_events(producer, list_topic, clicked)
        producer.send(list_topic, native_json(Impression("r", "u1", 1, ("a",))).replace(b'"ts":1', b'"ts":"soon"'), key=b"u1")

    code, output = examined(kafka_broker, redis_url, topic_name, send)
    assert code == 0, output
    [line] = problem_lines(output)
    assert f"topic {topic_name}-shown: 1 of 61 recent records is refused (bad_ts 1)" in line


def test_unknown_actions_are_named_with_the_nearest_known_one(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    code, output = examined(kafka_broker, redis_url, topic_name, lambda *to: send_events(*to, action="purchased"))
    assert code == 0, output
    unknown = "No feedback has a grade: the action of all 60 is unknown, such as purchased (did you mean purchase?)"
    assert problem_lines(output) == [unknown]


def test_a_wrong_sender_clock_is_reported(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    code, output = examined(kafka_broker, redis_url, topic_name, lambda *to: send_events(*to, ts=now_ms() + 5 * 86_400_000))
    assert code == 0, output
    told = "are dated too long after their records, 60 of 60, so they are refused as future"
    assert [told in line for line in problem_lines(output)] == [True, True]


def test_lists_without_an_experiment_are_named(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    def send(producer: KafkaProducer, list_topic: str, clicked: str) -> None:
        for number in range(20):
            producer.send(list_topic, native_json(Impression(f"r{number}", f"u{number}", now_ms(), ("a",))), key=b"u%d" % number)

    code, output = examined(kafka_broker, redis_url, topic_name, send)
    assert code == 0, output
    assert problem_lines(output) == ["None of 20 lists has an experiment, so no verdict can come"]


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy is compact"),
        ({"retention.ms": "600000"}, "retention.ms is 600,000, so records are gone after 10 min"),
    ],
)
def test_topic_settings_that_lose_records_are_a_warning(
    kafka_broker: KafkaBroker, redis_url: str, topic_name: str, configs: Mapping[str, str], text: str
) -> None:
    code, output = examined(kafka_broker, redis_url, topic_name, send_events, configs)
    assert code == 0, output
    assert [text in line for line in problem_lines(output)] == [True, True], output


def test_the_timestamp_type_is_shown(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    configs = {"message.timestamp.type": "LogAppendTime", "retention.ms": str(WEEK_MS)}
    code, output = examined(kafka_broker, redis_url, topic_name, send_events, configs)
    assert code == 0, output
    assert f"topic {topic_name}-shown: records are kept for 7 days, timestamps are LogAppendTime" in output


def test_records_of_aborted_transactions_are_not_read(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    def send(producer: KafkaProducer, list_topic: str, clicked: str) -> None:
        send_events(producer, list_topic, clicked, users=10)
        producer.flush()
        aborting = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, transactional_id=topic_name)
        aborting.init_transactions()
        aborting.begin_transaction()
        aborting.send(list_topic, b"malformed", key=b"u1")
        aborting.flush()
        aborting.abort_transaction()
        aborting.close()

    code, output = examined(kafka_broker, redis_url, topic_name, send)
    assert (code, problem_lines(output)) == (0, []), output
    assert f"topic {topic_name}-shown: 10 of 10 recent records usable: 10 lists" in output


@pytest.mark.parametrize(("limit", "by_partition"), [(600, {0: 200, 1: 100, 2: 0}), (30, {0: 10, 1: 10, 2: 0})])
def test_decode_reads_the_newest_records_of_each_partition(
    kafka_broker: KafkaBroker, topic_name: str, limit: int, by_partition: Mapping[int, int]
) -> None:
    kafka_broker.create_topic(topic_name, partitions=3)
    sent = {0: 300, 1: 100, 2: 0}
    producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, acks="all")
    for partition, count in sent.items():
        for number in range(count):
            producer.send(topic_name, native_json(Impression(f"r{number}", "u", 1_732_183_200_000, ("a",))), partition=partition)
    producer.flush()
    producer.close()
    source = ("--set", f"kafka.bootstrap_servers={kafka_broker.bootstrap}", "--set", f"kafka.topics={topic_name}")
    done = called("decode", topic_name, "--limit", str(limit), *source)
    places = [line.split(" offset ")[0] for line in done.stdout.splitlines() if line.startswith("partition ")]
    assert {partition: places.count(f"partition {partition}") for partition in sent} == by_partition


def test_records_with_timestamps_in_seconds_or_none_are_said_to_be_so(kafka_broker: KafkaBroker, redis_url: str, topic_name: str) -> None:
    def stamped(producer: KafkaProducer, list_topic: str, clicked: str) -> None:
        ts = now_ms()
        for topic, record_ms in ((list_topic, ts // 1_000), (clicked, 0)):
            for number in range(60):
                event = Impression(f"r{number}", f"u{number}", ts, ("a", "b"), (("ranker", ("control", "treatment")[number % 2]),))
                producer.send(topic, native_json(event), key=f"u{number}".encode(), timestamp_ms=record_ms)

    _, output = examined(kafka_broker, redis_url, topic_name, stamped)
    assert "records have timestamps up to 1970-01-2" in output
    assert "records have no timestamps above 0" in output
    assert "use one clock" not in output
    assert "days after their events" not in output


def test_an_experiment_that_is_over_is_named_with_the_lists_that_still_come(
    kafka_broker: KafkaBroker, redis_url: str, topic_name: str
) -> None:
    named = '{"ranker": {"control": "control", "end": "2026-01-01T00:00Z"}, "home": {"control": "old", "end": "2026-01-02T00:00Z"}}'
    code, output = examined(kafka_broker, redis_url, topic_name, send_events, settings={"experiments.named": named})
    assert code == 0, output
    assert "experiment ranker is over: it ended at 2026-01-01 00:00 UTC, and 60 recent lists with its label do not count" in output
    assert "experiment home is over: it ended at 2026-01-02 00:00 UTC, and no recent list has its label" in output
