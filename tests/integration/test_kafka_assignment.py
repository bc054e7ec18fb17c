"""Task ownership in a consumer group of a real broker."""

from __future__ import annotations

import pytest

from streammetrics.connectors.source import Input
from streammetrics.errors import ConfigError
from tests.connectors.kafka.patches.client_internals import generation_of, join_has_ended, vanish
from tests.support.kafka_member import ALL_TASKS, numbered, running, send, settings_for, turn_forever, turn_until
from tests.tools.servers.kafka import KafkaBroker
from tests.tools.servers.process import wait_until


def test_two_members_share_the_tasks_and_each_gets_all_topics_of_its_tasks(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    settings = settings_for(kafka_broker, *topics)
    stored: dict[Input, int] = {}
    with running(settings, stored) as first:
        turn_until(lambda: first.tasks == ALL_TASKS, first)
        with running(settings, stored) as second:
            turn_until(lambda: len(first.tasks) == len(second.tasks) == 2, first, second)
            assert first.tasks | second.tasks == ALL_TASKS
            for task in range(4):
                for topic in topics:
                    send(kafka_broker, Input(topic, task), numbered(5))
            turn_until(lambda: sum(len(records) for member in (first, second) for records in member.got.values()) == 40, first, second)
            for member in (first, second):
                assert {place for place, records in member.got.items() if records} == {
                    Input(topic, task) for topic in topics for task in member.tasks
                }


def test_a_join_that_ends_between_two_polls_is_used_by_the_next(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    with running(settings_for(kafka_broker, *topics)) as member:

        def joined_by_a_poll_that_does_not_wait() -> bool:
            wait_until(lambda: join_has_ended(member.source), what="the join of the last poll has ended")
            member.turn(timeout_s=0.0)
            return member.tasks == ALL_TASKS

        wait_until(joined_by_a_poll_that_does_not_wait, what="the member has its tasks")
        assert generation_of(member.source) == 1


def test_a_member_that_leaves_is_replaced_without_loss_or_repeat(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
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
        turn_until(lambda: first.tasks == ALL_TASKS and set(stored.values()) == {40}, first)
        assert generation_of(first.source) >= 3
        for place in places:
            assert left.values(place) + first.values(place) == numbered(40) or first.values(place) == numbered(40)


def test_a_task_kept_through_a_rebalance_is_revoked_and_assigned_again(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    settings = settings_for(kafka_broker, *topics)
    with running(settings) as first:
        turn_until(lambda: first.tasks == ALL_TASKS, first)
        revoked: set[int] = set()
        assigned: set[int] = set()
        with running(settings) as second:

            def rebalanced() -> bool:
                nonlocal revoked, assigned
                polled = first.source.poll(0.05)
                revoked |= polled.revoked
                assigned |= polled.assigned
                return len(assigned) >= 2

            turn_until(rebalanced, second)
        assert revoked == {0, 1, 2, 3}
        assert len(assigned) == 2


def test_a_member_that_vanishes_is_replaced_after_its_session(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    settings = settings_for(kafka_broker, *topics, session_timeout_ms=1_500)
    stored: dict[Input, int] = {}
    with running(settings, stored) as first:
        turn_until(lambda: first.tasks == ALL_TASKS, first)
        vanish(first.source)
        with running(settings, stored) as second:
            turn_until(lambda: second.tasks == ALL_TASKS, second)


def test_a_member_stops_when_another_process_joins_with_its_instance_id(kafka_broker: KafkaBroker, topics: tuple[str, str]) -> None:
    settings = settings_for(kafka_broker, *topics, group_instance_id="only-one")
    with running(settings) as first, running(settings) as second:
        turn_until(lambda: first.tasks == ALL_TASKS, first)
        turn_until(lambda: second.tasks == ALL_TASKS, second)
        with pytest.raises(ConfigError, match=r"kafka\.group_instance_id = only-one: another process"):
            turn_forever(first)
        first.source.close()
        send(kafka_broker, Input(topics[0], 0), numbered(3))
        turn_until(lambda: len(second.got[Input(topics[0], 0)]) == 3, second)
