"""Logs that no longer match the stored offsets, on a real broker."""

from __future__ import annotations

import pytest
from kafka.admin import NewPartitions

from streammetrics.connectors.kafka import client as kafka_client
from streammetrics.connectors.kafka import consumer as kafka_consumer
from streammetrics.connectors.source import Input
from streammetrics.errors import StateError
from tests.support.kafka_member import ALL_TASKS, Clock, delete_before, numbered, running, send, settings_for, turn_forever, turn_until
from tests.tools.servers.kafka import KafkaBroker


@pytest.fixture(autouse=True)
def _fresh_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clients refresh their metadata every half second instead of every ten seconds."""
    monkeypatch.setattr(kafka_client, "METADATA_MS_MAX", 500)


def test_records_deleted_before_the_start_are_counted_and_refused(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place = Input(topics[0], 1)
    send(kafka_broker, place, numbered(20))
    delete_before(kafka_broker, place, 12)
    with (
        running(settings_for(kafka_broker, *topics), {place: 5}) as member,
        pytest.raises(StateError, match=r"\[1\]: 7 records \(5 to 11\)"),
    ):
        turn_forever(member)


def test_records_deleted_while_reading_are_counted_and_refused(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place = Input(topics[0], 1)
    with running(settings_for(kafka_broker, *topics)) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        member.source.pause([place])
        send(kafka_broker, place, numbered(20))
        delete_before(kafka_broker, place, 12)
        member.source.resume([place])
        with pytest.raises(StateError, match=r"\[1\]: 12 records \(0 to 11\)"):
            turn_forever(member)


def test_deleted_records_that_were_already_read_are_no_loss(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place = Input(topics[0], 1)
    send(kafka_broker, place, numbered(20))
    delete_before(kafka_broker, place, 12)
    with running(settings_for(kafka_broker, *topics), {place: 12}) as member:
        turn_until(lambda: len(member.got[place]) == 8, member)


def test_a_position_past_the_end_is_refused_with_the_count(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    place = Input(topics[0], 1)
    send(kafka_broker, place, numbered(20))
    with (
        running(settings_for(kafka_broker, *topics), {place: 25}) as member,
        pytest.raises(StateError, match="ends at 20, 5 records before the stored offset 25"),
    ):
        turn_forever(member)


@pytest.mark.parametrize("refilled", [0, 5, 60], ids=["left empty", "with fewer records", "with more records"])
def test_a_topic_created_again_is_refused(kafka_broker: KafkaBroker, topics: tuple[str, str], refilled: int) -> None:
    place = Input(topics[0], 0)
    send(kafka_broker, place, numbered(20))
    with running(settings_for(kafka_broker, *topics)) as member:
        turn_until(lambda: len(member.got[place]) == 20, member)
        kafka_broker.delete_topic(topics[0])
        kafka_broker.create_topic(topics[0], partitions=4)
        send(kafka_broker, place, [b"another"] * refilled)
        with pytest.raises(StateError, match="deleted and created again"):
            turn_forever(member)
        if refilled < 20:  # a fetch names the topic, not its id, so a longer log answers until the next check of the metadata
            assert b"another" not in member.values(place)


def test_added_partitions_are_refused_with_both_counts(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    with running(settings_for(kafka_broker, *topics)) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        with kafka_broker.admin() as admin:
            admin.create_partitions({topics[1]: NewPartitions(total_count=6)})
        with pytest.raises(StateError, match=f"{topics[1]}' now has 6 partitions, and had 4"):
            turn_forever(member)


def test_a_deleted_topic_is_refused(kafka_broker: KafkaBroker, topics: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_consumer, "REQUEST_MS", 500)  # a request for the ends of a deleted topic gets no answer
    now = Clock()
    with running(settings_for(kafka_broker, *topics), clock=now) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        kafka_broker.delete_topic(topics[0])
        with pytest.raises(StateError, match="has been deleted"):
            turn_until(lambda: now.advance(1.0) and False, member)
