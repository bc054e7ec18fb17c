"""Tests of setting how long brokers may hold a fetch. The integration tests do it with a broker."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any, cast

from kafka import KafkaConsumer
from kafka.cluster import ClusterMetadata
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.structs import TopicPartition
from structlog.testing import capture_logs

from streammetrics.connectors.kafka.patches import collected_fetch

PLACE = TopicPartition("events", 0)


def consumer() -> Any:
    """Build the part of a consumer that sends fetches, with one input."""
    subscriptions = SubscriptionState("none")
    subscriptions.assign_from_user([PLACE])
    subscriptions.seek(PLACE, 0)
    cluster = SimpleNamespace(leader_for_partition=lambda _: 1, leader_epoch_for_partition=lambda _: 0)
    manager = SimpleNamespace(_net=None, cluster=cast(ClusterMetadata, cluster), connection_delay=lambda _: 0, broker_version=(4, 0))
    client = SimpleNamespace(_manager=manager, throttle_delay=lambda _: 0)
    return SimpleNamespace(_fetcher=Fetcher(client, subscriptions, metrics=None, fetch_max_wait_ms=100))


def wait_of_a_fetch(reading: Any) -> int:
    ((request, _),) = reading._fetcher._create_fetch_requests().values()
    return int(request.max_wait_ms)


class TestStillNeeded:
    def test_a_poll_of_the_client_cannot_say_how_long_brokers_may_hold_a_fetch(self) -> None:
        assert list(inspect.signature(KafkaConsumer.poll).parameters) == ["self", "timeout_ms", "max_records", "update_offsets"]


def test_the_next_fetches_are_held_for_the_new_time() -> None:
    reading = consumer()
    assert wait_of_a_fetch(reading) == 100
    hold = collected_fetch.install(reading)
    assert wait_of_a_fetch(reading) == 100
    hold(700)
    assert wait_of_a_fetch(reading) == 700


def test_a_client_with_other_private_names_stays_unchanged() -> None:
    with capture_logs() as lines:
        hold = collected_fetch.install(cast(KafkaConsumer, SimpleNamespace(_fetcher=SimpleNamespace(config={}))))
    hold(700)
    assert [line["event"] for line in lines] == ["records are fetched too often: kafka-python's private names have changed"]
