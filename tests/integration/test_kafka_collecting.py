"""A broker that collects records for a worker delays nothing but those records.

The record that is being collected is the clock: what must not wait for it happens before it arrives.
"""

from __future__ import annotations

import pytest

from streammetrics.connectors.kafka import source as kafka_source
from streammetrics.connectors.kafka.consumer import FETCH_WAIT_MS_MAX
from streammetrics.connectors.source import Input, PollResult
from tests.support.kafka_member import ALL_TASKS, Clock, Member, numbered, running, send, settings_for, turn_until
from tests.tools.servers.kafka import KafkaBroker

COLLECT_SECONDS = 8.0
"""Longer than anything that must not wait for it, and less than the client waits for a response."""


def no_time() -> float:
    """A clock that never makes a check of the brokers due. A check would wait for the fetch, on the same connection."""
    return 0.0


def received(member: Member) -> int:
    return sum(map(len, member.got.values()))


def collect_a_record(broker: KafkaBroker, topic: str, member: Member, seconds: float = COLLECT_SECONDS) -> None:
    """Let the broker hold a fetch and a record for it. The fetch is sent when the previous record has arrived."""
    send(broker, Input(topic, 0), numbered(1))
    turn_until(lambda: received(member) == 1, member)
    member.turn(collect_s=seconds)
    assert received(member) == 1
    send(broker, Input(topic, 0), numbered(1, first=1))


@pytest.fixture
def long_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_source, "FETCH_WAIT_MS_MAX", 60_000)


@pytest.mark.usefixtures("long_fetches")
def test_a_poll_returns_before_the_records_that_are_being_collected(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    with running(settings_for(kafka_broker, *topics), clock=no_time) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        collect_a_record(kafka_broker, topics[0], member)
        member.turn()
        assert received(member) == 1
        turn_until(lambda: received(member) == 2, member)


@pytest.mark.usefixtures("long_fetches")
def test_a_rebalance_does_not_wait_for_records_that_are_being_collected(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    polled: list[PollResult] = []

    def is_reassigned() -> bool:
        polled.append(first.source.poll(0.05))
        return any(result.assigned for result in polled)

    with running(settings_for(kafka_broker, *topics), clock=no_time) as first:
        turn_until(lambda: first.tasks == ALL_TASKS, first)
        collect_a_record(kafka_broker, topics[0], first)
        with running(settings_for(kafka_broker, *topics)) as second:
            turn_until(is_reassigned, second)
            assert not any(result.records for result in polled)
            assert len(frozenset().union(*(result.assigned for result in polled))) == 2


def test_checks_of_the_brokers_succeed_with_the_longest_fetches(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    clock = Clock()
    with running(settings_for(kafka_broker, *topics), clock=clock) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        for number in range(3):
            collect_a_record(kafka_broker, topics[number % 2], member, FETCH_WAIT_MS_MAX / 1_000)
            member.got.clear()
            asked = member.source.health.ends_asked
            clock.advance(60.0)
            turn_until(lambda: member.source.health.ends_asked != asked, member)  # noqa: B023  (used at once)
            assert member.source.health.reachable
            turn_until(lambda: received(member) == 1, member)
            member.got.clear()
