"""Tests of closing the sockets of failed connections. No broker is needed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kafka.net.compat import KafkaNetClient
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import failed_sockets
from tests.connectors.kafka.patches.connections import closing_every_connection, no_patch, sockets_left_open
from tests.tools.servers.process import free_port


class TestStillNeeded:
    def test_the_unpatched_client_leaves_sockets_of_failed_connections_open(self) -> None:
        with closing_every_connection() as port:
            left = sockets_left_open(no_patch, free_port()), sockets_left_open(no_patch, port, "SSL")
        assert any(left), left


def test_refused_connections_leave_no_socket_open() -> None:
    assert sockets_left_open(failed_sockets.install, free_port()) == 0


def test_connections_whose_handshake_fails_leave_no_socket_open() -> None:
    with closing_every_connection() as port:
        assert sockets_left_open(failed_sockets.install, port, "SSL") == 0


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    client = SimpleNamespace(_manager=SimpleNamespace())
    with capture_logs() as lines:
        failed_sockets.install(cast(KafkaNetClient, client))
    assert client == SimpleNamespace(_manager=SimpleNamespace())
    assert [line["event"] for line in lines] == ["failed sockets are closed late: kafka-python's private names have changed"]
