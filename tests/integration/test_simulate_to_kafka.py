"""`simulate --kafka` against a real broker: each record once, keyed by its user, where the default partitioner puts it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from streammetrics.connectors.kafka.partitioner import partition_of
from streammetrics.events import EventLimits, MalformedEvent, native_decoder
from tests.support.command_line import started, streammetrics
from tests.tools.servers.kafka import KafkaBroker, places_of
from tests.tools.servers.process import wait_until


def words(broker: KafkaBroker, *topics: str) -> list[str]:
    return ["--kafka", "--set", f"kafka.bootstrap_servers={broker.bootstrap}", "--set", f"kafka.topics={','.join(topics)}"]


def consumed(broker: KafkaBroker, topic: str) -> dict[int, list[tuple[bytes, bytes, int]]]:
    """Key, value and time of every record of a topic, by partition."""
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
    try:
        places = places_of(consumer, topic)
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        records_by_partition: dict[int, list[tuple[bytes, bytes, int]]] = {place.partition: [] for place in places}
        consumer.seek_to_beginning(*places)
        deadline = time.monotonic() + 30
        while any(consumer.position(place) < ends[place] for place in places):
            assert time.monotonic() < deadline
            for place, records in consumer.poll(200).items():
                records_by_partition[place.partition] += [(record.key, record.value, record.timestamp) for record in records]
        return records_by_partition
    finally:
        consumer.close()


@pytest.mark.parametrize(("kinds", "options"), [(("shown", "done"), []), (("shown", "done", "exposed"), ["--exposures"])])
def test_a_past_brings_the_same_records_as_a_file_to_the_partitions_of_their_users(
    kafka_broker: KafkaBroker, topic_name: str, tmp_path: Path, kinds: tuple[str, ...], options: list[str]
) -> None:
    topics = [f"{topic_name}-{kind}" for kind in kinds]
    for topic in topics:
        kafka_broker.create_topic(topic, partitions=4)
    wishes = ["--minutes", "3", "--start", "2023-11-14T22:13:20Z", *options]
    done = streammetrics("simulate", *words(kafka_broker, *topics), *wishes)
    assert (done.returncode, done.stdout) == (0, "")
    decode = native_decoder(EventLimits(exposures=bool(options)))
    files = [tmp_path / kind for kind in kinds]
    assert streammetrics("simulate", *(word for file in files for word in ("--out", file)), *wishes).returncode == 0
    count = sum(len(file.read_bytes().splitlines()) for file in files)
    assert count > 3_000
    assert done.stderr.startswith(f"streammetrics: {count:,} records")
    for topic, file in zip(topics, files, strict=True):
        records_by_partition = consumed(kafka_broker, topic)
        assert sorted(value for records in records_by_partition.values() for _, value, _ in records) == sorted(
            file.read_bytes().split(b"\n")[:-1]
        )
        for partition, records in records_by_partition.items():
            assert records
            assert {partition_of(key.decode(), 4) for key, _, _ in records} == {partition}
            times = [stamp for _, _, stamp in records]
            assert times == sorted(times), "the log's own time never goes back"
            for key, value, stamp in records:
                (event,) = decode(value)
                assert not isinstance(event, MalformedEvent)
                assert event.user_id.encode() == key
                assert event.ts <= stamp


def test_topics_that_do_not_exist_are_named_and_not_created(kafka_broker: KafkaBroker, topic_name: str) -> None:
    done = streammetrics("simulate", *words(kafka_broker, topic_name))
    assert done.returncode == 2
    assert f"kafka.topics = {topic_name}: does not exist" in done.stderr
    with kafka_broker.admin() as admin:
        assert topic_name not in admin.list_topics()


def test_in_real_time_ctrl_c_ends_it_with_everything_acknowledged(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name, partitions=1)
    began_ms = time.time() * 1_000
    with started("simulate", *words(kafka_broker, topic_name), "--rate", "50") as process:
        wait_until(lambda: len(consumed(kafka_broker, topic_name)[0]) > 50, what="records have come")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    records = consumed(kafka_broker, topic_name)[0]
    assert said.startswith(f"streammetrics: {len(records):,} records")
    for _, value, stamp in records:
        assert began_ms - 1_000 < json.loads(value)["ts"] <= stamp <= time.time() * 1_000


def test_a_broker_that_goes_away_ends_it_with_1(kafka_broker: KafkaBroker, topic_name: str) -> None:
    kafka_broker.create_topic(topic_name, partitions=1)
    with started("simulate", *words(kafka_broker, topic_name), "--start", "60d") as process:
        wait_until(lambda: len(consumed(kafka_broker, topic_name)[0]) > 0, what="records have come")
        kafka_broker.kill()
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Kafka does not accept the traffic" in said
