"""The Kafka source while a real broker is away, hangs or answers nothing."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka import consumer as kafka_consumer
from streammetrics.connectors.kafka import health
from streammetrics.connectors.kafka import source as kafka_source
from streammetrics.connectors.kafka.client import ClientLog
from streammetrics.connectors.kafka.consumer import new_consumer
from streammetrics.connectors.kafka.source import REBUILDS_WITHOUT_RECORD_MAX
from streammetrics.connectors.source import Input, PollResult
from streammetrics.errors import GaveUp
from tests.connectors.kafka.patches.client_internals import stop_fetching
from tests.support.kafka_member import ALL_TASKS, Clock, committed, numbered, running, send, settings_for, turn_until
from tests.support.timing import time_bound
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import HOST, wait_until

HOUR_SECONDS = 3_600.0


@pytest.fixture
def _short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on requests to a broker that does not answer after half a second instead of two seconds."""
    monkeypatch.setattr(kafka_consumer, "REQUEST_MS", 500)


@contextmanager
def client_log_lines() -> Iterator[list[EventDict]]:
    """Collect what a new handler logs of the clients' own log."""
    handler = ClientLog()
    logging.getLogger("kafka").addHandler(handler)
    try:
        with capture_logs() as lines:
            yield lines
    finally:
        logging.getLogger("kafka").removeHandler(handler)


@contextmanager
def accepting_only(port: int) -> Iterator[None]:
    """Accept connections and answer nothing, like a load balancer whose backend is down."""
    with contextlib.ExitStack() as connections, socket.create_server((HOST, port), backlog=128) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):  # the server was closed
                while True:
                    connections.enter_context(server.accept()[0])

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closing alone would not
        thread.join()


