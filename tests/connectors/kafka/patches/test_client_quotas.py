"""The quotas of clients. That a broker answers is tested in tests/integration/test_kafka_quotas.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafka import KafkaAdminClient
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import client_quotas


class TestStillNeeded:
    def test_the_admin_client_has_no_call_for_them(self) -> None:
        assert not [name for name in dir(KafkaAdminClient) if "quota" in name]


def test_without_the_right_there_are_none() -> None:
    manager = SimpleNamespace(run=lambda send, request: SimpleNamespace(entries=None), send=None)
    admin: Any = SimpleNamespace(_manager=manager)
    assert client_quotas.described(admin) == ()


def test_another_client_is_logged_and_not_asked() -> None:
    other: Any = SimpleNamespace()
    with capture_logs() as logged:
        assert client_quotas.described(other) == ()
    assert logged[0]["effect"] == "doctor names no quota"
