"""The Kafka source against a real broker: starting and reading."""

from __future__ import annotations

import threading
import time

import pytest
from kafka import KafkaProducer
from structlog.testing import capture_logs

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka.patches import limited_batches
from streammetrics.connectors.kafka.source import KafkaSource
from streammetrics.connectors.source import Input, UnreadBatch
from streammetrics.errors import ConfigError, SourceError
from tests.support.kafka_member import (
    ALL_TASKS,
    Clock,
    committed,
    numbered,
    running,
    send,
    send_dated,
    settings_for,
    stock_records,
    turn_until,
)
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import free_port

HOUR_MS = 3_600_000


class TestStart:
    def test_unequal_partition_counts_are_refused(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(f"{topic_name}-a", partitions=2)
        kafka_broker.create_topic(f"{topic_name}-b", partitions=3)
        with pytest.raises(ConfigError, match=f"{topic_name}-a has 2, {topic_name}-b has 3"):
            KafkaSource(settings_for(kafka_broker, f"{topic_name}-a", f"{topic_name}-b"))

    def test_a_missing_topic_is_refused_and_not_created(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        for _ in range(2):
            with pytest.raises(ConfigError, match=f"{topic_name}: does not exist"):
                KafkaSource(settings_for(kafka_broker, topic_name))
        with kafka_broker.admin() as admin:
            assert topic_name not in admin.list_topics()

    def test_an_unreachable_broker_is_named_and_no_thread_is_left(self) -> None:
        port, before = free_port(), threading.active_count()
        with pytest.raises(SourceError, match=f"127.0.0.1:{port}.*refused"):
            KafkaSource(KafkaSettings(bootstrap_servers=(f"127.0.0.1:{port}",), topics=("any",)))
        assert threading.active_count() == before

    def test_tls_to_a_plain_port_is_explained_and_no_thread_is_left(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kafka_client, "BOOTSTRAP_MS", 1_000)
        before = threading.active_count()
        with pytest.raises(SourceError, match=r"kafka\.security_protocol \(now SSL\)"):
            KafkaSource(settings_for(kafka_broker, *topics, security_protocol="SSL"))
        assert threading.active_count() == before

    def test_topic_ids_and_partition_counts_are_known(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        with kafka_broker.admin() as admin:
            expected = {entry["name"]: str(entry["topic_id"]) for entry in admin.describe_topics(list(topics))}
            cluster_id = admin.describe_cluster()["cluster_id"]
        with running(settings_for(kafka_broker, *topics)) as member:
            assert member.source.logs.topic_ids == expected
            assert member.source.logs.cluster_id == cluster_id
            assert member.source.partitions == 4

    def test_passwords_are_hidden(self) -> None:
        settings = KafkaSettings(bootstrap_servers=("b:1",), topics=("t",), ssl_password="hidden-one", sasl_password="hidden-two")
        assert "hidden" not in repr(settings)


class TestReading:
    def test_records_arrive_in_order_with_offsets_timestamps_and_bytes(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 2)
        before = int(time.time() * 1_000)
        send(kafka_broker, place, [b"one", None, b"", b"four"])
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: len(member.got[place]) == 4, member)
            assert [(record.offset, record.value) for record in member.got[place]] == [(0, b"one"), (1, None), (2, b""), (3, b"four")]
            assert all(before <= record.timestamp_ms <= time.time() * 1_000 for record in member.got[place])
            assert member.source.ends()[place] == 4

    def test_a_batch_that_opens_to_more_than_the_limit_is_passed(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limited_batches, "BATCH_BYTES_MAX", 1 << 20)
        place = Input(topics[0], 2)
        send(kafka_broker, place, [b"before"])
        with KafkaProducer(
            bootstrap_servers=kafka_broker.bootstrap, compression_type="gzip", batch_size=1 << 22, linger_ms=5_000, max_request_size=1 << 23
        ) as producer:
            for _ in range(20):
                producer.send(place.topic, partition=place.partition, value=bytes(100_000))
        send(kafka_broker, place, [b"after"])
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: bool(member.got[place]) and member.got[place][-1].value == b"after", member)
            before, unread, after = member.got[place]
        assert (before.offset, unread.offset, after.offset) == (0, 20, 21)
        assert isinstance(unread.value, UnreadBatch)
        assert len(unread.value.refusals) == 20
        assert unread.value.refusals[0].detail.startswith("the batch of the offsets 1 to 20 is not read: it has more than 1 MiB")

    def test_each_input_starts_at_its_stored_offset(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        places = [Input(topic, 1) for topic in topics]
        for place in places:
            send(kafka_broker, place, numbered(10))
        with running(settings_for(kafka_broker, *topics), {places[0]: 7}) as member:
            turn_until(lambda: len(member.got[places[0]]) == 3 and len(member.got[places[1]]) == 10, member)
            assert member.values(places[0]) == numbered(3, first=7)
            assert member.values(places[1]) == numbered(10)

    def test_a_store_without_state_for_committed_offsets_is_logged(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        settings = settings_for(kafka_broker, *topics)
        places = [Input(topic, task) for topic in topics for task in range(4)]
        with capture_logs() as logs, running(settings) as member:
            for place in places:
                send(kafka_broker, place, numbered(3))
            turn_until(lambda: set(member.stored.values()) == {3} and len(member.stored) == 8, member)
            turn_until(lambda: all(committed(kafka_broker, settings.group_id, place) == 3 for place in places), member)
        assert not [entry for entry in logs if "was_read" in entry]
        with capture_logs() as logs, running(settings) as member:
            turn_until(lambda: set(member.stored.values()) == {3} and len(member.stored) == 8, member)
        warnings = [entry for entry in logs if "was_read" in entry]
        unknown = {f"{place.topic} [{place.partition}] to 3" for place in places}
        assert {place for entry in warnings for place in entry["was_read"]} == unknown
        assert {entry["begins"] for entry in warnings} == {"earliest"}

    def test_start_latest_applies_only_to_inputs_without_a_stored_offset(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        stored, fresh = Input(topics[0], 0), Input(topics[1], 0)
        for place in (stored, fresh):
            send(kafka_broker, place, numbered(5))
        with running(settings_for(kafka_broker, *topics, start="latest"), {stored: 3}) as member:
            turn_until(lambda: len(member.got[stored]) == 2, member)
            send(kafka_broker, fresh, [b"new"])
            turn_until(lambda: bool(member.got[fresh]), member)
            assert member.values(fresh) == [b"new"]

    def test_start_at_a_time_begins_with_the_first_record_at_or_after_it(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        since = int(time.time() * 1_000) - 60_000
        dated = {  # milliseconds relative to the start time
            Input(topics[0], 0): [-20, -1, 0, 5],
            Input(topics[1], 0): [-20, 7, -9, 8],  # reading goes on in the order of the log
            Input(topics[0], 1): [-20, -10],
            Input(topics[1], 1): [],
            Input(topics[0], 2): [-20, 3],  # has a stored offset, so the time does not apply
        }
        send_dated(kafka_broker, [(place, b"%d" % number, since + ms) for place, times in dated.items() for number, ms in enumerate(times)])
        stored = Input(topics[0], 2)
        with running(settings_for(kafka_broker, *topics, start=since), {stored: 0}) as member:
            turn_until(lambda: member.tasks == ALL_TASKS and len(member.got[stored]) == 2, member)
            send_dated(kafka_broker, [(Input(topic, 1), b"next", since - 5) for topic in topics])
            turn_until(lambda: bool(member.got[Input(topics[0], 1)] and member.got[Input(topics[1], 1)]), member)
            turn_until(lambda: bool(member.got[Input(topics[0], 0)] and member.got[Input(topics[1], 0)]), member)
            assert {place: member.values(place) for place in dated} == {
                Input(topics[0], 0): [b"2", b"3"],
                Input(topics[1], 0): [b"1", b"2", b"3"],
                Input(topics[0], 1): [b"next"],
                Input(topics[1], 1): [b"next"],
                stored: [b"0", b"1"],
            }

    def test_start_at_a_future_time_begins_at_the_end(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[1], 3)
        send(kafka_broker, place, numbered(5))
        with running(settings_for(kafka_broker, *topics, start=int(time.time() * 1_000) + HOUR_MS)) as member:
            turn_until(lambda: 3 in member.tasks, member)
            send(kafka_broker, place, [b"new"])
            turn_until(lambda: bool(member.got[place]), member)
            assert member.values(place) == [b"new"]

    def test_offsets_committed_to_kafka_are_never_read(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        send(kafka_broker, place, numbered(5))
        settings = settings_for(kafka_broker, *topics)
        with running(settings) as member:
            turn_until(lambda: len(member.got[place]) == 5, member)
            turn_until(lambda: committed(kafka_broker, settings.group_id, place) == 5, member)
        with running(settings) as member:
            turn_until(lambda: len(member.got[place]) == 5, member)
            assert member.got[place][0].offset == 0

    def test_a_paused_input_stays_paused_and_loses_nothing(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        paused, other = Input(topics[0], 0), Input(topics[1], 0)
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: member.tasks == ALL_TASKS, member)
            member.source.pause([paused])
            for round_number in range(5):
                send(kafka_broker, paused, numbered(3, first=3 * round_number))
                send(kafka_broker, other, [b"other"])
                turn_until(lambda: len(member.got[other]) == round_number + 1, member)  # noqa: B023  (called at once)
            assert member.got[paused] == []
            member.source.resume([paused])
            turn_until(lambda: len(member.got[paused]) == 15, member)
            assert member.values(paused) == numbered(15)

    def test_resume_does_not_start_a_task(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place, other = Input(topics[0], 0), Input(topics[0], 1)
        for input_place in (place, other):
            send(kafka_broker, input_place, numbered(3))
        source = KafkaSource(settings_for(kafka_broker, *topics))
        try:
            seen: list[Input] = []
            while other not in seen:
                polled = source.poll(0.05)
                for task in polled.assigned - {0}:
                    source.start(task, {})
                source.resume([place])
                seen += polled.records
            assert place not in seen
        finally:
            source.close()

    def test_ends_skip_the_markers_of_transactions(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, transactional_id=f"tx-{topics[0]}")
        producer.init_transactions()
        for value, commit in ((b"kept", True), (b"aborted", False)):
            producer.begin_transaction()
            producer.send(place.topic, value, partition=place.partition)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
        producer.close()
        now = Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: bool(member.got[place]), member)
            assert member.values(place) == [b"kept"]
            turn_until(lambda: now.advance(1.0) and member.source.ends()[place] == 1, member)

    def test_ends_include_the_records_of_an_open_transaction(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        send(kafka_broker, place, [b"plain"])
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, transactional_id=f"tx-{topics[0]}")
        producer.init_transactions()
        now = Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: len(member.got[place]) == 1 and now.advance(1.0) and member.source.ends()[place] == 1, member)
            producer.begin_transaction()
            for value in (b"one", b"two"):
                producer.send(place.topic, value, partition=place.partition)
            producer.flush()
            turn_until(lambda: now.advance(1.0) and member.source.ends()[place] == 3, member)
            turn_until(lambda: now.advance(4.0) and now.ahead > 100, member)  # longer than a client may stall
            assert (member.values(place), member.source.rebuilds) == ([b"plain"], 0)
            producer.commit_transaction()
            turn_until(lambda: len(member.got[place]) == 3, member)
            turn_until(lambda: now.advance(1.0) and member.source.ends()[place] == 3, member)
        producer.close()

    @pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
    def test_every_compression_reads_as_the_stock_client_reads_it(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str], codec: str | None
    ) -> None:
        place = Input(topics[0], 3)
        values: list[bytes | None] = [b"x" * (37 * number % 4_000) for number in range(2_000)]
        if codec not in (None, "gzip"):
            pytest.importorskip({"lz4": "lz4.frame", "zstd": "zstandard"}.get(str(codec), str(codec)))
        send(kafka_broker, place, [*values, None], compression_type=codec, linger_ms=20)
        stock = stock_records(kafka_broker, place, len(values) + 1)
        with running(settings_for(kafka_broker, *topics), poll_records_max=333) as member:
            turn_until(lambda: len(member.got[place]) == len(stock), member)
            assert member.got[place] == stock
