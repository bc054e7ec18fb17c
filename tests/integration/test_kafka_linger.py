"""A broker that collects records for a worker delays nothing but those records.

The record that is being collected is the clock: what must not wait for it happens before it arrives.
"""

from __future__ import annotations

from streammetrics.config.kafka import LINGER_MS_MAX
from streammetrics.connectors.source import Input, PollResult
from tests.support.kafka_member import ALL_TASKS, Clock, Member, numbered, running, send, settings_for, turn_until
from tests.tools.servers.kafka import KafkaBroker

LINGER_MS = 8_000
"""Longer than anything that must not wait for it, and less than the client waits for a response."""


def no_time() -> float:
    """A clock that never makes a check of the brokers due. A check would wait for the fetch, on the same connection."""
    return 0.0


def received(member: Member) -> int:
    return sum(map(len, member.got.values()))


def collect_a_record(broker: KafkaBroker, topic: str, member: Member) -> None:
    """Let the broker hold a fetch and a record for it. The fetch is sent when the previous record has arrived."""
    send(broker, Input(topic, 0), numbered(1))
    turn_until(lambda: received(member) == 1, member)
    send(broker, Input(topic, 0), numbered(1, first=1))


def test_a_poll_returns_before_the_records_that_are_being_collected(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    with running(settings_for(kafka_broker, *topics).model_copy(update={"linger_ms": LINGER_MS}), clock=no_time) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        collect_a_record(kafka_broker, topics[0], member)
        member.turn()
        assert received(member) == 1
        turn_until(lambda: received(member) == 2, member)


def test_a_rebalance_does_not_wait_for_records_that_are_being_collected(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    polled: list[PollResult] = []

    def is_reassigned() -> bool:
        polled.append(first.source.poll(0.05))
        return any(each.assigned for each in polled)

    with running(settings_for(kafka_broker, *topics).model_copy(update={"linger_ms": LINGER_MS}), clock=no_time) as first:
        turn_until(lambda: first.tasks == ALL_TASKS, first)
        collect_a_record(kafka_broker, topics[0], first)
        with running(settings_for(kafka_broker, *topics, linger_ms=0)) as second:
            turn_until(is_reassigned, second)
            assert not any(each.records for each in polled)
            assert len(frozenset().union(*(each.assigned for each in polled))) == 2


def test_checks_of_the_brokers_succeed_with_the_longest_linger_time(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    clock = Clock()
    with running(settings_for(kafka_broker, *topics, linger_ms=LINGER_MS_MAX), clock=clock) as member:
        turn_until(lambda: member.tasks == ALL_TASKS, member)
        for number in range(3):
            collect_a_record(kafka_broker, topics[number % 2], member)
            member.got.clear()
            asked = member.source.health.ends_asked
            clock.advance(60.0)
            turn_until(lambda: member.source.health.ends_asked != asked, member)  # noqa: B023  (used at once)
            assert member.source.health.reachable
            turn_until(lambda: received(member) == 1, member)
            member.got.clear()
