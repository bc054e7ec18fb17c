"""Tests of closing a producer with unsent records. The integration tests do it against a broker that hangs."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import stuck_producer


class Sender:
    """A fake of the producer's thread that sends."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def initiate_close(self) -> None:
        self.calls.append("initiate_close")

    def force_close(self) -> None:
        self.calls.append("force_close")

    def join(self, timeout: float | None = None) -> None:
        self.calls.append("join")

    def is_alive(self) -> bool:
        return "force_close" not in self.calls


class StuckProducer(KafkaProducer):  # type: ignore[misc]  # the client has no types
    """kafka-python's producer, which cannot send its records until they are dropped."""

    def __init__(self) -> None:
        self.config: dict[str, Any] = {"key_serializer": None, "value_serializer": None, "client_id": "test", "transactional_id": None}
        self._closed, self._metrics, self._sender = False, None, Sender()

    def __del__(self) -> None:
        """Skip the client's own clean-up, which closes once more."""

    def _unregister_cleanup(self) -> None:
        """Skip the client's hook at the end of the process."""

    def flush(self, timeout: float | None = None) -> None:
        if "force_close" not in self._sender.calls:
            raise KafkaTimeoutError("records are left")


class TestStillNeeded:
    def test_the_unpatched_close_raises_and_leaves_the_sender_running(self) -> None:
        producer = StuckProducer()
        with pytest.raises(KafkaTimeoutError):
            producer.close(timeout=0.01)
        assert producer._sender.is_alive()


def test_a_producer_with_unsent_records_is_stopped() -> None:
    producer = StuckProducer()
    stuck_producer.close(producer)
    assert not producer._sender.is_alive()
    assert producer._closed


def test_a_producer_without_unsent_records_is_closed_normally() -> None:
    class Producer:
        closed = 0

        def close(self, timeout: float) -> None:
            self.closed += 1

    producer = Producer()
    stuck_producer.close(producer)
    assert producer.closed == 1


def test_a_producer_with_other_private_names_is_reported() -> None:
    class Producer:
        def close(self, timeout: float) -> None:
            raise KafkaTimeoutError("records are left")

    with capture_logs() as lines:
        stuck_producer.close(Producer())
    assert [line["event"] for line in lines] == ["a producer cannot be stopped: kafka-python's private names have changed"]
