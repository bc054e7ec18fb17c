"""Tests of task ownership: the group decides it on one thread, and the consumer loop reads it on another."""

from __future__ import annotations

from typing import NamedTuple

from structlog.testing import capture_logs

from streammetrics.connectors.kafka.assignment import TaskAssignment


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
