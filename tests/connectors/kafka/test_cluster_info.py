"""Tests of the description of a cluster, with a fake admin client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from streammetrics.config.kafka import KafkaSettings
from streammetrics.connectors.kafka import topics
from streammetrics.connectors.kafka.topics import ClusterInfo, read_cluster


@pytest.mark.parametrize(
    ("cluster_id", "brokers", "info"),
    [
        ("abc", [{"broker_id": 3}, {"broker_id": 4}], ClusterInfo("abc", 2, "4.1")),
        (None, [], ClusterInfo("", 0, "")),
    ],
    ids=["two brokers", "nothing known"],
)
def test_a_cluster_is_described(monkeypatch: pytest.MonkeyPatch, cluster_id: Any, brokers: Sequence[Any], info: ClusterInfo) -> None:
    asked = []

    class Admin:
        def describe_cluster(self) -> dict[str, Any]:
            return {"cluster_id": cluster_id, "brokers": brokers}

        def get_broker_version_data(self, broker_id: int) -> Any:
            asked.append(broker_id)
            return SimpleNamespace(broker_version=(4, 1))

    @contextmanager
    def asking(settings: KafkaSettings, what: str) -> Iterator[Admin]:
        yield Admin()

    monkeypatch.setattr(topics, "asking", asking)
    assert read_cluster(KafkaSettings(bootstrap_servers=("nowhere:1",))) == info
    assert asked == [broker["broker_id"] for broker in brokers[:1]]
