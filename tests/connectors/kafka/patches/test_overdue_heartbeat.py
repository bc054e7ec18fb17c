"""Tests of waiting while a heartbeat is overdue. The fault runs freeze real brokers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaConsumer
from kafka.util import Timer
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import overdue_heartbeat


class Consumer(KafkaConsumer):  # type: ignore[misc]  # the client has no types
    """kafka-python's consumer. Its next heartbeat is due in `due_seconds`, and no record comes."""

    def __init__(self, due_seconds: float) -> None:
        self.config = {"group_id": "group", "retry_backoff_ms": 100}
        self.waited_ms: list[float] = []
        self._coordinator = SimpleNamespace(poll=lambda timeout_ms: True, time_to_next_poll=lambda: due_seconds)
        self._fetcher = SimpleNamespace(
            reset_offsets_if_needed=lambda: None,
            maybe_validate_positions=lambda: None,
            validate_offsets_if_needed=lambda: None,
            fetch_records=self._note,
        )
        self._closed = True  # the end of the object closes nothing

    def _refresh_committed_offsets(self, timeout_ms: float | None = None) -> None:
        """All positions are known."""

    def _note(self, *_: Any, timeout_ms: float, **__: Any) -> tuple[dict[Any, Any], bool]:
        self.waited_ms.append(timeout_ms)
        return {}, False


def waits(consumer: Consumer, timeout_ms: float) -> float:
    """Return how long (ms) one wait of a poll lasts."""
    consumer._poll_once(Timer(timeout_ms), 10)
    return consumer.waited_ms[-1]


class TestStillNeeded:
    def test_the_unpatched_client_does_not_wait_while_a_heartbeat_is_overdue(self) -> None:
        assert waits(Consumer(0.0), 60_000) == 0


@pytest.mark.parametrize(("due_seconds", "expected_ms"), [(0.0, 100), (0.05, 100), (2.0, 2_000)])
def test_a_wait_lasts_at_least_a_tenth_of_a_second(due_seconds: float, expected_ms: float) -> None:
    consumer = Consumer(due_seconds)
    overdue_heartbeat.install(consumer)
    assert waits(consumer, 60_000) == expected_ms


def test_a_wait_lasts_no_longer_than_the_poll() -> None:
    consumer = Consumer(0.0)
    overdue_heartbeat.install(consumer)
    assert waits(consumer, 20) <= 20


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    consumer = SimpleNamespace(_coordinator=SimpleNamespace())
    with capture_logs() as lines:
        overdue_heartbeat.install(cast(KafkaConsumer, consumer))
    assert consumer == SimpleNamespace(_coordinator=SimpleNamespace())
    assert [line["event"] for line in lines] == ["polls do not wait for a broker that hangs: kafka-python's private names have changed"]
