"""Tests of noticing that another process took this member's place. The integration tests do it with two members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.base import BaseCoordinator
from kafka.errors import FencedInstanceIdError, NotCoordinatorError
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import fencing
from tests.connectors.kafka.patches.client_internals import finished


def consumer_whose_heartbeat_raises(error: Exception | None) -> Any:
    async def send() -> str:
        if error is not None:
            raise error
        return "answered"

    return SimpleNamespace(_coordinator=SimpleNamespace(_send_heartbeat_request=send))


class TestStillNeeded:
    def test_the_unpatched_client_does_not_raise_when_a_heartbeat_is_fenced(self) -> None:
        coordinator = consumer_whose_heartbeat_raises(FencedInstanceIdError())._coordinator
        calls: list[str] = []
        coordinator.heartbeat = SimpleNamespace(sent_heartbeat=lambda: calls.append("sent"))
        coordinator.group_id, coordinator.group_instance_id, coordinator._generation = "group", "instance", None
        coordinator._disable_heartbeat = lambda: calls.append("disabled")
        finished(BaseCoordinator._do_heartbeat(coordinator))
        assert calls == ["sent", "disabled"]


def test_a_fenced_heartbeat_sets_the_event_and_is_raised() -> None:
    consumer = consumer_whose_heartbeat_raises(FencedInstanceIdError())
    fenced = fencing.install(consumer)
    assert not fenced.is_set()
    with pytest.raises(FencedInstanceIdError):
        finished(consumer._coordinator._send_heartbeat_request())
    assert fenced.is_set()


def test_other_errors_and_answers_do_not_set_the_event() -> None:
    failing, answering = consumer_whose_heartbeat_raises(NotCoordinatorError()), consumer_whose_heartbeat_raises(None)
    events = fencing.install(failing), fencing.install(answering)
    with pytest.raises(NotCoordinatorError):
        finished(failing._coordinator._send_heartbeat_request())
    assert finished(answering._coordinator._send_heartbeat_request()) == "answered"
    assert not any(event.is_set() for event in events)


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    with capture_logs() as lines:
        event = fencing.install(cast(KafkaConsumer, object()))
    assert not event.is_set()
    assert [line["event"] for line in lines] == ["fencing is noticed late: kafka-python's private names have changed"]
