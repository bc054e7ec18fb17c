"""Who owns a task, when the group decides on one thread and the service asks on another."""

from __future__ import annotations

from typing import NamedTuple

from structlog.testing import capture_logs

from streammetrics.connectors.kafka.assignment import TaskAssignment


class Place(NamedTuple):
    topic: str
    partition: int


def places(*tasks: int) -> list[Place]:
    return [Place(topic, task) for task in tasks for topic in ("shown", "clicked")]


def fresh() -> tuple[TaskAssignment, list[Place]]:
    held: list[Place] = []
    return TaskAssignment(("shown", "clicked"), held.append), held


class TestTakingOver:
    def test_an_assigned_task_is_held_reported_once_and_flows_when_started(self) -> None:
        ownership, held = fresh()
        ownership.on_partitions_assigned(places(0, 1))
        assert set(held) == set(places(0, 1))
        assert ownership.take() == (frozenset(), frozenset({0, 1}))
        assert ownership.take() == (frozenset(), frozenset())
        assert ownership.start(1)
        assert ownership.flowing == {1}

    def test_a_task_cannot_be_started_before_the_service_was_told(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_assigned(places(0))
        assert not ownership.start(0)
        assert ownership.flowing == frozenset()

    def test_an_empty_assignment_brings_no_tasks(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_revoked([])
        ownership.on_partitions_assigned([])
        assert ownership.take() == (frozenset(), frozenset())

    def test_a_task_of_which_only_some_topics_came_is_held_and_not_reported(self) -> None:
        ownership, held = fresh()
        with capture_logs() as lines:
            ownership.on_partitions_assigned([Place("shown", 0), *places(1)])
        assert Place("shown", 0) in held
        assert ownership.take() == (frozenset(), frozenset({1}))
        assert [line["tasks"] for line in lines] == [[0]]


class TestLosing:
    def test_a_kept_task_is_reported_as_revoked_and_assigned_and_flows_no_more(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_assigned(places(0, 1))
        ownership.take()
        ownership.start(0)
        ownership.on_partitions_revoked(places(0, 1))
        ownership.on_partitions_assigned(places(0))
        assert ownership.flowing == frozenset()
        assert ownership.take() == (frozenset({0, 1}), frozenset({0}))

    def test_what_was_known_before_a_rebalance_starts_nothing(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_assigned(places(0))
        ownership.take()
        ownership.on_partitions_revoked(places(0))
        ownership.on_partitions_assigned(places(0))
        assert not ownership.start(0)  # the claim was made before; the next take tells of the change
        assert ownership.take() == (frozenset({0}), frozenset({0}))
        assert ownership.start(0)

    def test_a_task_that_came_and_went_unseen_is_not_reported(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_assigned(places(0))
        ownership.on_partitions_revoked(places(0))
        assert ownership.take() == (frozenset(), frozenset())

    def test_lost_membership_is_a_revocation(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_assigned(places(0))
        ownership.take()
        ownership.on_partitions_lost(places(0))
        assert ownership.take() == (frozenset({0}), frozenset())

    def test_with_its_client_a_source_loses_every_task(self) -> None:
        ownership, _ = fresh()
        ownership.on_partitions_assigned(places(0, 1))
        ownership.take()
        ownership.end_all()
        assert ownership.take() == (frozenset({0, 1}), frozenset())
        assert ownership.granted == frozenset()
