"""The Kafka source against a real broker: ownership, seeking, what the log no longer holds, and brokers that go away."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewPartitions
from structlog.testing import capture_logs
from structlog.typing import EventDict

from streammetrics.connectors.base import DeadLetter, Input, Record
from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka import liveness
from streammetrics.connectors.kafka import source as kafka_source
from streammetrics.connectors.kafka.client import KafkaConnection
from streammetrics.connectors.kafka.consumer import new_consumer
from streammetrics.connectors.kafka.dead_letters import CUT_VALUE_BYTES, KafkaDeadLetters
from streammetrics.connectors.kafka.source import REBUILDS_WITHOUT_RECORD_MAX, KafkaSource
from streammetrics.errors import ConfigError, GaveUp, SourceError, StateError
from tests.servers.kafka import KafkaBroker
from tests.servers.process import HOST, free_port, wait_until
from tests.support.timing import time_bound

PATIENCE_SECONDS = 30.0
SESSION_MS = 10_000
SHORT_SESSION_MS = 3_000
HOUR_MS = 3_600_000


class Member:
    """A source and what a service does with it: claims each assigned task and seeks to where the shared store left it."""

    def __init__(
        self, settings: KafkaConnection, stored: dict[Input, int] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stored: dict[Input, int] = {} if stored is None else stored
        self.tasks: set[int] = set()
        self.got: dict[Input, list[Record]] = defaultdict(list)
        self.source = KafkaSource(settings, clock)

    def turn(self, timeout_s: float = 0.05) -> None:
        polled = self.source.poll(timeout_s)
        self.tasks -= polled.revoked
        for task in polled.assigned:
            self.source.start(task, {place: self.stored[place] for place in self.source.inputs_of(task) if place in self.stored})
            self.tasks.add(task)
        for place, records in polled.records.items():
            assert place.partition in self.tasks
            self.got[place] += records
            self.stored[place] = records[-1].offset + 1
        self.source.acknowledge({place: offset for place, offset in self.stored.items() if place.partition in self.tasks})

    def values(self, place: Input) -> list[bytes | None]:
        return [record.value for record in self.got[place]]


def turn_until(condition: Callable[[], bool], *members: Member, seconds: float = PATIENCE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"in vain for {seconds} s; {[member.source.health for member in members]}"
        for member in members:
            member.turn()


@contextmanager
def running(
    settings: KafkaConnection, stored: dict[Input, int] | None = None, clock: Callable[[], float] = time.monotonic
) -> Iterator[Member]:
    member = Member(settings, stored, clock)
    try:
        yield member
    finally:
        member.source.close()


def settings_for(broker: KafkaBroker, *topics: str, **options: Any) -> KafkaConnection:
    options = {"group_id": f"group-{topics[0]}", "session_timeout_ms": SESSION_MS, **options}
    return KafkaConnection(bootstrap_servers=(broker.bootstrap,), topics=topics, **options)


def send(broker: KafkaBroker, place: Input, values: Sequence[bytes | None], **options: Any) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, **options)
    try:
        futures = [producer.send(place.topic, value, key=b"user", partition=place.partition, headers=[("trace", b"1")]) for value in values]
        producer.flush(timeout=20)
        assert all(future.succeeded() for future in futures)
    finally:
        producer.close()


def send_dated(broker: KafkaBroker, place: Input, value: bytes, timestamp_ms: int) -> None:
    with contextlib.closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        producer.send(place.topic, value, partition=place.partition, timestamp_ms=timestamp_ms).get(timeout=20)


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b'{"n":%d}' % number for number in range(first, first + count)]


def delete_before(broker: KafkaBroker, place: Input, offset: int) -> None:
    """What retention does, at once."""
    with broker.admin() as admin:
        admin.delete_records({TopicPartition(*place): offset}, timeout_ms=10_000)


@pytest.fixture
def topics(kafka_broker: KafkaBroker, topic_name: str) -> tuple[str, str]:
    """Two topics of four partitions each."""
    names = (f"{topic_name}-shown", f"{topic_name}-clicked")
    for name in names:
        kafka_broker.create_topic(name, partitions=4)
    return names


class TestStart:
    def test_differing_partition_counts_are_refused_with_topics_and_counts(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
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

    def test_without_a_broker_the_error_names_the_address_and_leaves_no_thread_behind(self) -> None:
        port, before = free_port(), threading.active_count()
        with pytest.raises(SourceError, match=f"127.0.0.1:{port}.*refused"):
            KafkaSource(KafkaConnection(bootstrap_servers=(f"127.0.0.1:{port}",), topics=("any",)))
        assert threading.active_count() == before

    def test_speaking_tls_to_a_plain_port_is_explained_and_leaves_no_thread_behind(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        before = threading.active_count()
        with pytest.raises(SourceError, match=r"kafka\.security_protocol \(now SSL\)"):
            KafkaSource(settings_for(kafka_broker, *topics, security_protocol="SSL"))
        assert threading.active_count() == before

    def test_topic_ids_and_partitions_are_known(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        with kafka_broker.admin() as admin:
            expected = {entry["name"]: str(entry["topic_id"]) for entry in admin.describe_topics(list(topics))}
        with running(settings_for(kafka_broker, *topics)) as member:
            assert member.source.topic_ids == expected
            assert member.source.partitions == 4

    def test_passwords_are_not_shown(self) -> None:
        settings = KafkaConnection(bootstrap_servers=("b:1",), topics=("t",), ssl_password="hidden-one", sasl_password="hidden-two")
        assert "hidden" not in repr(settings)


class TestReading:
    def test_records_come_in_order_with_offsets_timestamps_and_bytes(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 2)
        before = int(time.time() * 1_000)
        send(kafka_broker, place, [b"one", None, b"", b"four"])
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: len(member.got[place]) == 4, member)
            assert [(record.offset, record.value) for record in member.got[place]] == [(0, b"one"), (1, None), (2, b""), (3, b"four")]
            assert all(before <= record.timestamp_ms <= time.time() * 1_000 for record in member.got[place])
            assert member.source.ends()[place] == 4

    def test_reading_goes_on_at_the_stored_offset_of_each_input(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        places = [Input(topic, 1) for topic in topics]
        for place in places:
            send(kafka_broker, place, numbered(10))
        with running(settings_for(kafka_broker, *topics), {places[0]: 7}) as member:
            turn_until(lambda: len(member.got[places[0]]) == 3 and len(member.got[places[1]]) == 10, member)
            assert member.values(places[0]) == numbered(3, first=7)
            assert member.values(places[1]) == numbered(10)

    def test_a_store_that_knows_nothing_of_what_the_group_has_read_is_told_of(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        settings = settings_for(kafka_broker, *topics)
        places = [Input(topic, task) for topic in topics for task in range(4)]
        with capture_logs() as logs, running(settings) as member:
            for place in places:
                send(kafka_broker, place, numbered(3))
            turn_until(lambda: set(member.stored.values()) == {3} and len(member.stored) == 8, member)
            turn_until(lambda: all(member.source._consumer.committed(TopicPartition(*place)) == 3 for place in places), member)
        assert not [entry for entry in logs if "was_read" in entry]
        with capture_logs() as logs, running(settings) as member:
            turn_until(lambda: set(member.stored.values()) == {3} and len(member.stored) == 8, member)
        told = [entry for entry in logs if "was_read" in entry]
        assert {place for entry in told for place in entry["was_read"]} == {f"{place.topic} [{place.partition}] to 3" for place in places}
        assert {entry["begins"] for entry in told} == {"earliest"}

    def test_start_latest_begins_at_the_end_and_only_where_nothing_is_stored(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        stored, fresh = Input(topics[0], 0), Input(topics[1], 0)
        for place in (stored, fresh):
            send(kafka_broker, place, numbered(5))
        with running(settings_for(kafka_broker, *topics, start="latest"), {stored: 3}) as member:
            turn_until(lambda: len(member.got[stored]) == 2, member)
            send(kafka_broker, fresh, [b"new"])
            turn_until(lambda: bool(member.got[fresh]), member)
            assert member.values(fresh) == [b"new"]

    def test_start_at_a_time_begins_each_input_with_its_first_record_of_that_time_or_later(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        since = int(time.time() * 1_000) - 60_000
        dated = {  # milliseconds from the time at which all begins
            Input(topics[0], 0): [-20, -1, 0, 5],
            Input(topics[1], 0): [-20, 7, -9, 8],  # the log is in order of arrival, and so is what is read from the first on
            Input(topics[0], 1): [-20, -10],
            Input(topics[1], 1): [],
            Input(topics[0], 2): [-20, 3],  # has a stored offset: the time says nothing
        }
        for place, times in dated.items():
            for number, ms in enumerate(times):
                send_dated(kafka_broker, place, b"%d" % number, since + ms)
        stored = Input(topics[0], 2)
        with running(settings_for(kafka_broker, *topics, start=since), {stored: 0}) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3} and len(member.got[stored]) == 2, member)
            for place in (Input(topics[0], 1), Input(topics[1], 1)):
                send_dated(kafka_broker, place, b"next", since - 5)
            turn_until(lambda: bool(member.got[Input(topics[0], 1)] and member.got[Input(topics[1], 1)]), member)
            turn_until(lambda: bool(member.got[Input(topics[0], 0)] and member.got[Input(topics[1], 0)]), member)
            assert {place: member.values(place) for place in dated} == {
                Input(topics[0], 0): [b"2", b"3"],
                Input(topics[1], 0): [b"1", b"2", b"3"],
                Input(topics[0], 1): [b"next"],
                Input(topics[1], 1): [b"next"],
                stored: [b"0", b"1"],
            }

    def test_start_at_a_time_to_come_begins_at_the_end(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[1], 3)
        send(kafka_broker, place, numbered(5))
        with running(settings_for(kafka_broker, *topics, start=int(time.time() * 1_000) + HOUR_MS)) as member:
            turn_until(lambda: 3 in member.tasks, member)
            send(kafka_broker, place, [b"new"])
            turn_until(lambda: bool(member.got[place]), member)
            assert member.values(place) == [b"new"]

    def test_offsets_committed_to_kafka_are_for_lag_tools_and_never_read(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        send(kafka_broker, place, numbered(5))
        settings = settings_for(kafka_broker, *topics)
        with running(settings) as member:
            turn_until(lambda: len(member.got[place]) == 5, member)
            turn_until(lambda: committed(kafka_broker, settings.group_id, place) == 5, member)
        with running(settings) as member:
            turn_until(lambda: len(member.got[place]) == 5, member)
            assert member.got[place][0].offset == 0

    def test_a_paused_input_stays_paused_through_many_polls_and_loses_nothing(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        paused, other = Input(topics[0], 0), Input(topics[1], 0)
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            member.source.pause([paused])
            for round_number in range(5):
                send(kafka_broker, paused, numbered(3, first=3 * round_number))
                send(kafka_broker, other, [b"other"])
                turn_until(lambda: len(member.got[other]) == round_number + 1, member)  # noqa: B023  (called at once)
            assert member.got[paused] == []
            member.source.resume([paused])
            turn_until(lambda: len(member.got[paused]) == 15, member)
            assert member.values(paused) == numbered(15)

    def test_an_unstarted_task_does_not_flow_even_when_resumed(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place, other = Input(topics[0], 0), Input(topics[0], 1)
        for each in (place, other):
            send(kafka_broker, each, numbered(3))
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

    def test_ends_pass_over_the_marker_of_a_transaction(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, transactional_id=f"tx-{topics[0]}")
        producer.init_transactions()
        for value, commit in ((b"kept", True), (b"withdrawn", False)):
            producer.begin_transaction()
            producer.send(place.topic, value, partition=place.partition)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
        producer.close()
        now = Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: bool(member.got[place]), member)
            assert member.values(place) == [b"kept"]
            turn_until(lambda: now.pass_by(1.0) and member.source.ends()[place] == 1, member)

    def test_records_of_an_open_transaction_lie_before_the_end(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        send(kafka_broker, place, [b"plain"])
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap, transactional_id=f"tx-{topics[0]}")
        producer.init_transactions()
        now = Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: len(member.got[place]) == 1 and now.pass_by(1.0) and member.source.ends()[place] == 1, member)
            producer.begin_transaction()
            for value in (b"one", b"two"):
                producer.send(place.topic, value, partition=place.partition)
            producer.flush()
            turn_until(lambda: now.pass_by(1.0) and member.source.ends()[place] == 3, member)
            turn_until(lambda: now.pass_by(1.0) and now.ahead > 100, member)  # longer than a client may be deaf
            assert (member.values(place), member.source.rebuilds) == ([b"plain"], 0)
            producer.commit_transaction()
            turn_until(lambda: len(member.got[place]) == 3, member)
            turn_until(lambda: now.pass_by(1.0) and member.source.ends()[place] == 3, member)
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
        with running(settings_for(kafka_broker, *topics, poll_records_max=333)) as member:
            turn_until(lambda: len(member.got[place]) == len(stock), member)
            assert member.got[place] == stock


def committed(broker: KafkaBroker, group_id: str, place: Input) -> int | None:
    with broker.admin() as admin:
        offsets = admin.list_group_offsets([group_id])[group_id]
    found = offsets.get(TopicPartition(*place))
    return None if found is None else int(found.offset)


@contextmanager
def client_told() -> Iterator[list[EventDict]]:
    """What of the client's own log is passed on meanwhile, as if none of it had been said before."""
    log = kafka_client.ClientLog()
    logging.getLogger("kafka").addHandler(log)
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        logging.getLogger("kafka").removeHandler(log)


