"""Tests of the Kafka source while its client cannot be built. The other tests need a real broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kafka.cluster import ClusterMetadata
from structlog.testing import capture_logs

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import source as kafka_source
from streammetrics.connectors.kafka.client import Network
from streammetrics.connectors.kafka.source import REBUILDS_WITHOUT_RECORD_MAX, KafkaSource
from streammetrics.connectors.kafka.topics import Topic
from streammetrics.connectors.source import PollResult
from streammetrics.errors import SourceError


class Unconnected(Network):
    """The network of a client that knows no cluster."""

    cluster = ClusterMetadata()


class Clientless(KafkaSource):
    """A source whose client never starts, as behind a load balancer whose broker is down."""

    tries = -1

    def _build(self) -> None:
        self.tries += 1
        self._network = Unconnected()
        if self.tries:
            raise SourceError(f"the Kafka consumer cannot be started, try {self.tries}")


@contextmanager
def clientless(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clientless]:
    monkeypatch.setattr(kafka_source, "require_copartitioned", lambda _: {"shown": Topic("shown", "", 1)})
    with socket.create_server(("127.0.0.1", 0)) as accepting:
        source = Clientless(KafkaSettings(bootstrap_servers=(f"127.0.0.1:{accepting.getsockname()[1]}",), topics=("shown",)))
        yield source
        source.close()


def test_brokers_that_accept_connections_without_answering_are_an_outage_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    with clientless(monkeypatch) as source, capture_logs() as lines:
        for tries in range(1, 3 * REBUILDS_WITHOUT_RECORD_MAX):
            assert source.poll(0.01) == PollResult({}, frozenset(), frozenset())
            assert source.tries == tries
        assert not source.health.reachable
        assert [line["event"] for line in lines] == ["the Kafka client could not be replaced, trying again"]
        assert source.health.last_error == f"the Kafka consumer cannot be started, try {tries}"
