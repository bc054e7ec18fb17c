"""Tests of keeping a join that ended between two polls. The integration tests do it with a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from kafka import KafkaConsumer
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import KafkaTimeoutError
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import join_fix
from tests.connectors.kafka.patches.client_internals import finished


class Coordinator:
    """A fake of the client's coordinator: every join makes a new generation."""

    def __init__(self) -> None:
        self._generation, self.is_rebalancing = 0, True
        self.completed: list[str] = []

    async def _do_join_and_sync_async(self) -> str:
        self._generation += 1
        return f"assignment {self._generation}"

    async def _on_join_complete_async(self, assignment: str) -> None:
        self.completed.append(assignment)
        self.is_rebalancing = False

    def rebalance_in_progress(self) -> bool:
        return self.is_rebalancing


def patched() -> Any:
    coordinator = Coordinator()
    join_fix.install(cast(KafkaConsumer, SimpleNamespace(_coordinator=coordinator)))
    return coordinator


def join(coordinator: Any) -> Any:
    return finished(coordinator._do_join_and_sync_async())


class TestStillNeeded:
    def test_the_unpatched_client_joins_again_when_a_join_ended_between_two_polls(self) -> None:
        begun: list[Any] = []

        async def ready(timeout_ms: float | None) -> bool:
            return True

        async def wait_for(task: Any, timeout_ms: float | None) -> Any:
            raise KafkaTimeoutError("the poll ends before the join")

        coordinator = SimpleNamespace(
            _use_group_apis=True,
            need_rejoin=lambda: True,
            ensure_coordinator_ready_async=ready,
            rejoining=True,
            _join_task=SimpleNamespace(is_done=True),
            _do_join_and_sync_async=None,
            _manager=SimpleNamespace(call_soon=begun.append, wait_for=wait_for),
        )
        assert not finished(BaseCoordinator.join_group_async(coordinator, timeout_ms=0))
        assert len(begun) == 1, "the client used the join that had ended"


def test_a_join_that_ended_between_two_polls_is_used_by_the_next() -> None:
    coordinator = patched()
    assert join(coordinator) == join(coordinator) == "assignment 1"
    assert coordinator._generation == 1


def test_a_used_join_is_not_used_again() -> None:
    coordinator = patched()
    finished(coordinator._on_join_complete_async(join(coordinator)))
    coordinator.is_rebalancing = True
    assert join(coordinator) == "assignment 2"
    assert coordinator.completed == ["assignment 1"]


def test_a_join_of_another_generation_is_not_used() -> None:
    coordinator = patched()
    join(coordinator)
    coordinator._generation = 7
    assert join(coordinator) == "assignment 8"


def test_a_join_is_not_used_outside_a_rebalance() -> None:
    coordinator = patched()
    join(coordinator)
    coordinator.is_rebalancing = False
    assert join(coordinator) == "assignment 2"


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    consumer = SimpleNamespace(_coordinator=SimpleNamespace())
    with capture_logs() as lines:
        join_fix.install(cast(KafkaConsumer, consumer))
    assert consumer == SimpleNamespace(_coordinator=SimpleNamespace())
    assert [line["event"] for line in lines] == ["joins are not kept: kafka-python's private names have changed"]
