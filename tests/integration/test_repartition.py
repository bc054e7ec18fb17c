"""`streammetrics repartition` against a real broker: every record once, at the partition of its user, whatever crashes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaConsumer, KafkaProducer

from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.events.model import Feedback
from tests.support.command_line import started, streammetrics
from tests.support.native_json import native_json
from tests.tools.servers.kafka import KafkaBroker, places_of
from tests.tools.servers.process import wait_until

START_MS = 1_700_000_000_000


class Copied(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes
    timestamp: int
    headers: list[tuple[str, bytes]]


def feedback(number: int, user: str) -> bytes:
    event = {"type": "feedback", "user_id": user, "ts": START_MS + number, "item_id": f"i{number}", "action": "click"}
    return json.dumps(event).encode()


def read_committed(broker: KafkaBroker, topic: str) -> list[Copied]:
    """Every committed record of a topic, in the order of each partition, once no transaction is open any more."""
    options = {"bootstrap_servers": broker.bootstrap, "enable_auto_commit": False}
    with (
        closing(KafkaConsumer(**options, isolation_level="read_committed")) as consumer,
        closing(KafkaConsumer(**options, isolation_level="read_uncommitted")) as uncommitted,
    ):
        places = places_of(consumer, topic)
        wait_until(lambda: consumer.end_offsets(places) == uncommitted.end_offsets(places), what=f"every transaction on {topic} ended")
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        copies: list[Copied] = []

        def all_read() -> bool:
            for records in consumer.poll(200).values():
                copies.extend(Copied(one.partition, one.key, one.value, one.timestamp, list(one.headers)) for one in records)
            return all(consumer.position(place) >= ends[place] for place in places)

        wait_until(all_read, what=f"all of {topic} read")
        return copies


def words(broker: KafkaBroker, topics: Sequence[str], *more: str) -> list[str]:
    settings = {"kafka.bootstrap_servers": broker.bootstrap, "kafka.topics": ",".join(topics), "kafka.group_id": topics[0]}
    return ["repartition", *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")), *more]


@pytest.fixture
def producer(kafka_broker: KafkaBroker) -> Iterator[Any]:
    with closing(KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)) as made:
        yield made


@pytest.fixture
def topics(kafka_broker: KafkaBroker, topic_name: str) -> list[str]:
    """Two input topics with different partition counts."""
    names = [f"{topic_name}-shown", f"{topic_name}-done"]
    for name, partitions in zip(names, (4, 3), strict=True):
        kafka_broker.create_topic(name, partitions=partitions)
    return names


def fill(producer: Any, topics: Sequence[str], count: int) -> list[bytes]:
    """Records without keys, each at the next partition, so that a user's events lie anywhere. Each call begins at the same time."""
    values = [feedback(number, f"u{number % 40}") for number in range(count)]
    for number, value in enumerate(values):
        topic, partitions = (topics[0], 4) if number % 2 else (topics[1], 3)
        producer.send(topic, value=value, partition=number % partitions, timestamp_ms=START_MS + number, headers=[("trace", b"t")])
    producer.flush()
    return values


def test_every_record_is_copied_once_to_the_partition_of_its_user(kafka_broker: KafkaBroker, producer: Any, topics: list[str]) -> None:
    values = fill(producer, topics, 2_000)
    producer.send(topics[0], value=b"no event", key=b"its own key")
    producer.flush()
    done = streammetrics(*words(kafka_broker, topics, "--until-caught-up"))
    assert (done.returncode, done.stdout) == (1, "")  # one record has no readable user
    assert "2,001 records copied, 1 without a readable user" in done.stderr
    assert "1 record without a readable user kept the key that they had" in done.stderr
    assert f'set kafka.topics = ["{topics[0]}-by-user", "{topics[1]}-by-user"]' in done.stderr
    copies = [copy for topic in topics for copy in read_committed(kafka_broker, f"{topic}-by-user")]
    readable = [copy for copy in copies if copy.value != b"no event"]
    assert sorted(copy.value for copy in readable) == sorted(values)
    for copy in readable:
        event = json.loads(copy.value)
        assert copy.key == event["user_id"].encode()
        assert copy.partition == partition_of(event["user_id"], 4)
        assert (copy.timestamp, copy.headers) == (event["ts"], [("trace", b"t")])
    assert [copy.key for copy in copies if copy.value == b"no event"] == [b"its own key"]


