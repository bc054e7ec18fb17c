"""For how many bytes a broker holds a fetch, and the ends of topics that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kafka.consumer.fetcher import Fetcher
from kafka.errors import UnknownTopicOrPartitionError
from kafka.structs import OffsetAndTimestamp, TopicPartition
from structlog.testing import capture_logs

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka.consumer import FETCH_BYTES_MIN, TaskAssignment, ends_of, fetch_bytes_min
from streammetrics.connectors.source import Input

BROKERS = ("127.0.0.1:9092",)


def test_a_broker_collects_records() -> None:
    assert fetch_bytes_min(KafkaSettings(bootstrap_servers=BROKERS)) == FETCH_BYTES_MIN


@pytest.mark.parametrize("partition_bytes", [65_536, 1 << 20, 1 << 30])
def test_one_full_partition_always_ends_the_wait(partition_bytes: int) -> None:
    """Otherwise a worker whose only backlog is on one partition would wait after every fetch."""
    assert 0 < fetch_bytes_min(KafkaSettings(bootstrap_servers=BROKERS, partition_fetch_bytes_max=partition_bytes)) <= partition_bytes


def test_a_topic_without_an_answer_is_an_error_of_the_client() -> None:
    """As in the moment after it was deleted."""
    answers = {TopicPartition("shown", 0): OffsetAndTimestamp(7, None, None)}

    def end_offsets(places: list[TopicPartition], timeout_ms: int) -> Any:
        fetcher = SimpleNamespace(_net=SimpleNamespace(run=lambda *_: dict(answers)), _fetch_offsets_by_times_async=None)
        return Fetcher.beginning_or_end_offset(fetcher, places, -1, timeout_ms)

    consumer = SimpleNamespace(end_offsets=end_offsets)
    assert ends_of(consumer, [Input("shown", 0)]) == {Input("shown", 0): 7}
    with pytest.raises(UnknownTopicOrPartitionError, match="topic='gone', partition=0"):
        ends_of(consumer, [Input("shown", 0), Input("gone", 0)])


class Place(NamedTuple):
    topic: str
    partition: int


def places(*tasks: int) -> list[Place]:
    return [Place(topic, task) for task in tasks for topic in ("shown", "clicked")]


def new_assignment() -> tuple[TaskAssignment, list[Place]]:
    held: list[Place] = []
    return TaskAssignment(("shown", "clicked"), held.append), held


class TestAssigned:
    def test_an_assigned_task_is_held_reported_once_and_flows_when_started(self) -> None:
        assignment, held = new_assignment()
        assignment.on_partitions_assigned(places(0, 1))
        assert set(held) == set(places(0, 1))
        assert assignment.take() == (frozenset(), frozenset({0, 1}))
        assert assignment.take() == (frozenset(), frozenset())
        assert assignment.start(1)
        assert assignment.flowing == {1}

    def test_a_task_cannot_start_before_it_was_reported(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_assigned(places(0))
        assert not assignment.start(0)
        assert assignment.flowing == frozenset()

    def test_an_empty_assignment_reports_no_task(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_revoked([])
        assignment.on_partitions_assigned([])
        assert assignment.take() == (frozenset(), frozenset())

    def test_a_task_with_a_missing_topic_is_held_and_not_reported(self) -> None:
        assignment, held = new_assignment()
        with capture_logs() as lines:
            assignment.on_partitions_assigned([Place("shown", 0), *places(1)])
        assert Place("shown", 0) in held
        assert assignment.take() == (frozenset(), frozenset({1}))
        assert [line["tasks"] for line in lines] == [[0]]
        assert assignment.split == {0}
        assignment.on_partitions_revoked([Place("shown", 0)])
        assert assignment.split == frozenset()


class TestRevoked:
    def test_a_kept_task_is_reported_as_revoked_and_assigned_and_stops_flowing(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_assigned(places(0, 1))
        assignment.take()
        assignment.start(0)
        assignment.on_partitions_revoked(places(0, 1))
        assignment.on_partitions_assigned(places(0))
        assert assignment.flowing == frozenset()
        assert assignment.take() == (frozenset({0, 1}), frozenset({0}))

    def test_a_claim_from_before_a_rebalance_starts_nothing(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_assigned(places(0))
        assignment.take()
        assignment.on_partitions_revoked(places(0))
        assignment.on_partitions_assigned(places(0))
        assert not assignment.start(0)  # the claim is outdated, and the next take reports the change
        assert assignment.take() == (frozenset({0}), frozenset({0}))
        assert assignment.start(0)

    def test_a_task_assigned_and_revoked_between_two_polls_is_not_reported(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_assigned(places(0))
        assignment.on_partitions_revoked(places(0))
        assert assignment.take() == (frozenset(), frozenset())

    def test_lost_membership_is_a_revocation(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_assigned(places(0))
        assignment.take()
        assignment.on_partitions_lost(places(0))
        assert assignment.take() == (frozenset({0}), frozenset())

    def test_a_source_without_its_client_loses_every_task(self) -> None:
        assignment, _ = new_assignment()
        assignment.on_partitions_assigned(places(0, 1))
        assignment.take()
        assignment.end_all()
        assert assignment.take() == (frozenset({0, 1}), frozenset())
        assert assignment.granted == frozenset()