def test_a_killed_broker_is_reported_and_reading_resumes_without_loss(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place = Input(topics[0], 0)
    send(kafka_broker, place, numbered(10), acks="all")
    with running(settings_for(kafka_broker, *topics)) as member:
        turn_until(lambda: len(member.got[place]) == 10, member)
        kafka_broker.kill()
        turn_until(lambda: not member.source.health.reachable, member)
        assert "refused" in member.source.health.last_error
        kafka_broker.start()
        send(kafka_broker, place, numbered(10, first=10))
        turn_until(lambda: len(member.got[place]) >= 20, member)
        assert member.values(place) == numbered(20)
        assert member.source.health.reachable
        assert member.source.rebuilds == 0


@pytest.mark.usefixtures("_short_requests")
def test_the_client_of_a_hung_broker_is_replaced_after_a_minute(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place, now = Input(topics[0], 0), Clock()
    with running(settings_for(kafka_broker, *topics), clock=now) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        kafka_broker.hang()
        turn_until(lambda: now.advance(1.0) and not member.source.health.reachable, member)
        assert "does not answer" in member.source.health.last_error
        assert member.source.rebuilds == 0
        turn_until(lambda: now.advance(20.0) and member.source.rebuilds == 1, member)
        assert member.tasks == set()
        kafka_broker.resume()
        send(kafka_broker, place, numbered(3))
        turn_until(lambda: len(member.got[place]) == 3, member)


@pytest.mark.usefixtures("_short_requests")
def test_brokers_that_accept_connections_without_answering_are_waited_for(
    kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_client, "BOOTSTRAP_MS", 500)
    place, now = Input(topics[0], 0), Clock()
    send(kafka_broker, place, numbered(3))
    with running(settings_for(kafka_broker, *topics), clock=now) as member, capture_logs() as logs:
        turn_until(lambda: len(member.got[place]) == 3, member)
        kafka_broker.kill()
        with accepting_only(kafka_broker.port):
            turn_until(lambda: now.advance(20.0) and member.source.rebuilds == 1, member)
            attempts: list[KafkaSettings] = []
            monkeypatch.setattr(kafka_source, "new_consumer", lambda settings: attempts.append(settings) or new_consumer(settings))
            turn_until(lambda: len(attempts) > REBUILDS_WITHOUT_RECORD_MAX, member)
            warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning" and entry["event"] != "kafka client"]
            assert warnings[-2:] == ["the Kafka client is being replaced", "the Kafka client could not be replaced, trying again"]
            assert not member.source.health.reachable
            assert "accepts connections" in member.source.health.last_error
        outage = [entry["event"] for entry in logs].index("no Kafka broker answers")
        levels = [entry["log_level"] for entry in logs[outage + 1 :] if entry["event"] == "kafka client"]
        assert {*levels[2:]} == {"debug"}, "in a reported outage only messages already on their way are warnings"
        kafka_broker.start()
        send(kafka_broker, place, numbered(3, first=3))
        turn_until(lambda: len(member.got[place]) >= 6, member)
        assert member.values(place) == numbered(6)
        assert member.source.health.reachable
        assert member.source.rebuilds == 1


@pytest.mark.usefixtures("_short_requests")
def test_records_that_arrive_before_the_next_check_end_an_outage(
    kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "CHECK_AGAIN_SECONDS", HOUR_SECONDS)
    place, now = Input(topics[0], 0), Clock()
    with running(settings_for(kafka_broker, *topics), clock=now) as member, capture_logs() as logs:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        kafka_broker.hang()
        turn_until(lambda: not member.source.health.reachable or not now.advance(1.0), member)
        kafka_broker.resume()
        send(kafka_broker, place, numbered(3))
        turn_until(lambda: len(member.got[place]) == 3, member)
        events = [entry["event"] for entry in logs if entry["event"] != "kafka client"]
        assert events == ["no Kafka broker answers", "Kafka answers again"]


def test_a_stalled_client_is_replaced_and_reads_on(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place, now = Input(topics[0], 0), Clock()
    send(kafka_broker, place, numbered(5))
    with running(settings_for(kafka_broker, *topics), clock=now) as member:
        turn_until(lambda: len(member.got[place]) == 5, member)
        stop_fetching(member.source)
        send(kafka_broker, place, numbered(5, first=5))
        turn_until(lambda: now.advance(1.0) and member.source.rebuilds == 1, member)
        assert "none arrives" in member.source.health.last_error
        turn_until(lambda: len(member.got[place]) >= 10, member)
        assert member.values(place) == numbered(10)


def test_a_source_gives_up_after_three_stalled_replacements(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place, now = Input(topics[0], 0), Clock()
    send(kafka_broker, place, numbered(5))
    with running(settings_for(kafka_broker, *topics), clock=now) as member:

        def turn() -> bool:
            if member.source._consumer is not None:
                stop_fetching(member.source)
            return now.advance(2.0) and False

        with pytest.raises(GaveUp, match="replaced 3 times"):
            turn_until(turn, member)
        assert member.source.rebuilds == 4


def test_an_input_paused_within_a_chunk_goes_on_after_resume(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    """The client sets the rest of the chunk aside; see `patches.parked_records`."""
    paused, other = Input(topics[0], 0), Input(topics[1], 0)
    send(kafka_broker, paused, numbered(50))
    with running(settings_for(kafka_broker, *topics), poll_records_max=10) as member:
        turn_until(lambda: len(member.got[paused]) >= 10, member)
        member.source.pause([paused])
        send(kafka_broker, other, numbered(50))
        turn_until(lambda: len(member.got[other]) == 50, member)
        assert len(member.got[paused]) < 50
        member.source.resume([paused])
        turn_until(lambda: len(member.got[paused]) == 50, member)
        assert member.values(paused) == numbered(50)
        assert member.source.rebuilds == 0


def test_a_paused_input_is_not_a_stall(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place, now = Input(topics[0], 0), Clock()
    with running(settings_for(kafka_broker, *topics), clock=now) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        member.source.pause([place])
        send(kafka_broker, place, numbered(5))
        for _ in range(20):
            now.advance(4.0)
            member.turn()
        assert member.source.ends()[place] == 5
        assert member.source.rebuilds == 0


@time_bound(3)
def test_closing_hands_the_tasks_over_before_the_session_times_out(
    kafka_broker: KafkaBroker, topics: tuple[str, str], seconds_max: float
) -> None:
    settings = settings_for(kafka_broker, *topics, session_timeout_ms=300_000)
    with running(settings) as first, running(settings) as second:
        turn_until(lambda: len(first.tasks) == len(second.tasks) == 2, first, second)
        began = time.monotonic()
        first.source.close()
        assert time.monotonic() - began < seconds_max
        turn_until(lambda: second.tasks == ALL_TASKS, second)  # waits far less than the session timeout
        first.source.close()


def test_closing_waits_for_the_last_acknowledgement_and_logs_nothing(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    """Lag tools read it while the worker is away. A static member does not leave its group. Without the wait its client would cancel
    the commit and log an error."""
    place = Input(topics[0], 0)
    settings = settings_for(kafka_broker, *topics, group_instance_id="static")
    send(kafka_broker, place, numbered(50))
    for offset in range(20, 25):
        with running(settings, {place: offset}) as member, client_log_lines() as lines:
            turn_until(lambda member=member: member.tasks == ALL_TASKS, member)
            member.source.acknowledge({place: offset})
            member.source.close()
        assert committed(kafka_broker, settings.group_id, place) == offset
        assert lines == []


def test_requests_cancelled_by_closing_are_not_logged(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    """The client may be refreshing its metadata at the moment it is closed."""
    with running(settings_for(kafka_broker, *topics)) as member, client_log_lines() as lines:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        cluster = member.source._network.cluster
        kafka_broker.hang()
        cluster.request_update()
        wait_until(lambda: cluster.metadata_refresh_in_progress, what="the client has sent a request")
        member.source.close()
        kafka_broker.resume()
    assert all("LeaveGroup" in line["message"] for line in lines)


@time_bound(5)
def test_closing_without_a_broker_ends(kafka_broker: KafkaBroker, topics: tuple[str, str], seconds_max: float) -> None:
    with running(settings_for(kafka_broker, *topics)) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        kafka_broker.kill()
        member.source.acknowledge({Input(topics[0], 0): 1})
        began = time.monotonic()
        member.source.close()
        assert time.monotonic() - began < seconds_max
        assert member.source.poll(0.0) == PollResult({}, frozenset(), frozenset({0, 1, 2, 3}))