READER = """
def read(record):
    event = record.json()
    for user in event["who"].split():
        yield {"type": "feedback", "user_id": user, "ts": %d, "item_id": event["sku"], "action": record.key.decode()}
"""


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    (tmp_path / "reader.py").write_text(READER % START_MS)
    return tmp_path / "reader.py"


def test_records_are_read_as_run_reads_them_by_readers(kafka_broker: KafkaBroker, producer: Any, topics: list[str], reader: Path) -> None:
    native, foreign = native_json(Feedback("u1", START_MS, "a", "click")), json.dumps({"who": "u2", "sku": "a"}).encode()
    producer.send(topics[0], value=native)
    producer.send(topics[1], value=foreign, key=b"click")
    producer.send(topics[1], value=b'{"page":1}', key=b"kept")
    producer.flush()
    readers = {topics[0]: "native", topics[1]: f"{reader}:read"}
    done = streammetrics(*words(kafka_broker, topics, "--set", f"events.reader={json.dumps(readers)}", "--until-caught-up"))
    assert done.returncode == 1, done.stderr
    assert "1 record without a readable user kept the key that they had" in done.stderr
    assert f"in events.reader, rename {topics[1]} to {topics[1]}-by-user" in done.stderr
    copies = {copy.value: copy.key for topic in topics for copy in read_committed(kafka_broker, f"{topic}-by-user")}
    assert copies == {native: b"u1", foreign: b"u2", b'{"page":1}': b"kept"}


def test_a_backlog_is_copied_in_order_of_event_time(kafka_broker: KafkaBroker, producer: Any, topics: list[str]) -> None:
    fill(producer, topics, 4_000)
    assert streammetrics(*words(kafka_broker, topics, "--until-caught-up")).returncode == 0
    for topic in topics:
        for partition in range(4):
            times = [copy.timestamp for copy in read_committed(kafka_broker, f"{topic}-by-user") if copy.partition == partition]
            assert times == sorted(times)


def test_killed_processes_lose_and_double_nothing(kafka_broker: KafkaBroker, producer: Any, topics: list[str]) -> None:
    values, before = [], 0
    for _ in range(3):  # their times overlap, so inputs wait for each other and are paused within a fetched chunk
        values += fill(producer, topics, 8_000)
        with started(*words(kafka_broker, topics)) as process:
            wait_until(lambda before=before: copied_so_far(kafka_broker, topics) > before, what="more copies")
            process.send_signal(signal.SIGKILL)
            process.wait()
        before = copied_so_far(kafka_broker, topics)
    done = streammetrics(*words(kafka_broker, topics, "--until-caught-up"))
    assert done.returncode == 0
    copies = [copy.value for topic in topics for copy in read_committed(kafka_broker, f"{topic}-by-user")]
    assert sorted(copies) == sorted(values), done.stderr


def copied_so_far(broker: KafkaBroker, topics: Sequence[str]) -> int:
    """The end offsets of the output topics, added up."""
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)) as consumer:
        return sum(consumer.end_offsets(places_of(consumer, *(f"{topic}-by-user" for topic in topics))).values())


def test_output_topics_with_other_partition_counts_are_rejected(kafka_broker: KafkaBroker, topics: list[str]) -> None:
    kafka_broker.create_topic(f"{topics[0]}-by-user", partitions=2)
    done = streammetrics(*words(kafka_broker, topics, "--until-caught-up"))
    assert done.returncode == 2
    assert f"({topics[0]}-by-user has 2)" in done.stderr


def test_a_record_of_several_users_is_named(kafka_broker: KafkaBroker, producer: Any, topics: list[str], reader: Path) -> None:
    producer.send(topics[0], value=b'{"who":"a b","sku":"x"}', key=b"click", partition=2)
    producer.flush()
    done = streammetrics(*words(kafka_broker, topics, "--until-caught-up", "--set", f"events.reader={reader}:read"))
    assert done.returncode == 1
    assert f"{topics[0]}:2:0 holds events of 2 users" in done.stderr