def stock_records(broker: KafkaBroker, place: Input, count: int) -> list[Record]:
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", group_id=None)
    try:
        where = TopicPartition(*place)
        consumer.assign([where])
        records: list[Record] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(records) < count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=200).values():
                records += [Record(record.offset, record.timestamp, record.value) for record in batch]
        return records
    finally:
        consumer.close()


def generation_of(member: Member) -> int:
    """How often the members of the group have been dealt their tasks."""
    return int(member.source._consumer._coordinator._generation.generation_id)


class Clock:
    """The real time, plus what a test lets pass by."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead

    def pass_by(self, seconds: float) -> bool:
        self.ahead += seconds
        return True


class TestOwnership:
    def test_two_members_share_the_tasks_and_partition_p_of_all_topics_meets_on_one(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        settings = settings_for(kafka_broker, *topics)
        stored: dict[Input, int] = {}
        with running(settings, stored) as first:
            turn_until(lambda: first.tasks == {0, 1, 2, 3}, first)
            with running(settings, stored) as second:
                turn_until(lambda: len(first.tasks) == len(second.tasks) == 2, first, second)
                assert first.tasks | second.tasks == {0, 1, 2, 3}
                for task in range(4):
                    for topic in topics:
                        send(kafka_broker, Input(topic, task), numbered(5))
                turn_until(lambda: sum(len(records) for member in (first, second) for records in member.got.values()) == 40, first, second)
                for member in (first, second):
                    assert {place for place, records in member.got.items() if records} == {
                        Input(topic, task) for topic in topics for task in member.tasks
                    }

    def test_a_join_that_ends_between_two_polls_is_taken_up_by_the_next(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        with running(settings_for(kafka_broker, *topics)) as member:

            def join_has_ended() -> bool:
                join = member.source._consumer._coordinator._join_task
                return join is None or bool(join.is_done)

            def joined_by_a_poll_that_does_not_wait() -> bool:
                wait_until(join_has_ended, what="the join that the last poll began has ended")
                member.turn(timeout_s=0.0)
                return member.tasks == {0, 1, 2, 3}

            wait_until(joined_by_a_poll_that_does_not_wait, what="the member has its tasks", deadline_seconds=10)
            assert generation_of(member) == 1

    def test_a_member_that_leaves_is_followed_without_loss_or_repeat(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        settings = settings_for(kafka_broker, *topics)
        stored: dict[Input, int] = {}
        places = [Input(topic, task) for topic in topics for task in range(4)]
        with running(settings, stored) as first:
            with running(settings, stored) as second:
                turn_until(lambda: len(first.tasks) == len(second.tasks) == 2, first, second)
                for place in places:
                    send(kafka_broker, place, numbered(20))
                turn_until(lambda: len(stored) == 8 and set(stored.values()) == {20}, first, second)
                left = second
            for place in places:
                send(kafka_broker, place, numbered(20, first=20))
            turn_until(lambda: first.tasks == {0, 1, 2, 3} and set(stored.values()) == {40}, first)
            assert generation_of(first) >= 3
            for place in places:
                assert left.values(place) + first.values(place) == numbered(40) or first.values(place) == numbered(40)

    def test_a_task_kept_through_a_rebalance_is_revoked_and_assigned_anew(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        settings = settings_for(kafka_broker, *topics)
        with running(settings) as first:
            turn_until(lambda: first.tasks == {0, 1, 2, 3}, first)
            revoked: set[int] = set()
            assigned: set[int] = set()
            with running(settings) as second:
                deadline = time.monotonic() + PATIENCE_SECONDS
                while len(assigned) < 2 and time.monotonic() < deadline:
                    polled = first.source.poll(0.05)
                    revoked |= polled.revoked
                    assigned |= polled.assigned
                    second.turn()
            assert revoked == {0, 1, 2, 3}
            assert len(assigned) == 2

    def test_a_silent_member_is_replaced_after_its_session(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        settings = settings_for(kafka_broker, *topics, session_timeout_ms=SHORT_SESSION_MS)
        stored: dict[Input, int] = {}
        with running(settings, stored) as first:
            turn_until(lambda: first.tasks == {0, 1, 2, 3}, first)
            first.source._consumer._client.close()  # as after kill -9: no leave request, no heartbeat
            with running(settings, stored) as second:
                turn_until(lambda: second.tasks == {0, 1, 2, 3}, second, seconds=SHORT_SESSION_MS / 1_000 + 10)
            first.source._consumer = None

    def test_a_member_ends_when_another_process_joins_with_its_instance_id(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        settings = settings_for(kafka_broker, *topics, group_instance_id="only-one")
        with running(settings) as first, running(settings) as second:
            turn_until(lambda: first.tasks == {0, 1, 2, 3}, first)
            turn_until(lambda: second.tasks == {0, 1, 2, 3}, second)
            with pytest.raises(ConfigError, match=r"kafka\.group_instance_id = only-one: another process"):
                turn_until(lambda: False, first)
            first.source.close()
            send(kafka_broker, Input(topics[0], 0), numbered(3))
            turn_until(lambda: len(second.got[Input(topics[0], 0)]) == 3, second)


class TestHistory:
    def test_records_deleted_before_a_start_are_counted_and_refused(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 1)
        send(kafka_broker, place, numbered(20))
        delete_before(kafka_broker, place, 12)
        with (
            running(settings_for(kafka_broker, *topics), {place: 5}) as member,
            pytest.raises(StateError, match=r"\[1\]: 7 records \(5 to 11\)"),
        ):
            turn_until(lambda: False, member)

    def test_records_deleted_while_reading_are_counted_and_refused(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 1)
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            member.source.pause([place])
            send(kafka_broker, place, numbered(20))
            delete_before(kafka_broker, place, 12)
            member.source.resume([place])
            with pytest.raises(StateError, match=r"\[1\]: 12 records \(0 to 11\)"):
                turn_until(lambda: False, member)

    def test_deleted_records_that_were_read_before_are_no_loss(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 1)
        send(kafka_broker, place, numbered(20))
        delete_before(kafka_broker, place, 12)
        with running(settings_for(kafka_broker, *topics), {place: 12}) as member:
            turn_until(lambda: len(member.got[place]) == 8, member)

    def test_a_position_past_the_end_is_refused_with_the_count(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 1)
        send(kafka_broker, place, numbered(20))
        with (
            running(settings_for(kafka_broker, *topics), {place: 25}) as member,
            pytest.raises(StateError, match="ends at 20, 5 records short"),
        ):
            turn_until(lambda: False, member)

    @pytest.mark.parametrize("refilled", [0, 5, 60], ids=["left empty", "with fewer records", "with more records"])
    def test_a_topic_created_anew_is_refused(self, kafka_broker: KafkaBroker, topics: tuple[str, str], refilled: int) -> None:
        place = Input(topics[0], 0)
        send(kafka_broker, place, numbered(20))
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: len(member.got[place]) == 20, member)
            kafka_broker.delete_topic(topics[0])
            kafka_broker.create_topic(topics[0], partitions=4)
            send(kafka_broker, place, [b"another"] * refilled)
            with pytest.raises(StateError, match="deleted and created again"):
                turn_until(lambda: False, member)
            if refilled < 20:  # fetches name topics, not ids: a longer log answers until the next look at the metadata
                assert b"another" not in member.values(place)

    def test_added_partitions_are_refused_with_both_counts(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            with kafka_broker.admin() as admin:
                admin.create_partitions({topics[1]: NewPartitions(total_count=6)})
            with pytest.raises(StateError, match=f"{topics[1]}' now has 6 partitions, and had 4"):
                turn_until(lambda: False, member)

    def test_a_deleted_topic_is_refused(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        now = Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            kafka_broker.delete_topic(topics[0])
            with pytest.raises(StateError, match="has been deleted"):
                turn_until(lambda: now.pass_by(0.1) and False, member)


class TestOutages:
    def test_a_killed_broker_is_reported_and_reading_resumes_without_loss(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place = Input(topics[0], 0)
        send(kafka_broker, place, numbered(10), acks="all")
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: len(member.got[place]) == 10, member)
            kafka_broker.kill()
            turn_until(lambda: not member.source.health.reachable, member)
            assert "refused" in member.source.health.last_error
            kafka_broker.start()
            send(kafka_broker, place, numbered(10, first=10))
            turn_until(lambda: len(member.got[place]) >= 20, member, seconds=10)
            assert member.values(place) == numbered(20)
            assert member.source.health.reachable
            assert member.source.rebuilds == 0

    def test_a_hung_broker_is_reported_and_the_client_built_anew_only_after_a_minute(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        place, now = Input(topics[0], 0), Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            kafka_broker.hang()
            turn_until(lambda: now.pass_by(1.0) and not member.source.health.reachable, member)
            assert "does not answer" in member.source.health.last_error
            assert member.source.rebuilds == 0
            turn_until(lambda: now.pass_by(20.0) and member.source.rebuilds == 1, member)
            assert member.tasks == set()
            kafka_broker.resume()
            send(kafka_broker, place, numbered(3))
            turn_until(lambda: len(member.got[place]) == 3, member)

    def test_brokers_that_accept_connections_and_answer_nothing_are_waited_for_however_often_no_client_starts(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(kafka_client, "BOOTSTRAP_MS", 1_000)
        place, now = Input(topics[0], 0), Clock()
        send(kafka_broker, place, numbered(3))
        with running(settings_for(kafka_broker, *topics), clock=now) as member, capture_logs() as logs:
            turn_until(lambda: len(member.got[place]) == 3, member)
            kafka_broker.kill()
            with accept_only(kafka_broker.port):
                turn_until(lambda: now.pass_by(20.0) and member.source.rebuilds == 1, member)
                tries: list[KafkaConnection] = []
                monkeypatch.setattr(kafka_source, "new_consumer", lambda settings: tries.append(settings) or new_consumer(settings))
                turn_until(lambda: len(tries) > REBUILDS_WITHOUT_RECORD_MAX, member)
                told = [entry["event"] for entry in logs if entry["log_level"] == "warning" and entry["event"] != "kafka client"]
                assert told[-2:] == ["the Kafka client is built anew", "the Kafka client could not be built anew, trying again"]
                assert not member.source.health.reachable
                assert "accepts connections" in member.source.health.last_error
            outage = [entry["event"] for entry in logs].index("no Kafka broker answers")
            of_client = [entry["log_level"] for entry in logs[outage + 1 :] if entry["event"] == "kafka client"]
            assert {*of_client[2:]} == {"debug"}, "what is known is not told again, but for what is on its way at that moment"
            kafka_broker.start()
            send(kafka_broker, place, numbered(3, first=3))
            turn_until(lambda: len(member.got[place]) >= 6, member)
            assert member.values(place) == numbered(6)
            assert member.source.health.reachable
            assert member.source.rebuilds == 1

    def test_an_outage_that_records_end_before_anybody_looks_is_told_to_its_end(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(liveness, "LOOK_AGAIN_SECONDS", HOUR_MS / 1_000)
        place, now = Input(topics[0], 0), Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member, capture_logs() as logs:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            kafka_broker.hang()
            turn_until(lambda: not member.source.health.reachable or not now.pass_by(1.0), member)
            kafka_broker.resume()
            send(kafka_broker, place, numbered(3))
            turn_until(lambda: len(member.got[place]) == 3, member)
            told = [entry["event"] for entry in logs if entry["event"] != "kafka client"]
            assert told == ["no Kafka broker answers", "Kafka answers again"]

    def test_a_deaf_client_is_built_anew_and_reads_on_where_it_was(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place, now = Input(topics[0], 0), Clock()
        send(kafka_broker, place, numbered(5))
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: len(member.got[place]) == 5, member)
            deafen(member.source)
            send(kafka_broker, place, numbered(5, first=5))
            turn_until(lambda: now.pass_by(1.0) and member.source.rebuilds == 1, member)
            assert "no" in member.source.health.last_error
            turn_until(lambda: len(member.got[place]) >= 10, member)
            assert member.values(place) == numbered(10)

    def test_a_client_that_stays_deaf_is_given_up_after_three_rebuilds(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place, now = Input(topics[0], 0), Clock()
        send(kafka_broker, place, numbered(5))
        with running(settings_for(kafka_broker, *topics, session_timeout_ms=SHORT_SESSION_MS), clock=now) as member:

            def turn() -> bool:
                if member.source._consumer is not None:
                    deafen(member.source)
                return now.pass_by(2.0) and False

            with pytest.raises(GaveUp, match="built anew 3 times"):
                turn_until(turn, member, seconds=60)
            assert member.source.rebuilds == 4

    def test_an_input_paused_in_the_middle_of_a_chunk_goes_on_when_it_is_resumed(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        """The client sets the rest of the chunk aside, and of itself would not bring it back."""
        paused, other = Input(topics[0], 0), Input(topics[1], 0)
        send(kafka_broker, paused, numbered(50))
        with running(settings_for(kafka_broker, *topics, poll_records_max=10)) as member:
            turn_until(lambda: len(member.got[paused]) >= 10, member)
            member.source.pause([paused])
            send(kafka_broker, other, numbered(50))
            turn_until(lambda: len(member.got[other]) == 50, member)
            assert len(member.got[paused]) < 50
            member.source.resume([paused])
            turn_until(lambda: len(member.got[paused]) == 50, member)
            assert member.values(paused) == numbered(50)
            assert member.source.rebuilds == 0

    def test_an_input_paused_for_long_is_not_taken_for_deaf(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        place, now = Input(topics[0], 0), Clock()
        with running(settings_for(kafka_broker, *topics), clock=now) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            member.source.pause([place])
            send(kafka_broker, place, numbered(5))
            for _ in range(40):
                now.pass_by(1.0)
                member.turn()
            assert member.source.ends()[place] == 5
            assert member.source.rebuilds == 0

    @time_bound(3)
    def test_closing_is_quick_and_hands_the_tasks_over_at_once(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str], seconds_max: float
    ) -> None:
        settings = settings_for(kafka_broker, *topics, session_timeout_ms=240_000)
        with running(settings) as first, running(settings) as second:
            turn_until(lambda: len(first.tasks) == len(second.tasks) == 2, first, second)
            began = time.monotonic()
            first.source.close()
            assert time.monotonic() - began < seconds_max
            turn_until(lambda: second.tasks == {0, 1, 2, 3}, second, seconds=120)  # well below the session timeout
            first.source.close()

    def test_closing_leaves_the_last_acknowledgement_behind_and_says_nothing_of_trouble(
        self, kafka_broker: KafkaBroker, topics: tuple[str, str]
    ) -> None:
        """Lag tools read it while the worker is away. A static member says no farewell: its client would cancel what is under way,
        and call that an error and its coordinator dead."""
        place = Input(topics[0], 0)
        settings = settings_for(kafka_broker, *topics, group_instance_id="static")
        send(kafka_broker, place, numbered(50))
        for offset in range(20, 25):
            with running(settings, {place: offset}) as member, client_told() as told:
                turn_until(lambda member=member: member.tasks == {0, 1, 2, 3}, member)
                member.source.acknowledge({place: offset})
                member.source.close()
            assert committed(kafka_broker, settings.group_id, place) == offset
            assert told == []

    def test_what_closing_itself_cuts_short_is_no_trouble(self, kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
        """Of topics and brokers the client asks anew at any time, the moment it is closed at included."""
        with running(settings_for(kafka_broker, *topics)) as member, client_told() as told:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            cluster = member.source._cluster
            kafka_broker.hang()
            cluster.request_update()
            wait_until(lambda: cluster.metadata_refresh_in_progress, what="the client has asked")
            member.source.close()
            kafka_broker.resume()
        assert all("LeaveGroup" in line["message"] for line in told)

    @time_bound(5)
    def test_closing_without_a_broker_is_quick_too(self, kafka_broker: KafkaBroker, topics: tuple[str, str], seconds_max: float) -> None:
        with running(settings_for(kafka_broker, *topics)) as member:
            turn_until(lambda: member.tasks == {0, 1, 2, 3}, member)
            kafka_broker.kill()
            member.source.acknowledge({Input(topics[0], 0): 1})
            began = time.monotonic()
            member.source.close()
            assert time.monotonic() - began < seconds_max


@contextmanager
def accept_only(port: int) -> Iterator[None]:
    """What a load balancer with a dead backend does: take connections, and answer nothing."""
    with contextlib.ExitStack() as taken, socket.create_server((HOST, port), backlog=128) as server:

        def take() -> None:
            with contextlib.suppress(OSError):  # closed
                while True:
                    taken.enter_context(server.accept()[0])

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)  # wakes the thread, as closing alone would not
        thread.join()


def deafen(source: KafkaSource) -> None:
    """Leave the client in the state of one whose fetches are pending for good: the one thing no real broker does on demand."""
    fetcher = source._consumer._fetcher
    fetcher._create_fetch_requests = dict


class TestClientLog:
    def test_a_flood_is_passed_on_once_and_the_last_error_is_kept(self) -> None:
        client = kafka_client.client_log()
        began = time.time()
        with capture_logs() as lines:
            for number in range(300):
                logging.getLogger("kafka.net.flood").error("node %d is gone", number)
        assert [line["message"] for line in lines] == ["node 0 is gone"]
        assert client.last_error(began) == "node 299 is gone"

    def test_debug_output_which_holds_passwords_is_switched_off(self) -> None:
        kafka_client.client_log()
        assert not logging.getLogger("kafka.admin.client").isEnabledFor(logging.INFO)


class TestDeadLetters:
    def read(self, broker: KafkaBroker, topic: str, count: int) -> list[Any]:
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=10_000)
        try:
            consumer.assign([TopicPartition(topic, 0)])
            found = []
            for record in consumer:
                found.append(record)
                if len(found) == count:
                    break
            return found
        finally:
            consumer.close()

    def test_letters_are_in_the_topic_when_write_returns(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name)
        letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
        letters.write(
            [
                DeadLetter("bad_json", "at byte 3: 'ä'", Input("clicks", 2), 41, b"\xff{"),
                DeadLetter("empty", "", Input("shown", 0), 7, None),
            ]
        )
        found = self.read(kafka_broker, topic_name, 2)
        letters.close()
        assert [(record.key, record.value) for record in found] == [(b"clicks:2:41", b"\xff{"), (b"shown:0:7", None)]
        assert dict(found[0].headers) == {
            "reason": b"bad_json",
            "detail": "at byte 3: 'ä'".encode(),
            "topic": b"clicks",
            "partition": b"2",
            "offset": b"41",
        }

    def test_many_letters_arrive_in_order(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name)
        letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
        letters.write(DeadLetter("late", "", Input("clicks", 0), number, json.dumps(number).encode()) for number in range(1_234))
        assert [json.loads(record.value) for record in self.read(kafka_broker, topic_name, 1_234)] == list(range(1_234))
        letters.close()

    def test_a_letter_larger_than_the_topic_takes_is_cut_and_says_so(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        kafka_broker.create_topic(topic_name, configs={"max.message.bytes": "100000"})
        letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
        letters.write(
            [
                DeadLetter("oversized", "", Input("clicks", 0), 1, b"x" * 2_000_000),
                DeadLetter("late", "", Input("clicks", 0), 2, b"small"),
            ]
        )
        found = {record.key: record for record in self.read(kafka_broker, topic_name, 2)}
        letters.close()
        assert found[b"clicks:0:1"].value == b"x" * CUT_VALUE_BYTES
        assert dict(found[b"clicks:0:1"].headers)["value_bytes"] == b"2000000"
        assert found[b"clicks:0:2"].value == b"small"

    def test_a_missing_topic_and_an_input_topic_are_refused(self, kafka_broker: KafkaBroker, topic_name: str) -> None:
        with pytest.raises(ConfigError, match="does not exist"):
            KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
        with pytest.raises(ConfigError, match="must not be an input topic"):
            KafkaDeadLetters(settings_for(kafka_broker, "input"), "input")

    def test_without_a_topic_nothing_is_written_and_no_broker_asked(self) -> None:
        settings: Mapping[str, Any] = {"bootstrap_servers": (f"127.0.0.1:{free_port()}",)}
        letters = KafkaDeadLetters(KafkaConnection(**settings), "")
        letters.write([DeadLetter("late", "", Input("clicks", 0), 1, b"")])
        letters.close()

    @time_bound(25)
    def test_a_broker_that_is_away_is_an_error_within_bounds_and_writing_works_again_after(
        self, kafka_broker: KafkaBroker, topic_name: str, seconds_max: float
    ) -> None:
        kafka_broker.create_topic(topic_name)
        letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
        letter = DeadLetter("late", "", Input("clicks", 0), 1, b"kept")
        letters.write([letter])
        kafka_broker.kill()
        began = time.monotonic()
        with pytest.raises(SourceError, match=topic_name):
            letters.write([letter])
        assert time.monotonic() - began < seconds_max
        kafka_broker.start()
        letters.write([letter])
        assert {record.key for record in self.read(kafka_broker, topic_name, 2)} == {b"clicks:0:1"}
        letters.close()

    @time_bound(4)
    def test_what_a_broker_that_hangs_has_not_taken_is_given_up_when_they_are_closed(
        self, kafka_broker: KafkaBroker, topic_name: str, seconds_max: float
    ) -> None:
        kafka_broker.create_topic(topic_name)
        before = set(threading.enumerate())
        letters = KafkaDeadLetters(settings_for(kafka_broker, "input"), topic_name)
        letters.write([DeadLetter("late", "", Input("clicks", 0), 1, b"kept")])
        kafka_broker.hang()
        letters._producer.send(topic_name, value=b"under way")
        began = time.monotonic()
        letters.close()
        assert time.monotonic() - began < seconds_max
        wait_until(lambda: set(threading.enumerate()) <= before, what="its threads have ended", deadline_seconds=15)
